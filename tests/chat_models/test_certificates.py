"""Servers whose certificates only the environment knows, as behind the proxy of a company."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from chat_models.certificates import certificates
from chat_models.proxies import http_client, sync_http_client
from omgm.client import Client
from omgm.profile import load_profile
from omgm.served_app import build_app
from omgm.web_access import WebAccess, WebSettings
from serving.requests import fetch_image
from serving.settings import ServingSettings
from tests.fakes.listening import answering

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")


class Greeting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args: object) -> None:
        """Logs nothing."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of loopback that nobody has signed, with its key in key.pem."""
    folder = tmp_path_factory.mktemp("certificate")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "key.pem", "-nodes"]
    name = ["-subj", "/CN=own", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-out", "own.pem"]
    command = ["openssl", "req", "-x509", *curve, *name]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "own.pem"


@pytest.fixture(scope="module")
def url(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    server = HTTPServer(("127.0.0.1", 0), Greeting)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with answering(server):
        yield f"https://127.0.0.1:{server.server_port}/"


@pytest.fixture(autouse=True)
def new(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets a test set the environment of a process that has read no certificates yet."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    certificates.cache_clear()
    yield monkeypatch
    certificates.cache_clear()


def by_blocking_client(url: str) -> bytes:
    with sync_http_client(url) as client:
        return client.get(url).content


def by_client(url: str) -> bytes:
    async def get() -> bytes:
        async with http_client(url) as client:
            return (await client.get(url)).content

    return asyncio.run(get())


def by_the_service(url: str) -> bytes:
    return asyncio.run(fetch_image(url, ServingSettings(image_hosts=(httpx.URL(url).netloc.decode(),))))


def by_our_client(url: str) -> bytes:
    with Client(url, retries=0) as client:
        return client._http.get("/").content


def by_an_agent(url: str) -> bytes:
    async def get() -> bytes:
        access = WebAccess(WebSettings())
        try:
            return (await access._client.get(url)).content
        finally:
            await access.aclose()

    return asyncio.run(get())


GETS = [by_blocking_client, by_client, by_the_service, by_our_client, by_an_agent]


@pytest.mark.parametrize("get", GETS)
def test_certificates_of_the_environment_are_trusted(
    get: Callable[[str], bytes], url: str, certificate: Path, new: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Exception, match=r"CERTIFICATE_VERIFY_FAILED|could not be fetched"):
        get(url)
    certificates.cache_clear()
    new.setenv("SSL_CERT_FILE", str(certificate))
    assert get(url) == b"hello"
    assert certificates() is certificates()  # read once


def test_a_file_that_has_none_is_named(new: pytest.MonkeyPatch, tmp_path: Path, examples: Path) -> None:
    for path in (tmp_path / "missing.pem", Path(__file__)):
        new.setenv("SSL_CERT_FILE", str(path))
        with pytest.raises(ValueError, match=r"SSL_CERT_FILE is no file of certificates \(.*\); unset it or name"):
            certificates()
    profile = load_profile("embedded", ["serving.image_hosts=['example.org']"])
    with pytest.raises(ValueError, match="SSL_CERT_FILE"):  # not when the first request has the URL of an image
        build_app(profile, examples / "index", read_only=True)
