"""Keys, limits and origins, on a real server; limits per minute also with a clock that stands still unless set."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from pydantic import ValidationError

from omgm.__main__ import main
from omgm.commands.serve import warn_if_open
from omgm.local_servers import local_server_findings
from omgm.profile import load_profile
from serving.access import MAX_CALLERS, RateLimiter, caller_of
from serving.keys import digest_of, new_key
from serving.settings import ServingSettings
from tests.browser import Browser, by_id, wait
from tests.fakes.asking import WHEN, fault
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.service import World, served

READ, WRITE = "omgm-reader", "omgm-writer"


LOCKED = ServingSettings(read_keys=(digest_of("another"), digest_of(READ)), write_keys=(digest_of(WRITE),))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with served(tmp_path_factory.mktemp("world"), LOCKED) as world:
        yield world


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def ask(client: httpx.Client, headers: dict[str, Any] | None = None, question: str = WHEN) -> httpx.Response:
    fields = {"image": data_uri(image_bytes("red")), "question": question}
    return client.post("/answer", json=fields, headers=headers or {})


def test_digests_are_sha256() -> None:
    """The digest is that of `printf omgm-reader | sha256sum`."""
    assert digest_of(READ) == "93f18e178289cd46de821ca7f0a77af718f974b5bbbca9c1bfac97e66b1f121f"
    assert len({new_key() for _ in range(100)}) == 100
    assert len(new_key()) == len("omgm-") + 43  # 32 bytes in base64 without padding


def test_reading_needs_a_key(client: httpx.Client) -> None:
    for headers, code in (
        ({}, "missing_api_key"),
        ({"Authorization": "Basic b21nbS1yZWFkZXI="}, "missing_api_key"),
        ({"Authorization": "Bearer"}, "missing_api_key"),
        (bearer("wrong"), "invalid_api_key"),
        (bearer(digest_of(READ)), "invalid_api_key"),  # a leaked hash is not a key
        ({"Authorization": b"Bearer \xc3\xa9"}, "invalid_api_key"),
    ):
        response = ask(client, headers)
        assert fault(response) == (401, code, None)
        assert response.headers["www-authenticate"] == 'Bearer realm="omgm"'
        assert len(response.headers["x-request-id"]) == 32
    assert ask(client, bearer(READ)).json()["answer"] == "1848"
    assert ask(client, {"Authorization": f"bearer  {READ}"}).status_code == 200
    for path in ("/entities/0/image", "/examples", "/v1/models", "/nothing"):
        assert fault(client.get(path)) == (401, "missing_api_key", None)
    address = ask(client, bearer(READ)).json()["entity"]["image"]
    assert client.get(address, headers=bearer(READ)).status_code == 200 and client.get(address).status_code == 401


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (f"Bearer Bearer {READ}", "Bearer is there twice"),
        (f"Bearer bearer {READ}", "Bearer is there twice"),
        (f'Bearer "{READ}"', "in quotes or brackets"),
        (f"Bearer '{READ}'", "in quotes or brackets"),
        (f"Bearer <{READ}>", "in quotes or brackets"),
        (f"Bearer {READ} {WRITE}", "has spaces in it"),
        (f"Bearer {digest_of(READ)}", "it is the digest"),
        ("Bearer", "nothing behind Bearer"),
        (READ, "Bearer is missing"),
        (f"Basic {READ}", "Bearer is missing"),
    ],
)
def test_a_key_in_another_form_is_told_what_is_wrong(client: httpx.Client, sent: str, told: str) -> None:
    response = ask(client, {"Authorization": sent})
    assert response.status_code == 401 and told in response.json()["error"]["message"] and READ not in response.text


def test_a_key_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    key = new_key()
    image = data_uri(image_bytes("red"))
    with served(tmp_path) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        fields = {"image": image, "question": WHEN}
        asked = [{**fields, key: 1}, {**fields, "mode": key}, {**fields, "k": key}, {**fields, "image": key}]
        responses = [client.post("/answer", json=one) for one in asked]
        chat = {"model": key, "messages": [{"role": "user", "content": [{"type": key}]}]}
        responses += [client.post("/v1/chat/completions", json=one) for one in (chat, {**chat, "model": "omgm"})]
        responses += [
            client.get(path) for path in (f"/entities/{key}", f"/v1/models/{key}", f"/{key}", f"/examples/{key}")
        ]
        responses.append(client.post(f"/answer?{key}=1", json=fields))
    for response in responses:
        assert response.status_code in (400, 404, 415, 422) and key[5:20] not in response.text, response.text


def test_nothing_is_read_of_a_refused_upload(client: httpx.Client, world: World) -> None:
    before = len(world.retriever.batches)
    assert fault(client.post("/answer", content=b"\0" * 20_000_000)) == (401, "missing_api_key", None)
    assert len(world.retriever.batches) == before


def test_keys_are_apart(client: httpx.Client) -> None:
    assert fault(ask(client, bearer(WRITE))) == (403, "permission_denied", None)
    for method in ("PUT", "PATCH", "DELETE"):
        assert fault(client.request(method, "/entities/1", headers=bearer(READ))) == (403, "permission_denied", None)
        assert fault(client.request(method, "/entities/1")) == (401, "missing_api_key", None)
        response = client.request(method, "/entities/1", headers=bearer(WRITE))  # authorized, then refused
        assert response.status_code == {"PUT": 409, "PATCH": 405, "DELETE": 409}[method]


def test_only_writing_may_need_a_key(tmp_path: Path) -> None:
    settings = ServingSettings(write_keys=(digest_of(WRITE),))
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        assert ask(client).status_code == 200
        assert fault(client.delete("/entities/1")) == (401, "missing_api_key", None)
    settings = ServingSettings(read_keys=(digest_of(READ),))
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        assert fault(client.delete("/entities/1", headers=bearer(READ))) == (403, "permission_denied", None)


def test_what_stays_open(client: httpx.Client) -> None:
    for path in ("/", "/page.js", "/page.css", "/docs", "/docs.js", "/openapi.json", "/health/live", "/health/ready"):
        assert client.get(path).status_code == 200
    for path in ("//health/live", "/health/live/", "/health/live/../../examples", "/page.js/"):
        assert fault(client.get(path))[0] == 401
    document = client.get("/openapi.json").json()  # so that /docs asks for the key
    assert document["components"]["securitySchemes"] == {"HTTPBearer": {"type": "http", "scheme": "bearer"}}
    assert document["paths"]["/answer"]["post"]["security"] == [{"HTTPBearer": []}]


def test_the_api_s_document_says_what_needs_which_key(client: httpx.Client) -> None:
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            wrong = bearer(READ if method in ("put", "delete") else WRITE)
            found = [
                client.request(method, path.format(version="0", name="x", entity_id="x"), headers=headers).status_code
                for headers in ({}, wrong)
            ]
            refused = {401, 403, 421} & {int(status) for status in operation["responses"]}
            assert (found, refused) in (([401, 403], {401, 403, 421}), ([200, 200], set())), path


def test_clients_of_openai(world: World) -> None:
    messages: list[Any] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": WHEN},
                {"type": "image_url", "image_url": {"url": data_uri(image_bytes("red"))}},
            ],
        }
    ]

    def content(key: str) -> str | None:
        with OpenAI(base_url=f"{world.url}/v1", api_key=key, max_retries=0) as client:
            return client.chat.completions.create(model="omgm", messages=messages).choices[0].message.content

    assert content(READ) == "1848"
    with pytest.raises(openai.AuthenticationError) as raised:
        content("wrong")
    assert raised.value.code == "invalid_api_key"
    with pytest.raises(openai.PermissionDeniedError):
        content(WRITE)


def test_doctor_knows_the_locked_service(world: World) -> None:
    port = httpx.URL(world.url).port
    assert port is not None
    assert local_server_findings({port: "vLLM"}, seconds=20)[0].found.startswith("none on ports")


def test_logs_hold_no_keys_and_no_images(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    uri = data_uri(image_bytes("red"))
    for question in (WHEN, "poison", "break the treaty of 1848"):
        ask(client, bearer(READ), question)
    ask(client, bearer("wrong-key"))
    client.post("/answer", json={"image": uri, "question": 7, uri: 1}, headers=bearer(READ))
    client.post("/answer", files={"image": image_bytes("red")}, data={"question": WHEN}, headers=bearer(READ))
    client.post("/v1/chat/completions", json={"model": uri, "messages": [uri]}, headers=bearer(READ))
    assert "secret internals" in caplog.text  # something was logged
    for secret in (READ, "wrong-key", digest_of(READ), uri[30:60], repr(image_bytes("red"))[2:20]):
        assert secret not in caplog.text


def test_a_limit_for_each_key(tmp_path: Path) -> None:
    settings = LOCKED.model_copy(update={"requests_per_minute": 2})
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        for left, refilled in ((1, "30"), (0, "60")):  # seconds, as nearly none have passed
            response = ask(client, bearer(READ))
            assert response.status_code == 200 and response.headers["ratelimit-policy"] == '"minute";q=2;w=60'
            assert response.headers["ratelimit"] == f'"minute";r={left};t={refilled}'
        response = ask(client, bearer(READ))
        assert response.headers["ratelimit"].startswith('"minute";r=0;t=')
        assert fault(response) == (429, "rate_limited", None)
        assert response.headers["retry-after"] in ("29", "30")
        assert response.json()["error"]["type"] == "rate_limit_error"
        assert ask(client, bearer("another")).status_code == 200
        assert fault(ask(client, bearer("wrong"))) == (401, "invalid_api_key", None)
        for _ in range(3):  # not rate-limited
            assert client.get("/entities?id=https://kb/red", headers=bearer(READ)).status_code == 200


def test_a_limit_for_each_address(tmp_path: Path) -> None:
    """Behind a proxy on the same machine, the client's address is the one that the proxy reports."""
    settings = ServingSettings(requests_per_minute=1)
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        first, second = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
        found = [ask(client, headers).status_code for headers in (first, first | bearer("any"), second)]
        assert found == [200, 429, 200]


