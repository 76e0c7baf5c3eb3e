"""Which proxy is used for an address, from the variables of the environment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.proxies import http_client, proxy_for, sync_http_client, through_proxy
from omgm.client import Client, ServiceError
from tests.fakes.raw_server import RawServer, response

PROXY = "http://proxy.example:3128"
FAR = "http://far.example/v1"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)
    yield monkeypatch


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost/v1", "https://[::1]:2", "http://127.3.0.1",
                                 "http://a.localhost"])  # fmt: skip
@pytest.mark.parametrize("value", [PROXY, "socks://127.0.0.1:7897", "nonsense://"])
def test_loopback_is_reached_directly(environment: pytest.MonkeyPatch, url: str, value: str) -> None:
    for name in ("ALL_PROXY", "HTTP_PROXY", "https_proxy"):
        environment.setenv(name, value)
    assert proxy_for(url) is None and through_proxy(url) == ""
    http_client(url)
    sync_http_client(url).close()
    ChatClient(url, "m")


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, FAR, None),
        ({"HTTP_PROXY": PROXY}, FAR, PROXY),
        ({"http_proxy": PROXY}, FAR, PROXY),
        ({"HTTPS_PROXY": PROXY}, FAR, None),
        ({"HTTPS_PROXY": PROXY}, "https://far.example", PROXY),
        ({"ALL_PROXY": PROXY}, FAR, PROXY),
        ({"ALL_PROXY": "http://other:1", "HTTP_PROXY": PROXY}, FAR, PROXY),
        ({"HTTP_PROXY": "proxy.example:3128"}, FAR, PROXY),
        ({"HTTP_PROXY": " "}, FAR, None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "*"}, FAR, None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "other, far.example"}, FAR, None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": ".example"}, FAR, None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "*.example"}, FAR, None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "r.example"}, FAR, PROXY),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "far.example:80"}, FAR, None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "far.example:81"}, FAR, PROXY),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "::1/128,fe80::/10"}, FAR, PROXY),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "::1/128,fe80::/10"}, "http://[fe80::1]:8001/v1", None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, "http://10.2.3.4", None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, "http://11.2.3.4", PROXY),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "10.2.3.4"}, "http://10.2.3.4", None),
        ({"HTTP_PROXY": PROXY, "NO_PROXY": "[fe80::1]"}, "http://[fe80::1]/", None),
    ],
)
def test_which_proxy(environment: pytest.MonkeyPatch, variables: dict[str, str], url: str, proxy: str | None) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    assert proxy_for(url) == proxy


@pytest.mark.parametrize("value", ["socks4://a:1", "ftp://a:1", "http://", "http://a:b", "socks5://"])
def test_an_unusable_variable_is_named(environment: pytest.MonkeyPatch, value: str) -> None:
    environment.setenv("ALL_PROXY", value)
    for make in (http_client, sync_http_client, Client, lambda url: ChatClient(url, "m")):
        with pytest.raises(ValueError, match=r"^ALL_PROXY=") as raised:
            make(FAR)
        assert "\n" not in str(raised.value)


def test_socks_needs_a_package(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ALL_PROXY", "socks://user:secret@127.0.0.1:7897")
    environment.setattr("chat_models.proxies.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"ALL_PROXY=socks://….*socksio.*add far.example to NO_PROXY") as raised:
        proxy_for(FAR)
    assert "secret" not in str(raised.value)
    environment.setattr("chat_models.proxies.find_spec", lambda name: object())
    assert proxy_for(FAR) == "socks5://user:secret@127.0.0.1:7897"


async def test_a_dead_proxy_is_named_in_one_line(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTP_PROXY", "http://user:secret@127.0.0.1:9")
    expected = r"through the proxy http://…@127.0.0.1:9 of HTTP_PROXY"

    async with ChatClient(FAR, "m", retries=0) as client:
        with pytest.raises(ChatError, match=expected):
            await client.check()
        with pytest.raises(ChatError, match=expected):
            await client.converse([{"role": "user", "content": "?"}], 1)
    with Client("http://far.example", retries=0) as client, pytest.raises(ServiceError, match=expected):
        client.delete_entity("a")


def test_requests_go_through_the_proxy(environment: pytest.MonkeyPatch) -> None:
    with RawServer(lambda *_: [response({"data": [{"id": "m"}]})]) as proxy:
        environment.setenv("HTTP_PROXY", proxy.url)

        async def check() -> str:
            async with ChatClient(FAR, "m") as client:
                return await client.check()

        assert asyncio.run(check()) == "http://far.example/v1/models offers m"
        assert [path for path, _ in proxy.requests] == ["http://far.example/v1/models"]


@pytest.mark.parametrize("value", ["http://user:pass@word@127.0.0.1:9", "user:pass@word@127.0.0.1:9"])
def test_a_password_is_never_shown(environment: pytest.MonkeyPatch, value: str) -> None:
    environment.setenv("HTTP_PROXY", value)
    assert through_proxy(FAR).endswith("…@127.0.0.1:9 of HTTP_PROXY)") and "word" not in through_proxy(FAR)


def test_the_page_of_a_proxy_names_its_variable(environment: pytest.MonkeyPatch) -> None:
    page = response(b"<title>ERR_CONNECT_FAIL</title>", "503 Service Unavailable", "text/html")
    with RawServer(lambda *_: [page]) as proxy:
        environment.setenv("HTTP_PROXY", proxy.url)

        async def ask() -> None:
            async with ChatClient(FAR, "m", retries=0) as client:
                await client.converse([{"role": "user", "content": "?"}], 1)

        with pytest.raises(ChatError, match=r'"ERR_CONNECT_FAIL" \(HTML\) \(through the proxy .* of HTTP_PROXY\)'):
            asyncio.run(ask())
