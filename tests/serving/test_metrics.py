"""`GET /metrics` and the logs of a real server."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from chat_models.chat import ChatClient
from generators.chat import ChatGenerator
from serving.logs import REQUEST_ID, JsonFormatter
from serving.settings import ServingSettings
from tests.fakes.asking import WHEN
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.service import SMALL, World, full, post, served, wait_until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with served(tmp_path) as world:
        yield world


def ask(client: httpx.Client, question: str = WHEN, path: str = "/answer", **fields: Any) -> httpx.Response:
    return client.post(path, json={"image": data_uri(image_bytes("red")), "question": question, **fields})


def samples(client: httpx.Client) -> dict[str, float]:
    """The service's own samples by name and labels, without timings."""
    text = client.get("/metrics").text
    return {
        sample.name + ("{" + ",".join(sample.labels.values()) + "}" if sample.labels else ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("omgm_") and not sample.name.endswith(("_created", "_bucket"))
    }


def test_what_is_counted(client: httpx.Client) -> None:
    image = ask(client).json()["entity"]["image"]
    ask(client, "What is the flag of one color?")  # abstains
    ask(client, "When did the treaty break?")  # the generator fails
    ask(client, "", "/retrieve")
    ask(client, path="/retrieve")
    client.get(image)
    client.get("/nothing")
    found = samples(client)
    assert found["omgm_requests_total{/answer,200}"] == 3
    assert found["omgm_requests_total{/retrieve,200}"] == found["omgm_requests_total{/retrieve,422}"] == 1
    wait_until(lambda: samples(client).get("omgm_requests_total{/entities/{version}/image,200}") == 1)
    assert found["omgm_requests_total{none,404}"] == 1
    assert found["omgm_request_duration_seconds_count{/answer}"] == 3
    assert found["omgm_errors_total{empty_question}"] == found["omgm_errors_total{not_found}"] == 1
    assert found["omgm_generator_errors_total{internal_error}"] == 1
    assert [found[f"omgm_answers_total{{{name}}}"] for name in ("answered", "abstained", "failed")] == [1, 1, 1]
    counts = {name: found[f"omgm_stage_duration_seconds_count{{{name}}}"] for name in ("decode", "queue", "generate")}
    assert counts == {"decode": 4, "queue": 4, "generate": 3}
    assert found["omgm_batch_size_queries_count"] == found["omgm_batch_duration_seconds_count"] == 4
    assert found["omgm_batch_size_queries_sum"] == 4
    # The fake retriever reports 1.5, 2.25 and 3 ms for the steps of every batch.
    assert found["omgm_stage_duration_seconds_sum{step2}"] == pytest.approx(4 * 0.00225)
    assert found["omgm_cache_requests_total{decode,miss}"] == 1  # four questions about one image
    assert found["omgm_cache_requests_total{decode,hit}"] == 3
    assert found["omgm_cache_bytes"] == 60 * 40 * 3
    assert found["omgm_requests_inside"] == 0 and found["omgm_estimated_wait_seconds"] == 0
    assert found["omgm_seconds_per_query"] > 0


def test_refusals_are_counted(tmp_path: Path) -> None:
    with served(tmp_path, SMALL) as world, httpx.Client(base_url=world.url, trust_env=False, verify=False) as client:
        with full(world):
            assert post(world.url).status_code == 429
        found = samples(client)
    assert found["omgm_requests_total{/answer,429}"] == 1
    assert found["omgm_refusals_total{queue_full}"] == found["omgm_errors_total{queue_full}"] == 1


def test_the_format_is_prometheus_s(client: httpx.Client) -> None:
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    if sys.platform == "linux":
        assert "process_resident_memory_bytes" in response.text


def test_metrics_need_a_key_where_the_service_does(tmp_path: Path) -> None:
    settings = ServingSettings(read_keys=("0" * 64,))
    with served(tmp_path, settings) as world:
        assert httpx.get(f"{world.url}/metrics", verify=False).status_code == 401


@contextmanager
def access_log(handler: logging.Handler) -> Iterator[None]:
    """Logs the service's requests to a handler as JSON."""
    logger = logging.getLogger("serving.access")
    before = logger.level
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def test_a_request_is_one_line_of_json(client: httpx.Client) -> None:
    written = io.StringIO()
    with access_log(logging.StreamHandler(written)):
        client.post("/answer?key=omgm-secret", headers={"x-request-id": "run-7"}, json={"question": "?"})
        wait_until(lambda: written.getvalue().endswith("\n"))  # after the response
    assert "omgm-secret" not in written.getvalue()
    line = json.loads(written.getvalue())
    assert line["seconds"] >= 0 and line["time"].endswith("+00:00")
    assert line["message"] == f"request run-7: POST /answer 422 unknown_option {line['seconds']} s"  # all of it in text
    del line["seconds"], line["time"], line["message"]
    assert line == {
        "level": "info",
        "logger": "serving.access",
        "request_id": "run-7",
        "method": "POST",
        "route": "/answer",
        "status": 422,
        "code": "unknown_option",
    }


def test_records_know_their_request() -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, "%s is “late”\n", ("it",), None)
    assert "request_id" not in json.loads(JsonFormatter().format(record))
    token = REQUEST_ID.set("r1")
    try:
        line = json.loads(JsonFormatter().format(record))
    finally:
        REQUEST_ID.reset(token)
    assert (line["level"], line["message"], line["request_id"]) == ("warning", "it is “late”\n", "r1")
    try:
        raise ValueError("broken")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "ValueError: broken" in json.loads(JsonFormatter().format(record))["exception"]


def test_a_full_disk_does_not_stop_the_service(tmp_path: Path) -> None:
    """/dev/full fails every write like a full disk."""
    with open("/dev/full", "w") as disk:
        with (
            access_log(logging.StreamHandler(disk)),
            served(tmp_path) as world,
            httpx.Client(base_url=world.url, trust_env=False, verify=False) as client,
        ):
            assert [ask(client).json()["answer"] for _ in range(2)] == ["1848", "1848"]
        with suppress(OSError):
            disk.close()


def test_tokens_of_the_generator_are_counted(tmp_path: Path) -> None:
    with FakeChatServer() as server:
        generator = ChatGenerator(ChatClient(server.url, "counting", retries=0))
        with served(tmp_path, generator=generator) as world, httpx.Client(base_url=world.url, verify=False) as client:
            assert ask(client).json()["answer"].startswith("heard: ")
            assert "event: done" in ask(client, stream=True).text
            found = samples(client)
    assert found["omgm_generator_tokens_total{prompt}"] == 240
    assert found["omgm_generator_tokens_total{completion}"] == 14


def test_an_internal_error_is_counted(client: httpx.Client) -> None:
    assert ask(client, "poison").status_code == 500
    found = samples(client)
    assert found["omgm_requests_total{/answer,500}"] == 1
    assert found["omgm_errors_total{internal_error}"] == 1