def test_other_sites(tmp_path: Path, client: httpx.Client) -> None:
    site, asked = {"Origin": "https://shop.example"}, "authorization, traceparent, x-stainless-os"
    ask_first = site | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
    assert "access-control-allow-origin" not in ask(client, site | bearer(READ)).headers
    assert client.options("/answer", headers=ask_first).status_code == 401
    settings = LOCKED.model_copy(update={"cors_origins": ("https://shop.example",)})
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as allowed:
        preflight = allowed.options("/answer", headers=ask_first)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
        assert preflight.headers["access-control-allow-headers"] == asked
        for headers, status in ((site | bearer(READ), 200), (site, 401)):
            response = ask(allowed, headers)
            assert (response.status_code, response.headers["access-control-allow-origin"]) == (status, site["Origin"])
        other = ask(allowed, {"Origin": "https://evil.example"} | bearer(READ))
        assert "access-control-allow-origin" not in other.headers


def test_settings_hold_digests() -> None:
    for wrong in (READ, digest_of(READ).upper(), digest_of(READ)[:-1], ""):
        with pytest.raises(ValidationError, match="the SHA-256 digest that `omgm serve --new-key` prints"):
            ServingSettings(read_keys=(wrong,))
    with pytest.raises(ValueError, match=r"serving\.read_keys\.0: must be the SHA-256 digest") as raised:
        load_profile("embedded", [f'serving.read_keys=["{READ}"]'])
    assert READ not in str(raised.value)


