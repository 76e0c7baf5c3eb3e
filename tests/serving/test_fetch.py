"""Images by URL: only from allowed hosts, whatever a name resolves to at any time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from serving.errors import ApiError
from serving.requests import fetch_image
from serving.settings import ServingSettings
from tests.fakes.listening import answering

NAME = "images.example"


class RecordingHost(HTTPServer):
    """A host on loopback that records the Host headers of its requests."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.headers["Host"])
                place = {"/moved": "/a.png", "/away": "http://192.0.2.1/a.png", "/round": "/round"}.get(self.path)
                self.send_response(302 if place else 200)
                if place:
                    self.send_header("Location", place)
                self.end_headers()
                self.wfile.write(b"content")

            def log_message(self, *args: object) -> None:
                """Logs nothing."""

        server = self
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def host() -> Iterator[RecordingHost]:
    server = RecordingHost()
    with answering(server):
        yield server


@pytest.fixture
def resolved(host: RecordingHost, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records resolved names: the first time to loopback, then elsewhere, as in DNS rebinding."""
    names, real = list[str](), socket.getaddrinfo

    def getaddrinfo(name: str | bytes, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        if name in ("127.0.0.1", b"127.0.0.1") and port not in (80, 443, host.server_port):
            return real(name, port, *args, **kwargs)  # a thread that asks another test's server
        names.append(name.decode() if isinstance(name, bytes) else name)
        address = "127.0.0.1" if len(names) == 1 else "192.0.2.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


def fetched(url: str, *hosts: str) -> bytes:
    return asyncio.run(fetch_image(url, ServingSettings(image_hosts=hosts, timeout_s=5)))


def code(url: str, *hosts: str) -> str:
    with pytest.raises(ApiError) as raised:
        fetched(url, *hosts)
    assert raised.value.status == 422
    return raised.value.code


def test_a_name_is_resolved_once(host: RecordingHost, resolved: list[str]) -> None:
    """The name is checked, not its address, so no second DNS answer comes between check and connection."""
    place = f"{NAME}:{host.server_port}"
    assert fetched(f"http://{place}/a.png", place) == b"content"
    assert resolved == [NAME] and host.asked == [place]


def test_a_name_that_is_not_allowed_is_not_even_resolved(host: RecordingHost, resolved: list[str]) -> None:
    """`evil.example` resolves to loopback, where an allowed host listens; so do lookalike names."""
    port = host.server_port
    for name in ("evil.example", f"{NAME}.evil.example", f"evil-{NAME}", "localhost", "127.0.0.1", f"{NAME}."):
        assert code(f"http://{name}:{port}/a.png", f"{NAME}:{port}") == "host_not_allowed"
    assert code(f"http://{NAME}/a.png", f"{NAME}:{port}") == "host_not_allowed"  # another port
    assert resolved == [] and host.asked == []


def test_a_host_with_the_port_of_a_scheme_is_allowed_by_that_scheme_alone() -> None:
    """Allowed names fail to connect, since `.invalid` never resolves."""
    for allowed, url, expected in (
        ("a.invalid:443", "https://a.invalid/x", "image_fetch_failed"),
        ("a.invalid:443", "https://a.invalid:443/x", "image_fetch_failed"),
        ("A.invalid:80", "http://a.invalid/x", "image_fetch_failed"),
        ("a.invalid:443", "http://a.invalid/x", "host_not_allowed"),
        ("a.invalid:443", "https://a.invalid:8443/x", "host_not_allowed"),
        ("a.invalid", "https://a.invalid/x", "image_fetch_failed"),
        ("a.invalid", "https://a.invalid:8443/x", "host_not_allowed"),
    ):
        assert code(url, allowed) == expected, (allowed, url)


@pytest.mark.parametrize(
    "spelling",
    ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0", "127.0.0.1.nip.io"],
)
def test_other_spellings_of_an_address(host: RecordingHost, resolved: list[str], spelling: str) -> None:
    port = host.server_port
    assert code(f"http://{spelling}:{port}/a.png", f"127.0.0.1:{port}") in ("host_not_allowed", "bad_image_url")
    assert resolved == [] and host.asked == []


def test_redirects_are_followed_to_allowed_hosts_only(host: RecordingHost) -> None:
    place = f"127.0.0.1:{host.server_port}"
    assert fetched(f"http://{place}/moved", place) == b"content"
    assert code(f"http://{place}/away", place) == "host_not_allowed"
    assert host.asked == [place] * 3
    assert code(f"http://{place}/round", place) == "image_fetch_failed"
    assert len(host.asked) == 3 + 6


@pytest.mark.parametrize(
    "url",
    ["http://xn--/", "http://user@127.0.0.1/", "http://\0/", "ftp://127.0.0.1/", "http:///a", "//a/b"],
)
def test_malformed_urls(url: str) -> None:
    assert code(url, "127.0.0.1") == "bad_image_url"
