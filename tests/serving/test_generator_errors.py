"""Responses when the generator fails: a real chat server that fails in every way, behind the real service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from chat_models.chat import ChatClient
from generators.chat import ChatGenerator
from serving.settings import ServingSettings
from tests.fakes.asking import WHEN, events
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.service import served

RED = image_bytes("red")
NOBODY = "http://127.0.0.1:9"
FAILURES = [  # model or address, code, message
    (NOBODY, "generator_unavailable", "the generator cannot be reached"),
    ("down", "generator_unavailable", "the generator answered with status 503"),
    ("strict", "generator_refused", "the generator refused the request with status 404"),
    ("broken", "generator_garbled", "the generator's reply could not be read"),
    ("slow", "generator_timeout", "the generator gave no answer within 0.6 s (serving.timeout_s)"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeChatServer]:
    with FakeChatServer() as running:
        yield running


class FailingService:
    """The service with a generator that behaves in one way."""

    def __init__(self, folder: Path, server: FakeChatServer, behavior: str, **settings: Any) -> None:
        url, model = (behavior, "m") if behavior == NOBODY else (server.url, behavior)
        generator = ChatGenerator(ChatClient(url, model, retries=1, backoff=0.01), **settings)
        self._served = served(folder, ServingSettings(timeout_s=0.6 if behavior == "slow" else 20), generator)

    def __enter__(self) -> FailingService:
        self.url = self._served.__enter__().url
        return self

    def __exit__(self, *error: Any) -> None:
        self._served.__exit__(*error)

    def ask(self, **fields: Any) -> httpx.Response:
        body = {"image": data_uri(RED), "question": WHEN, **fields}
        return httpx.post(f"{self.url}/answer", json=body, timeout=20, trust_env=False)

    def upload(self, **options: Any) -> httpx.Response:
        data = {"question": WHEN, "options": json.dumps(options)}
        files = {"image": ("flag.png", RED)}
        return httpx.post(f"{self.url}/answer", files=files, data=data, timeout=20, trust_env=False)


@pytest.mark.slow
@pytest.mark.parametrize(("behavior", "code", "message"), FAILURES)
def test_degrades_or_fails_as_asked(
    tmp_path: Path, server: FakeChatServer, behavior: str, code: str, message: str
) -> None:
    error = {"message": message, "type": "server_error", "param": None, "code": code}
    with FailingService(tmp_path, server, behavior) as service:
        for response in (service.ask(), service.upload(on_generator_error="degrade")):
            body = response.json()
            assert response.status_code == 200
            assert (body["answer"], body["abstained"], body["generator_error"]) == (None, False, error)
            assert (body["entity"]["title"], body["evidence"][0]["section"]) == ("Redland", "History")
            assert len(body["candidates"]) == 3 and "generate" in body["timings_ms"]
        for response in (service.ask(on_generator_error="fail"), service.upload(on_generator_error="fail")):
            assert (response.status_code, response.json()) == (424, {"error": error})
            assert "127.0.0.1" not in response.text  # the generator's address must not leak


@pytest.mark.parametrize(("behavior", "code", "message"), FAILURES)
def test_streams_degrade_or_fail_as_asked(
    tmp_path: Path, server: FakeChatServer, behavior: str, code: str, message: str
) -> None:
    error = {"message": message, "type": "server_error", "param": None, "code": code}
    with FailingService(tmp_path, server, behavior) as service:
        found = events(service.ask(stream=True))
        assert [name for name, _ in found] == ["retrieval", "done"]
        assert found[0][1]["evidence"][0]["section"] == "History"
        done = found[-1][1]
        assert (done["answer"], done["abstained"], done["generator_error"]) == (None, False, error)
        failed = events(service.ask(stream=True, on_generator_error="fail"))
        assert [name for name, _ in failed] == ["retrieval", "error"] and failed[-1][1] == {"error": error}


def test_a_stream_that_breaks_has_no_answer(tmp_path: Path, server: FakeChatServer) -> None:
    with FailingService(tmp_path, server, "troubled") as service:
        found = events(service.ask(stream=True))
    assert [name for name, _ in found] == ["retrieval", "done"]  # a client's first reply is held back to its end
    assert found[-1][1]["answer"] is None and found[-1][1]["generator_error"]["code"] == "generator_unavailable"


def test_a_cut_section_is_reported(tmp_path: Path, server: FakeChatServer) -> None:
    with FailingService(tmp_path, server, "good", max_context_tokens=5) as service:
        body = service.ask().json()
        done = events(service.ask(stream=True))[-1][1]
    assert body["answer"].startswith(
        "heard: - Context: # Wiki Article: Redland\n## Section Title: History\nRedland was a\n- Question"
    )
    assert body["context_truncated"] is True and done["context_truncated"] is True
    assert body["generator_error"] is None and done["answer"] == body["answer"]
    assert body["grounded"] is False and done["grounded"] is False
    with FailingService(tmp_path, server, "good") as service:
        assert service.ask().json()["context_truncated"] is False