def test_hosts_and_origins_that_could_never_match_are_refused() -> None:
    fits = {"image_hosts": ("example.org:8443", "[::1]:80"), "hosts": ("example.org",)}
    fits["cors_origins"] = ("*", "null", "https://example.org", "http://localhost:3000", "chrome-extension://abc")
    assert ServingSettings.model_validate(fits).cors_origins == fits["cors_origins"]
    for name, wrong in (
        ("image_hosts", "https://example.org"),
        ("image_hosts", "*.example.org"),
        ("hosts", "example.org/"),
        ("cors_origins", "https://example.org/"),
        ("cors_origins", "https://Example.org"),
        ("cors_origins", "example.org"),
    ):
        with pytest.raises(ValidationError, match="such as"):
            ServingSettings.model_validate({name: (wrong,)})


def test_an_open_address_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    warn_if_open("127.0.0.1", ServingSettings())
    warn_if_open("0.0.0.0", LOCKED)
    assert capsys.readouterr().err == ""
    warn_if_open("0.0.0.0", ServingSettings())
    assert capsys.readouterr().err.startswith("Anybody who can reach this address may ask")


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--new-key", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["sha256"] == digest_of(made["key"])
    assert main(["serve", "--new-key"]) == 0
    lines = capsys.readouterr().out.splitlines()
    key, digest = (shlex.split(line)[1] for line in lines[:2])
    assert digest == digest_of(key)
    setting = f'serving.read_keys=["{digest}"]'
    assert load_profile("embedded", [setting]).serving.read_keys == (digest,)


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_asks_for_the_key(chromium: Browser, world: World, tmp_path: Path) -> None:
    path = tmp_path / "flag.png"
    path.write_bytes(image_bytes("red"))
    chromium.get(world.url)

    def shown(selector: str) -> str:
        found = chromium.find_elements("css selector", f".turn:first-child {selector}")
        return found[0].text if found else ""

    wait(chromium, lambda: by_id(chromium, "key").is_displayed())
    by_id(chromium, "file").send_keys(str(path))
    by_id(chromium, "question").send_keys(WHEN + "\n")
    wait(chromium, lambda: shown(".error") == "This service needs a key. Enter it above the question.")
    by_id(chromium, "key").send_keys("wrong\n")
    wait(chromium, lambda: shown(".error") == "The key is not valid.")
    by_id(chromium, "key").clear()
    by_id(chromium, "key").send_keys(READ)
    by_id(chromium, "question").send_keys("\n")
    wait(chromium, lambda: shown(".reply") == "1848")
    broken = "return [...document.images].filter(i => i.checkVisibility() && !i.naturalWidth).length"
    wait(chromium, lambda: chromium.execute_script(broken) == 0)
    image = chromium.find_element("css selector", ".turn:first-child .entity img")
    assert image.get_attribute("src").startswith("blob:")
    chromium.refresh()
    assert by_id(chromium, "key").get_attribute("value") == READ  # for this tab
    chromium.execute_script("sessionStorage.clear()")
    chromium.get_log("browser")  # Chromium logs the refusals


