"""The service behind a real nginx, with the blocks that docs/serving.md shows; skipped where nginx is not installed."""

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

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx")

URL = "https://kb.example//wiki/../a?b=c"


def block() -> str:
    """Returns the documented block for nginx."""
    found = re.search(r"```nginx\n(.*?)```", (ROOT / "docs/serving.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@contextmanager
def behind_nginx(folder: Path, upstream: str, locations: str) -> Iterator[str]:
    """Yields the address of an nginx with these locations, of which the upstream is `upstream`."""
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    locations = locations.replace("http://127.0.0.1:8000", upstream)
    paths = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;\n"
        "events { worker_connections 64; }\n"
        f"http {{ access_log off; {paths}\nserver {{ listen 127.0.0.1:{port};\n{locations}\n}} }}\n"
    )
    server = subprocess.Popen([NGINX, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf", "-p", str(folder)])
    try:
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "error.log").read_text()
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def test_ids_survive_the_documented_block(tmp_path: Path) -> None:
    nginx = tmp_path / "nginx"
    nginx.mkdir()
    with (
        served_world(tmp_path / "world", ServingSettings()) as live,
        behind_nginx(nginx, live.url, block()) as url,
        Client(f"{url}/omgm") as client,
        httpx.Client(base_url=url, trust_env=False, timeout=30) as http,
    ):
        row = {"title": "Zed", "sections": SECTIONS}
        assert client.put_entity(URL, row).created and not client.put_entity(URL, row).created
        assert live.editor.index.row_of(URL) is not None
        path = f"/omgm/entities/{quote(URL, safe='')}"
        for method, content in (("PUT", {"json": row}), ("DELETE", {})):
            refused = http.request(method, path, **content)  # type: ignore[arg-type]
            assert refused.status_code == 422 and f"{method} /entities?id=" in refused.json()["error"]["message"]
        assert len(live.editor.index) == 3
        assert http.get(f"/omgm/entities?id={quote(URL, safe='')}").json()["title"] == "Zed"
        assert client.delete_entity(URL).id == URL and live.editor.index.row_of(URL) is None


def test_photographs_streams_and_the_page_pass_the_documented_block(tmp_path: Path) -> None:
    nginx = tmp_path / "nginx"
    nginx.mkdir()
    with served(tmp_path) as world, behind_nginx(nginx, world.url, block()) as url:
        with Client(f"{url}/omgm") as client:
            padded = image_bytes("red") + b"\0" * 3_000_000  # more than nginx's own limit
            assert client.answer(padded, "When was the treaty?").entity is not None
            *_, last = client.stream(image_bytes("red"), "When was the treaty?")
            assert last is not None
        page = httpx.get(f"{url}/omgm/", trust_env=False)
        assert page.status_code == 200 and "page.js" in page.text
        assert httpx.get(f"{url}/omgm/page.js", trust_env=False).status_code == 200


def test_without_a_limit_of_its_own_nginx_refuses_photographs_with_a_page(tmp_path: Path) -> None:
    """What the page of the service and the clients have to understand."""
    nginx = tmp_path / "nginx"
    nginx.mkdir()
    plain = "location /omgm/ { proxy_pass http://127.0.0.1:8000/; }"
    with served(tmp_path) as world, behind_nginx(nginx, world.url, plain) as url:
        files = {"image": ("a.png", image_bytes("red") + b"\0" * 3_000_000)}
        data = {"question": "When was the treaty?", "options": json.dumps({})}
        response = httpx.post(f"{url}/omgm/answer", files=files, data=data, trust_env=False)
        assert response.status_code == 413 and "<title>413" in response.text
