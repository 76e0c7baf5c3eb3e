"""Prometheus metrics of the service: `GET /metrics`. docs/serving.md lists their names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from fastapi import FastAPI
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from retriever.image_cache import ImageCache
from retriever.types import Generation
from serving.admission import Admission
from serving.errors import error_code, errors, noting_status, route_of

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one service, in their own registry. Labels have few values: never a question, a key or a path."""

    def __init__(self, admission: Admission, cache: ImageCache) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # these series are not part of the text format
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_CacheCounts(cache))
        self.requests = Counter(
            "omgm_requests", "Requests by route and HTTP status.", ("route", "status"), registry=registry
        )
        self.request_seconds = Histogram(
            "omgm_request_duration_seconds",
            "Seconds from the headers of a request to the end of its response.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.errors = Counter("omgm_errors", "Requests answered with an error, by code.", ("code",), registry=registry)
        self.generator_errors = Counter(
            "omgm_generator_errors", "Answers that the generator failed to give, by code.", ("code",), registry=registry
        )
        self.refusals = Counter("omgm_refusals", "Requests refused with 429, by code.", ("code",), registry=registry)
        self.answers = Counter(
            "omgm_answers",
            "Answers by outcome: answered, abstained, declined, failed.",
            ("outcome",),
            registry=registry,
        )
        self._of = lru_cache(self._labeled)  # few combinations occur; looking up the labels costs more than counting
        self.agents = Counter(
            "omgm_agent_runs",
            "Runs of agents by mode and outcome: answered, abstained, failed.",
            ("mode", "outcome"),
            registry=registry,
        )
        self.agent_tokens = Counter(
            "omgm_agent_tokens", "Tokens of agents' requests to their model, by mode.", ("mode",), registry=registry
        )
        self.tokens = Counter(
            "omgm_generator_tokens",
            "Tokens of the generator's prompts and completions, as its server counts them.",
            ("kind",),
            registry=registry,
        )
        self.stages = Histogram(
            "omgm_stage_duration_seconds",
            "Seconds per stage: decode, queue and generate of each request, each step of each batch.",
            ("stage",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.batch_sizes = Histogram("omgm_batch_size_queries", "Queries per batch.", buckets=_SIZES, registry=registry)
        self.batch_seconds = Histogram(
            "omgm_batch_duration_seconds", "Seconds of a batch on the models.", buckets=_SECONDS, registry=registry
        )
        self._gauge(
            "omgm_requests_inside", "Requests that hold a place, from upload to retrieval.", lambda: admission.inside
        )
        self._gauge("omgm_estimated_wait_seconds", "Seconds that a request would wait now.", admission.wait)
        self._gauge("omgm_cache_bytes", "Bytes of images that are kept, decoded or encoded.", lambda: cache.bytes)
        self._gauge("omgm_seconds_per_query", "Seconds per query by the last batches.", admission.seconds_per_query)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """Records a request that has been answered."""
        counters, histogram = self._of(route_of(scope), status, error_code(scope))
        for counter in counters:
            counter.inc()
        histogram.observe(seconds)

    def stage(self, name: str, seconds: float) -> None:
        """Records how long a stage took."""
        self.stages.labels(name).observe(seconds)

    def batch(self, waits: list[float], seconds: float, steps_ms: Mapping[str, float]) -> None:
        """Records a batch: how long each query waited for it, how long it took, and each step in milliseconds."""
        self.batch_sizes.observe(len(waits))
        self.batch_seconds.observe(seconds)
        for wait in waits:
            self.stage("queue", wait)
        for name, value in steps_ms.items():
            self.stage(name, value / 1000)

    def answer(self, generation: Generation, failed: bool, seconds: float) -> None:
        """Records the outcome of the generator, its tokens, and the seconds it took."""
        self.stage("generate", seconds)
        none = "declined" if generation.declined else "abstained"
        self.answers.labels("failed" if failed else none if generation.abstained else "answered").inc()
        self.tokens.labels("prompt").inc(generation.prompt_tokens or 0)
        self.tokens.labels("completion").inc(generation.completion_tokens or 0)

    def agent(self, mode: str, abstained: bool, failed: bool, tokens: int) -> None:
        """Records a run of an agent."""
        self.agents.labels(mode, "failed" if failed else "abstained" if abstained else "answered").inc()
        self.agent_tokens.labels(mode).inc(tokens)

    def _labeled(self, route: str, status: int, code: str) -> tuple[list[Counter], Histogram]:
        """Returns the counters and the histogram for these labels."""
        counters = [self.requests.labels(route, status)]
        if code:
            counters.append(self.errors.labels(code))
        if status == 429:
            counters.append(self.refusals.labels(code))
        return counters, self.request_seconds.labels(route)

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        Gauge(name, text, registry=self.registry).set_function(read)


class _CacheCounts(Collector):
    """Exports the hits and misses of a cache."""

    def __init__(self, cache: ImageCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Yields one counter."""
        text = "Images looked up in the cache, by what was sought (decode, step1, step2) and result."
        counter = CounterMetricFamily("omgm_cache_requests", text, labels=["cache", "result"])
        for labels, count in self._cache.counts.copy().items():
            counter.add_metric(labels, count)
        yield counter


class MetricsMiddleware:
    """Counts and times every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()

        def note(status: int) -> None:
            self._metrics.request(scope, status, time.perf_counter() - started)

        await noting_status(self.app, scope, receive, send, note)


def add_metrics(app: FastAPI, metrics: Metrics) -> None:
    """Adds `GET /metrics` and the middleware that counts requests; middleware added later wraps it."""
    app.add_middleware(MetricsMiddleware, metrics=metrics)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **errors()})
    async def show_metrics() -> Response:
        """Shows the service's metrics in Prometheus's text format."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
