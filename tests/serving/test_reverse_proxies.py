"""The service behind a real nginx and a real Caddy, with the blocks that docs/serving.md shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from omgm.client import Client
from serving.settings import ServingSettings
from tests.fakes.images import image_bytes
from tests.fakes.service import served
from tests.paths import ROOT
from tests.serving.test_entities import SECTIONS, served_world

PROGRAMS = {name: shutil.which(name) or shutil.which(f"/usr/sbin/{name}") for name in ("nginx", "caddy")}
"""The proxies of Debian's packages."""
URL = "https://kb.example//wiki/../a?b=c"


@pytest.fixture(params=PROGRAMS)
def proxy(request: pytest.FixtureRequest) -> str:
    """The name of a proxy that is installed."""
    name = str(request.param)
    if PROGRAMS[name] is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    return name


def block(proxy: str) -> str:
    """Returns the documented block for a proxy."""
    page = (ROOT / "docs/serving.md").read_text()
    blocks: list[str] = re.findall(r"```\w*\n(.*?)```", page, re.DOTALL)
    return next(one for one in blocks if proxy in one.lower())


def nginx_command(folder: Path, port: int, locations: str) -> list[str]:
    """Writes the configuration of nginx with these locations; returns the command that starts it."""
    paths = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;\n"
        "events { worker_connections 64; }\n"
        f"http {{ access_log off; {paths}\nserver {{ listen 127.0.0.1:{port};\n{locations}\n}} }}\n"
    )
    return [str(PROGRAMS["nginx"]), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf", "-p", str(folder)]


def caddy_command(folder: Path, port: int, site: str) -> list[str]:
    """Writes the configuration of Caddy with this site, without TLS; returns the command that starts it."""
    site = site.replace("example.org", f"http://127.0.0.1:{port}")
    (folder / "Caddyfile").write_text(f"{{\n    admin off\n}}\n{site}")
    return [str(PROGRAMS["caddy"]), "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


@contextmanager
def behind(proxy: str, folder: Path, upstream: str, config: str) -> Iterator[str]:
    """Yields the address of a proxy with this configuration, of which the upstream is `upstream`."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = config.replace("127.0.0.1:8000", upstream.removeprefix("http://"))
    command = (nginx_command if proxy == "nginx" else caddy_command)(folder, port, config)
    with (folder / "output").open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env={"HOME": str(folder)})
    try:
        for _ in range(1000):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "output").read_text()
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def test_ids_survive_the_documented_block(proxy: str, tmp_path: Path) -> None:
    with (
        served_world(tmp_path / "world", ServingSettings()) as live,
        behind(proxy, tmp_path / proxy, live.url, block(proxy)) as url,
        Client(f"{url}/omgm") as client,
        httpx.Client(base_url=url, trust_env=False, timeout=30) as http,
    ):
        row = {"title": "Zed", "sections": SECTIONS}
        assert client.put_entity(URL, row).created and not client.put_entity(URL, row).created
        assert live.editor.index.row_of(URL) is not None
        path = f"/omgm/entities/{quote(URL, safe='')}"
        for method, content in (("PUT", {"json": row}), ("DELETE", {}), ("GET", {})):
            said = http.request(method, path, **content)  # type: ignore[arg-type]
            if proxy == "caddy" and method == "PUT":  # it leaves the path as it is
                assert said.status_code == 200 and not said.json()["created"]
            elif proxy == "nginx":  # it decodes %2F and merges slashes
                assert said.status_code == (404 if method == "GET" else 422)
                assert f"{method} /entities?id=" in said.json()["error"]["message"]
            assert len(live.editor.index) == (2 if (proxy, method) == ("caddy", "DELETE") else 3)
            client.put_entity(URL, row)
        assert http.get(f"/omgm/entities?id={quote(URL, safe='')}").json()["title"] == "Zed"
        assert client.delete_entity(URL).id == URL and live.editor.index.row_of(URL) is None


def test_photographs_streams_and_the_page_pass_the_documented_block(proxy: str, tmp_path: Path) -> None:
    with served(tmp_path) as world, behind(proxy, tmp_path / proxy, world.url, block(proxy)) as url:
        with Client(f"{url}/omgm") as client:
            padded = image_bytes("red") + b"\0" * 3_000_000  # more than nginx's own limit
            assert client.answer(padded, "When was the treaty?").entity is not None
            *_, last = client.stream(image_bytes("red"), "When was the treaty?")
            assert last is not None
        page = httpx.get(f"{url}/omgm/", trust_env=False)
        assert page.status_code == 200 and "page.js" in page.text
        assert httpx.get(f"{url}/omgm/page.js", trust_env=False).status_code == 200


@pytest.mark.skipif(PROGRAMS["nginx"] is None, reason="nginx is not installed: apt-get install nginx")
def test_without_a_limit_of_its_own_nginx_refuses_photographs_with_a_page(tmp_path: Path) -> None:
    """What the page of the service and the clients have to understand."""
    plain = "location /omgm/ { proxy_pass http://127.0.0.1:8000/; }"
    with served(tmp_path) as world, behind("nginx", tmp_path / "nginx", world.url, plain) as url:
        files = {"image": ("a.png", image_bytes("red") + b"\0" * 3_000_000)}
        data = {"question": "When was the treaty?", "options": json.dumps({})}
        response = httpx.post(f"{url}/omgm/answer", files=files, data=data, trust_env=False)
        assert response.status_code == 413 and "<title>413" in response.text