@pytest.mark.slow
@pytest.mark.browser
def test_the_documentation_takes_the_key(chromium: Browser, world: World) -> None:
    def find(selector: str) -> list[Any]:
        found: list[Any] = chromium.find_elements("css selector", selector)
        return found

    chromium.get(f"{world.url}/docs")
    wait(chromium, lambda: find(".btn.authorize"))
    find(".btn.authorize")[0].click()
    wait(chromium, lambda: find(".auth-container input"))
    find(".auth-container input")[0].send_keys(READ)
    find(".auth-container .btn.authorize")[0].click()
    find(".auth-container .btn-done")[0].click()
    find("[id$=list_models_v1_models_get] .opblock-summary-control")[0].click()
    wait(chromium, lambda: find(".try-out__btn"))
    find(".try-out__btn")[0].click()
    find("button.execute")[0].click()
    wait(chromium, lambda: find(".live-responses-table .response-col_status"))
    assert find(".live-responses-table .response-col_status")[-1].text.startswith("200")


@pytest.mark.parametrize("host", ["evil.example", "Evil.example:8000", "127.0.0.1.evil.example", "localhost.", "1.2.3"])
def test_dns_rebinding(tmp_path: Path, host: str) -> None:
    """To a browser, a page of evil.example, if that resolves to 127.0.0.1, has the same origin as the service."""
    with served(tmp_path) as world, httpx.Client(base_url=world.url, trust_env=False, verify=False) as client:
        for method, path in (("POST", "/answer"), ("PUT", "/entities/a"), ("DELETE", "/entities/a"), ("GET", "/info")):
            response = client.request(method, path, headers={"Host": host}, content=b"{}")
            assert (response.status_code, response.json()["error"]["code"]) == (421, "unknown_host")
        assert client.get("/health/ready", headers={"Host": host}).status_code == 200


def test_names_that_the_service_answers_to(tmp_path: Path) -> None:
    settings = ServingSettings(hosts=("Omgm.example",))
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False, verify=False) as client:
        for host in (
            "localhost",
            "LOCALHOST:9",
            "127.0.0.1:80",
            "[::1]:8000",
            "omgm",
            "omgm.example:443",
            "OMGM.example",
        ):
            assert client.get("/info", headers={"Host": host}).status_code == 200


def test_keys_are_enough_against_dns_rebinding(tmp_path: Path) -> None:
    settings = ServingSettings(read_keys=(digest_of("reader"),))
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False, verify=False) as client:
        headers = {"Host": "public.example"}
        assert client.get("/info", headers=headers).status_code == 401
        assert client.get("/info", headers={**headers, "Authorization": "Bearer reader"}).status_code == 200


def test_a_bucket() -> None:
    now = [0.0]
    limiter = RateLimiter(30, lambda: now[0])  # one token every 2 s
    assert [limiter.take("a") for _ in range(31)] == [0.0] * 30 + [2.0]
    assert limiter.take("b") == 0
    now[0] = 1.5
    assert limiter.take("a") == 0.5
    now[0] = 2.0
    assert [limiter.take("a"), limiter.take("a")] == [0, 2]
    now[0] = 1000.0
    assert [limiter.take("a") for _ in range(31)] == [0.0] * 30 + [2.0]  # no more than a minute's worth accumulates


def test_memory_is_bounded() -> None:
    limiter = RateLimiter(1, lambda: 0.0)
    for number in range(MAX_CALLERS + 5):
        assert limiter.take(str(number)) == 0
    assert len(limiter) == MAX_CALLERS
    assert (limiter.take(str(MAX_CALLERS + 4)), limiter.take("0")) == (60, 0)


def test_what_an_address_counts_as() -> None:
    assert caller_of("10.0.0.1") == "10.0.0.1"
    assert caller_of("2001:db8::1") == caller_of("2001:db8:0:0:ffff::2") == "2001:db8::/64"
    assert caller_of("") == ""
