"""In a network namespace where every address leads to this machine: which doors let anything through to a private one?

Prints what each door made of each URL, and what arrived. Run by `tests/omgm/downloads/test_doors.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote

from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings
from omgm.downloads.images.web import Web
from omgm.web_access import WebAccess, WebSettings
from search_agents.browsing.chromium import find_chromium
from serving.errors import ApiError
from serving.requests import fetch_image
from serving.settings import ServingSettings

PUBLIC = "93.184.216.34"
NAMES = {
    "private.example": ["10.0.0.5"],
    "mixed.example": [PUBLIC, "10.0.0.5"],
    "six.example": ["64:ff9b::a9fe:a9fe"],
    "local.example": ["::1", "127.0.0.1"],
}
_HOSTS = """
127.0.0.1 127.1 127.8.8.8 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 0 0.0.0.0 127.0.0.1. localhost localhost.
a.localhost 10.0.0.5 172.16.0.9 192.168.1.1 169.254.169.254 2852039166 0xA9FEA9FE 0251.0376.0251.0376 100.64.0.1
192.0.0.8 198.18.0.1 168.63.129.16 224.0.0.1 255.255.255.255 127\u30020\u30020\u30021 \uff11\uff12\uff17.0.0.1
\u2460\u2461\u2466.\u24ea.\u24ea.\u2460 %31%32%37.0.0.1 private.example private.example. PRIVATE.EXAMPLE
mixed.example six.example local.example [::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [::ffff:0:127.0.0.1]
[64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::a00:5] [2002:7f00:1::] [2002:a9fe:a9fe::] [fec0::1] [fc00::1]
[fd00:ec2::254] [fe80::1%25lo] [fe80::1] [2001:4860:4860::5efe:7f00:1]
"""
HOSTS = _HOSTS.split()
TRICKS = [
    "http://{public}@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@{public}/",
    "http://{public}\\@127.0.0.1:{port}/",
]
REACHING = """<body><script>
for (const place of {places}) {{
  fetch("http://" + place + "/fetch", {{mode: "no-cors"}}).catch(() => 0);
  new Image().src = "http://" + place + "/image";
  new WebSocket("ws://" + place + "/socket"); navigator.sendBeacon("http://" + place + "/beacon");
  new EventSource("http://" + place + "/events"); open("http://" + place + "/window");
  for (const tag of ["iframe", "script", "link", "object", "video"]) {{
    const element = document.createElement(tag), name = {{link: "href", object: "data"}}[tag] || "src";
    element[name] = "http://" + place + "/" + tag;
    if (tag == "link") element.rel = "stylesheet"; document.body.append(element);
  }}
  new RTCPeerConnection({{iceServers: [{{urls: "stun:" + place}}]}}).createDataChannel("x");
  try {{ new WebTransport("https://" + place + "/x"); }} catch (error) {{}}
}}
</script><div style="background: url(http://127.0.0.1:{port}/style)">seen</div></body>"""


class Pages(BaseHTTPRequestHandler):
    """The public site: redirects of every kind, and a page whose parts reach for private places."""

    port = 0
    reached: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.reached.append(self.connection.getsockname()[0].removeprefix("::ffff:"))
        kind, _, target = self.path.lstrip("/").partition("?")
        target, status, headers, body = unquote(target), 200, {"Content-Type": "text/html"}, "<p>A public page.</p>"
        if kind == "moved":
            status, headers = 302, {"Location": target}
        elif kind == "refresh":
            headers["Refresh"] = f"0; url={target}"
        elif kind == "meta":
            body = f'<meta http-equiv="refresh" content="0;url={target}"><p>A page.</p>'
        elif kind == "script":
            body = f'<p>A page.</p><script>location.href = "{target}"</script>'
        elif kind == "reaching":
            places = json.dumps([f"{host}:{self.port}" for host in REACHED])
            body = REACHING.format(places=places, port=self.port)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body.encode()))}.items():
            self.send_header(name, value.encode().decode("latin-1"))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments: Any) -> None:
        """Logs nothing."""


REACHED = ["127.0.0.1", "10.0.0.5", "private.example", "[::1]", "[64:ff9b::a9fe:a9fe]", "2130706433", "169.254.169.254"]


class DualStack(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 200


def prepare() -> tuple[int, list[str]]:
    """Makes all addresses local, and listens; returns the port, and the list of what arrives there."""
    for command in ("link set lo up", "route add local 0.0.0.0/0 dev lo", "-6 route add local ::/0 dev lo"):
        subprocess.run(["ip", *command.split()], check=True)
    resolve = socket.getaddrinfo

    def resolved(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        name = (host.decode() if isinstance(host, bytes) else str(host or "")).lower().rstrip(".")
        if name == "moves.example":
            moved.append(1)
            return resolve(PUBLIC if len(moved) == 1 else "127.0.0.1", port, *rest, **named)
        if name.rpartition(".")[2] == "localhost":
            name = "127.0.0.1"
        found = [one for address in NAMES.get(name, [name]) for one in numeric(address, port, *rest, **named)]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return found

    def numeric(address: str, port: Any, *rest: Any, **named: Any) -> Any:
        if re.search(r"[g-z%]", address.removeprefix("0x").partition("%")[0]):
            return []  # a name, which would only wait for a server of names
        return resolve(address, port, *rest, **named)

    moved: list[int] = []
    socket.getaddrinfo = resolved
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=200)
    port = int(listener.getsockname()[1])
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.bind(("::", port))
    for address in ("10.0.0.5", "64:ff9b::a9fe:a9fe"):  # both do lead here
        with socket.create_connection((address, port), timeout=5):
            listener.accept()[0].close()
    arrived: list[str] = []

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            arrived.append(connection.getsockname()[0])
            connection.close()

    def receive() -> None:
        while True:
            arrived.append(f"datagram from {datagrams.recvfrom(2048)[1][0]}")

    for listening in (accept, receive):
        threading.Thread(target=listening, daemon=True).start()
    return port, arrived


async def outcome(door: Callable[[str], Awaitable[object]], url: str) -> str:
    """Returns "fetched" if a function that fetches URLs could, else its error."""
    try:
        await door(url)
    except (Failure, ValueError, OSError, ApiError) as error:
        return f"refused: {error}"[:120]
    return "fetched"


async def main() -> None:
    """Tries every door with every URL."""
    port, arrived = prepare()
    site = DualStack(("::", 0), Pages)
    Pages.port = port
    threading.Thread(target=site.serve_forever, daemon=True).start()
    public = f"{PUBLIC}:{site.server_address[1]}"
    urls = [f"http://{host}:{port}/" for host in HOSTS]
    urls += [trick.format(public=public, port=port) for trick in TRICKS]
    redirects = [f"http://{public}/moved?{url}" for url in urls]
    settings = DownloadSettings(
        user_agent="test (a@b.example)", per_second=10_000, per_host=50, silence_s=5, attempt_s=10
    )
    web = WebAccess(WebSettings(pages=settings, screenshots="--browser" in sys.argv))
    report: dict[str, Any] = {}
    async with Web(settings) as images:
        doors: dict[str, Callable[[str], Awaitable[object]]] = {
            "page": lambda url: web.fetch(url, 1 << 20),  # type: ignore[misc]
            "knowledge base": lambda url: images.get(url, 1 << 20),
            "image": lambda url: fetch_image(url, ServingSettings(image_hosts=(public,))),
        }
        if web.screenshot is not None:
            screenshot = web.screenshot
            doors = {"screenshot": lambda url: screenshot(url, "top")}
            urls, redirects = urls[::6] + urls[-3:], redirects[::9]
            redirects += [f"http://{public}/{kind}?http://127.0.0.1:{port}/" for kind in ("refresh", "meta", "script")]
            redirects += [f"http://{public}/reaching"]
        for name, door in doors.items():
            tried = [*urls, *(redirects[::6] if name == "image" else redirects)]
            report[name] = dict(zip(tried, await asyncio.gather(*(outcome(door, url) for url in tried)), strict=True))
        public_pages = [f"http://moves.example:{site.server_address[1]}/", *[f"http://{public}/"] * 2]
        found = [await outcome(doors[name], url) for name, url in zip(doors, public_pages, strict=False)]
    await asyncio.sleep(0.2)
    await web.aclose()
    print(json.dumps({"doors": report, "arrived": arrived, "public": found, "reached": sorted(set(Pages.reached))}))


if __name__ == "__main__":
    if "--browser" in sys.argv and find_chromium() is None:
        sys.exit("Chromium is not installed")
    asyncio.run(main())
