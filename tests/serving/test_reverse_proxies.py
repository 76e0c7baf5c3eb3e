"""The service behind a real nginx and a real Caddy, with the blocks of docs/serving.md and with docker/nginx.conf."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from omgm.client import Client
from retriever.asking import Generator
from retriever.types import Generation, GenerationRequest
from serving.schemas import AnswerOut, RetrieveOut
from serving.settings import ServingSettings
from tests.fakes.asking import WHEN, ask, fault
from tests.fakes.connection import connected
from tests.fakes.images import image_bytes
from tests.fakes.listening import free_port
from tests.fakes.service import World, post, served, wait_until
from tests.fakes.world import FakeGenerator
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
    events = "events { worker_connections 64; }"
    return own_nginx(folder, f"{events}\nhttp {{\nserver {{ listen 127.0.0.1:{port};\n{locations}\n}} }}\n")


def shedding_command(folder: Path, port: int, config: str) -> list[str]:
    """Writes docker/nginx.conf for this port; returns the command that starts nginx."""
    return own_nginx(folder, config.replace("listen 8080;", f"listen 127.0.0.1:{port};"))


def own_nginx(folder: Path, config: str) -> list[str]:
    """Writes a configuration; returns the command that starts nginx with all its files in a folder."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(config.replace("http {", f"http {{ access_log off; {paths}", 1))
    user = "user root;" if os.geteuid() == 0 else ""
    options = ["-g", f"{user} daemon off; pid {folder}/pid;", "-e", f"{folder}/error.log"]
    return [str(PROGRAMS["nginx"]), *options, "-c", f"{folder}/nginx.conf", "-p", str(folder)]


def caddy_command(folder: Path, port: int, site: str) -> list[str]:
    """Writes the configuration of Caddy with this site, without TLS; returns the command that starts it."""
    site = site.replace("example.org", f"http://127.0.0.1:{port}")
    (folder / "Caddyfile").write_text(f"{{\n    admin off\n}}\n{site}")
    return [str(PROGRAMS["caddy"]), "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


COMMANDS = {"nginx": nginx_command, "caddy": caddy_command, "shedding nginx": shedding_command}


@contextmanager
def behind(proxy: str, folder: Path, upstream: str, config: str) -> Iterator[str]:
    """Yields the address of a proxy with this configuration, of which the upstream is `upstream`."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = config.replace("127.0.0.1:8000", upstream.removeprefix("http://"))
    command = COMMANDS[proxy](folder, port, config)
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


PLACES = 6


@contextmanager
def shedding(folder: Path, generator: Generator | None = None, *, dead: bool = False) -> Iterator[tuple[World, str]]:
    """Yields a service, and the address of an nginx that lets only `PLACES` questions in, or has a dead service."""
    if PROGRAMS["nginx"] is None:
        pytest.skip("nginx is not installed: apt-get install nginx")
    config = (ROOT / "docker/nginx.conf").read_text()
    assert config.count("limit_conn questions 24;") == 1
    config = config.replace("questions 24;", f"questions {PLACES};")
    with (
        served(folder, ServingSettings(max_batch=PLACES), generator) as world,
        behind("shedding nginx", folder / "nginx", f"127.0.0.1:{free_port()}" if dead else world.url, config) as url,
    ):
        yield world, url


@contextmanager
def all_places_taken(world: World, url: str) -> Iterator[None]:
    """Keeps as many questions in the service as the proxy lets in; all of them are answered afterwards."""
    world.retriever.gate.clear()
    with ThreadPoolExecutor(PLACES) as pool:
        held = [pool.submit(post, url) for _ in range(PLACES)]

        def inside() -> int:
            waiting = httpx.get(f"{world.url}/health/ready", trust_env=False).json()["waiting"]
            return sum(map(len, world.retriever.batches)) + int(waiting)

        try:
            wait_until(lambda: inside() == PLACES)
            yield
        finally:
            world.retriever.gate.set()
        assert [call.result().status_code for call in held] == [200] * PLACES


def test_ten_times_as_many_questions_as_there_are_places(tmp_path: Path) -> None:
    """Nine of ten are refused at once, in the format of all errors; the service sees only the others."""
    with shedding(tmp_path) as (world, url), httpx.Client(base_url=url, trust_env=False, timeout=20) as client:
        photograph = image_bytes("red") + b"\0" * 300_000
        with all_places_taken(world, url):
            took = []
            for _ in range(9 * PLACES):  # on one connection, which is kept
                began = time.perf_counter()
                response = ask(client, photograph)
                took.append(time.perf_counter() - began)
                assert fault(response) == (429, "queue_full", None) and response.headers["retry-after"] == "1"
            assert statistics.median(took) < 0.02
            assert client.get("/info").status_code == 200  # other routes are not limited
        assert sum(map(len, world.retriever.batches)) == PLACES
        assert ask(client, photograph).status_code == 200


@pytest.mark.parametrize("ending", [b"", b"Connection: close\r\n"])
def test_a_client_that_is_still_sending_can_read_the_refusal(tmp_path: Path, ending: bytes) -> None:
    with shedding(tmp_path) as (world, url), all_places_taken(world, url), connected(url) as sock:
        sock.sendall(b"POST /answer HTTP/1.1\r\nHost: a\r\n" + ending + b"Content-Length: 3000000\r\n\r\n")
        sock.sendall(bytes(3_000_000))
        assert sock.recv(4096).startswith(b"HTTP/1.1 429 ")


def test_large_bodies_pass_and_slow_ones_do_not_reach_the_service(tmp_path: Path) -> None:
    with shedding(tmp_path) as (_, url), httpx.Client(base_url=url, trust_env=False, timeout=20) as client:
        assert ask(client, image_bytes("red") + b"\0" * 3_000_000).json()["answer"] == "1848"
        assert ask(client, image_bytes("red") + b"\0" * 45_000_000).status_code == 413
        with connected(url) as slow:
            slow.sendall(b"POST /answer HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + bytes(50_000))
            assert ask(client).status_code == 200
            assert "\nomgm_requests_inside 0.0\n" in client.get("/metrics").text


class WaitingGenerator(FakeGenerator):
    """Begins its answer once it may."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        assert await asyncio.to_thread(self.gate.wait, 20)
        async for piece in super().stream(request):
            yield piece


def test_a_stream_is_not_held_back(tmp_path: Path) -> None:
    generator = WaitingGenerator()
    with shedding(tmp_path, generator) as (_, url), Client(url) as client:
        pieces = client.stream(image_bytes("red"), WHEN)
        assert isinstance(next(pieces), RetrieveOut)
        generator.gate.set()
        *text, last = pieces
        assert "".join(map(str, text)) == "1848" and isinstance(last, AnswerOut)


def test_a_dead_service(tmp_path: Path) -> None:
    with shedding(tmp_path, dead=True) as (_, url), httpx.Client(base_url=url, trust_env=False, timeout=20) as client:
        for response in (ask(client), client.get("/health/ready")):
            assert fault(response) == (503, "not_ready", None) and response.headers["retry-after"] == "5"
