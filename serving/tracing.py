"""OpenTelemetry traces (extra `otel`): a span for each request, and one for each of its stages.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set; OpenTelemetry's standard variables
configure the rest (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS). OpenTelemetry is imported only
if tracing is on.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.errors import error_code, noting_status, route_of

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

logger = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def tracer_of_environment() -> Tracer | None:
    """Returns a tracer that sends spans to the endpoint in the environment, or `None` if there is none."""
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("tracing is off although an OTLP endpoint is set: install the extra otel")
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", "omgm")
    provider = TracerProvider(resource=Resource.create())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("omgm.serving")


class Traces:
    """Writes the spans of one service.

    Args:
        tracer: Creates the spans; without one, the methods do nothing.
    """

    def __init__(self, tracer: Tracer | None) -> None:
        self.tracer = tracer

    def stage(self, name: str, began: float, ended: float) -> None:
        """Adds a stage to the current request; `began` and `ended` are `time.perf_counter` times."""
        if self.tracer is not None:
            offset = time.time_ns() - time.perf_counter() * 1e9
            span = self.tracer.start_span(name, start_time=int(offset + began * 1e9))
            span.end(int(offset + ended * 1e9))

    def stages(self, milliseconds: dict[str, float], ended: float) -> None:
        """Adds consecutive stages, the last of which ended at `ended`."""
        began = ended - sum(milliseconds.values()) / 1000
        for name, value in milliseconds.items():
            self.stage(name, began, began + value / 1000)
            began += value / 1000


class TracingMiddleware:
    """Wraps every request in a span, a child of the request's `traceparent` if there is one.

    A span has method, route, status, error code and request id, never a path, a question or a header.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.app, self._tracer, self._propagator = app, tracer, TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application within a span."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, StatusCode

        parent = self._propagator.extract(Headers(scope=scope))
        with self._tracer.start_as_current_span(
            scope["method"], parent, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:

            def note(status: int) -> None:
                route = route_of(scope)
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.request.method", scope["method"])
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)
                span.set_attribute("omgm.request_id", scope.get("state", {}).get("request_id", ""))
                if code := error_code(scope):
                    span.set_attribute("error.type", code)
                if status >= 500:
                    span.set_status(StatusCode.ERROR)

            await noting_status(self.app, scope, receive, send, note)
