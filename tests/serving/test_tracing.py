from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from serving.app import create_app
from serving.tracing import tracer_of_environment
from tests.fakes.service import World, body, listening

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
JSON = {"Content-Type": "application/json"}


def spans_of(tmp_path: Path, *requests: httpx.Request) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    world = World(tmp_path)
    from tests.fakes.world import FakeGenerator

    app = create_app(world.retriever, FakeGenerator(), tracer=provider.get_tracer("test"))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, verify=False, timeout=20) as client:
        for request in requests:
            request.url = httpx.URL(url).copy_with(raw_path=request.url.raw_path)
            request.headers["host"] = request.url.netloc.decode()
            client.send(request)
    return exporter


def test_the_spans_of_a_request(tmp_path: Path) -> None:
    headers = {**JSON, "traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "abc"}
    request = httpx.Request("POST", "http://a/answer", content=body(), headers=headers)
    spans = {span.name: span for span in spans_of(tmp_path, request).get_finished_spans()}
    assert list(spans) == ["upload", "decode", "queue", "step1", "step2", "step3", "generate", "POST /answer"]
    whole = spans.pop("POST /answer")
    assert whole.parent is not None and whole.context is not None
    assert f"{whole.parent.span_id:016x}" == PARENT
    assert {f"{span.context.trace_id:032x}" for span in (whole, *spans.values())} == {TRACE}
    assert {span.parent and span.parent.span_id for span in spans.values()} == {whole.context.span_id}
    assert whole.attributes == {
        "http.request.method": "POST",
        "http.route": "/answer",
        "http.response.status_code": 200,
        "omgm.request_id": "abc",
    }
    times = {name: (span.start_time or 0, span.end_time or 0) for name, span in spans.items()}
    steps = [(times[name][1] - times[name][0]) / 1e6 for name in ("step1", "step2", "step3")]
    assert steps == pytest.approx([1.5, 2.25, 3.0], abs=0.01)  # the fake retriever's
    assert times["step1"][0] <= times["step2"][0] <= times["step3"][0]
    assert times["step3"][1] <= times["generate"][1] <= (whole.end_time or 0)


def test_errors_and_what_is_not_told(tmp_path: Path) -> None:
    bad = httpx.Request("POST", "http://a/answer", content=b"{", headers=JSON)
    lost = httpx.Request("GET", "http://a/entities/secret-id?key=secret")
    poison = httpx.Request("POST", "http://a/answer", content=body("poison"), headers=JSON)
    exporter = spans_of(tmp_path, bad, lost, poison)
    whole = [span for span in exporter.get_finished_spans() if span.parent is None]
    assert [(span.name, span.attributes["error.type"]) for span in whole if span.attributes] == [
        ("POST /answer", "malformed_json"),
        ("GET /entities/{entity_id}", "not_found"),
        ("POST /answer", "internal_error"),
    ]
    codes = [span.status.status_code for span in whole]
    assert codes == [StatusCode.UNSET, StatusCode.UNSET, StatusCode.ERROR]
    assert not any("secret" in span.to_json() for span in exporter.get_finished_spans())


def test_off_without_an_endpoint(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert tracer_of_environment() is None
    assert caplog.records == []


def test_on_with_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp", reason="needs the extra otel")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "flags")
    tracer = tracer_of_environment()
    assert tracer is not None
    span = tracer.start_span("unsent")
    assert span.resource.attributes["service.name"] == "flags"  # type: ignore[attr-defined]


def test_an_endpoint_without_the_extra(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with caplog.at_level(logging.WARNING):
        assert tracer_of_environment() is None
    assert "extra otel" in caplog.text
