"""Handles one request: decodes the image, queues the query for a batch, passes the best section to the generator."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread
from PIL import Image

from chat_models.deadlines import within
from chat_models.errors import ChatError
from generators.stop import stopped, until_stop
from retriever.asking import Generator, QueryRetriever
from retriever.filters import check, limited, scoped
from retriever.image_cache import ImageCache, set_content
from retriever.results import Answer, Retrieval
from retriever.types import NO_IMAGE, Evidence, Generation, GenerationRequest, Options, Query, RetrievalResult
from serving.admission import Admission
from serving.batcher import Batcher
from serving.errors import ApiError, as_api_error
from serving.fields import CheckedRequest
from serving.images import decode_image
from serving.index_view import IndexView
from serving.lanes import ParallelRetriever, PipelinedRetriever, batched, submitting
from serving.metrics import Metrics
from serving.requests import image_bytes, naming
from serving.schemas import AnswerOut, ErrorDetail, EvidenceOut, OnGeneratorError, RetrieveOut
from serving.settings import ServingSettings
from serving.tracing import Traces

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """A request between retrieval and generation: the generator's input, the result and the response so far."""

    request: GenerationRequest
    retrieval: Retrieval
    response: RetrieveOut
    started: float
    thoughts: bool = False


class Service:
    """Answers requests with one retriever and one generator."""

    def __init__(
        self,
        retriever: QueryRetriever,
        generator: Generator,
        settings: ServingSettings,
        cache: ImageCache,
        traces: Traces,
    ) -> None:
        self.index = retriever.index
        check(self.index, (), settings.key_filters.values())
        self.view = IndexView(self.index, counted=not settings.key_filters)
        self.generator = generator
        self.settings = settings
        lanes = retriever.lanes if isinstance(retriever, ParallelRetriever) else ()
        in_flight = retriever.in_flight if isinstance(retriever, PipelinedRetriever) else 1
        answers = getattr(generator, "concurrency", 1)  # one that does not say answers one after the other
        self.admission = Admission(settings, in_flight=max(in_flight, len(lanes)), answers=answers)
        self._cache = cache
        self.traces = traces
        self.metrics = Metrics(self.admission, cache)
        reader = batched(generator)
        read = None if reader is None else reader.read_all
        self.batcher = Batcher(retriever.retrieve, settings, self.admission, self.metrics, in_flight, lanes, read)
        if reader is not None:
            self.generator = submitting(generator, self.batcher.read)
        self._decoders = anyio.CapacityLimiter(settings.decode_threads)

    async def retrieve(self, checked: CheckedRequest, request_id: str) -> PendingAnswer:
        """Decodes the images, if there are any, and runs the retrieval; each image counts as a request meanwhile.

        Raises:
            ApiError: An image is invalid, the deadline passes in the queue, or the worker is dead.
        """
        started, deadline = time.perf_counter(), time.monotonic() + self.settings.timeout_s
        options = await self.check_filter(checked)
        with self.admission.inner(len(checked.images[1:])):
            first, *more = (await self.decode(checked))[0] or [NO_IMAGE]
            decoded = time.perf_counter()
            query = Query(first, checked.question, request_id, options, before=checked.before, more=tuple(more))
            result = await self.batcher.submit(query, deadline)
        waited = _ms(decoded) - sum(result.timings_ms.values())
        timings = {"decode": (decoded - started) * 1000, "queue": max(waited, 0.0), **result.timings_ms}
        self.traces.stages(timings, time.perf_counter())
        return self._pending(checked, query, result, timings, started)

    async def check_filter(self, checked: CheckedRequest) -> Options:
        """Returns the options of a search, limited to what the caller may see.

        Raises:
            ApiError: 422 if the index has no such field, value or entity that the caller may see.
        """
        if not checked.options.filter and checked.options.entity is None:
            return scoped(checked.options)
        try:
            return await anyio.to_thread.run_sync(limited, self.index, checked.options)
        except ValueError as error:
            if str(error).startswith("entity"):
                raise ApiError(422, "bad_entity", str(error), param="entity") from error
            raise ApiError(422, "bad_filter", str(error), param="filter") from error

    def _pending(
        self,
        checked: CheckedRequest,
        query: Query,
        result: RetrievalResult,
        timings: Mapping[str, float],
        started: float,
    ) -> PendingAnswer:
        found = Retrieval.of(self.index, query, result)
        response = self.view.retrieved(
            found,
            self.settings.evidence_sections,
            timings_ms=_rounded({**timings, "total": _ms(started)}),
            request_id=query.id,
        )
        request = found.request()
        others = request.others[: self.settings.evidence_sections - 1]  # which are in the response
        request = replace(request, stop=checked.stop, max_tokens=checked.max_tokens, others=others)
        return PendingAnswer(request, found, response, started, checked.thoughts)

    async def decode(self, checked: CheckedRequest) -> tuple[list[Image.Image], float]:
        """Decodes the images of a request; returns them and the seconds that took.

        Raises:
            ApiError: An image is invalid.
        """
        images, total = list[Image.Image](), 0.0
        for number, given in enumerate(checked.images, start=1):
            with naming(number, len(checked.images)):
                data = await image_bytes(given, self.settings)
                image, seconds = await anyio.to_thread.run_sync(self._decode, data, limiter=self._decoders)
            self.admission.decoded(seconds)
            self.metrics.stage("decode", seconds)
            images.append(image)
            total += seconds
        return images, total

    async def retrieve_query(self, query: Query) -> RetrievalResult:
        """Retrieves for an agent, in a batch with other requests; never refused for lack of a place.

        Raises:
            ValueError: The worker is dead, or the query times out in the queue.
        """
        query = replace(query, options=scoped(query.options))
        with self.admission.inner():
            try:
                return await self.batcher.submit(query, time.monotonic() + self.settings.timeout_s)
            except ApiError as error:
                raise ValueError(error.message) from error

    async def answer_query(self, query: Query) -> tuple[str | None, RetrievalResult]:
        """Answers an agent's query; returns the generator's answer and the result of retrieval.

        Raises:
            ValueError: The worker or the generator failed.
        """
        result = await self.retrieve_query(query)
        request = Retrieval.of(self.index, query, result).request()
        try:
            generation = await self._generate(request, self.settings.timeout_s)
        except Exception as error:
            raise ValueError(self.generator_failure(error, query.id).message) from error
        return generation.answer, result

    async def _generate(self, request: GenerationRequest, seconds: float) -> Generation:
        async with within(seconds):
            [generation] = await self.generator.generate([request])
        return generation

    def _decode(self, data: bytes) -> tuple[Image.Image, float]:
        """Returns the image and the seconds that decoding took."""
        started = time.perf_counter()
        content = hashlib.sha256(data).hexdigest()
        image: Image.Image | None = self._cache.get("decode", content)
        if image is None:
            image = decode_image(data, self.settings)
            set_content(image, content)
            self._cache.put("decode", content, image, image.width * image.height * 3)
        return image, time.perf_counter() - started

    def time_left(self, pending: PendingAnswer) -> float:
        """Returns the seconds left for the answer."""
        return self.settings.timeout_s - (time.perf_counter() - pending.started)

    async def answer(self, pending: PendingAnswer, on_error: OnGeneratorError = "degrade") -> AnswerOut:
        """Asks the generator; returns its answer with the retrieval result.

        Raises:
            ApiError: The generator failed or timed out, and `on_error` is "fail".
        """
        started = time.perf_counter()
        try:
            with self.admission.answering():
                generation = await self._generate(pending.request, self.time_left(pending))
        except Exception as error:
            failure = self.generator_failure(error, pending.response.request_id)
            if on_error == "fail":
                raise failure from error
            return self._answered(pending, Generation(None), started, failure)
        return self._answered(pending, stopped(generation, pending.request.stop), started)

    async def stream_answer(
        self, pending: PendingAnswer, on_error: OnGeneratorError = "degrade"
    ) -> AsyncIterator[str | AnswerOut | ApiError]:
        """Yields pieces of the answer's text, then the whole answer.

        If the generator fails, whatever pieces it has sent, the last item is a null answer, or the error if `on_error`
        is "fail": it is too late to change the status.
        """
        started, generation, failure = time.perf_counter(), Generation(None), None
        pieces = until_stop(self.generator.stream(pending.request), pending.request.stop)
        try:
            with self.admission.answering() as pause:
                while True:
                    async with within(self.time_left(pending)):
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    if isinstance(piece, Generation):
                        generation = piece
                    else:
                        with pause():
                            yield piece
        except Exception as error:
            generation = Generation(None)
            failure = self.generator_failure(error, pending.response.request_id)
        if failure and on_error == "fail":
            yield failure
        else:
            yield self._answered(pending, generation, started, failure)

    def generator_failure(self, error: Exception, request_id: str) -> ApiError:
        """Counts and logs a failure of the generator; returns the error for the client, without its URL or message."""
        failure = self._cause(error, request_id)
        self.metrics.generator_errors.labels(failure.code).inc()
        return failure

    def _cause(self, error: Exception, request_id: str) -> ApiError:
        if isinstance(error, TimeoutError):
            message = f"the generator gave no answer within {self.settings.timeout_s:g} s (serving.timeout_s)"
            logger.warning("request %s: %s", request_id, message)
            return ApiError(424, "generator_timeout", message)
        lost = isinstance(error, ApiError) and error.status == 503  # the process that read the answer has ended
        if not isinstance(error, ChatError) and not lost:
            return as_api_error(error, request_id)
        logger.warning("request %s: %s", request_id, error)
        if isinstance(error, ChatError) and error.timed_out:
            return ApiError(424, "generator_timeout", f"the generator gave {error.message}")
        if isinstance(error, ChatError) and error.incomplete:
            return ApiError(424, "generator_garbled", f"the generator's reply is incomplete: {error.message}")
        if not isinstance(error, ChatError) or error.status is None:
            return ApiError(424, "generator_unavailable", "the generator cannot be reached")
        if error.status == 429 or error.status >= 500:
            asked = "" if error.wait is None else f" and asks to be tried again in {error.wait:.0f} s"
            return ApiError(424, "generator_unavailable", f"the generator answered with status {error.status}{asked}")
        if error.status >= 300:
            return ApiError(424, "generator_refused", f"the generator refused the request with status {error.status}")
        return ApiError(424, "generator_garbled", "the generator's reply could not be read")

    def _answered(
        self, pending: PendingAnswer, generation: Generation, started: float, failure: ApiError | None = None
    ) -> AnswerOut:
        answer = Answer.to(pending.retrieval, generation, _ms(started))
        evidence = [] if answer.quote else _answering_first(pending.response.evidence, answer.evidence)
        if answer.span is not None:
            evidence = [evidence[0].model_copy(update={"span": answer.span}), *evidence[1:]]
        timings = {name: value for name, value in pending.response.timings_ms.items() if name != "total"}
        timings |= {"generate": answer.timings_ms["generate"], "total": _ms(pending.started)}
        self.metrics.answer(generation, failure is not None, timings["generate"] / 1000)
        self.traces.stage("generate", started, time.perf_counter())
        return AnswerOut.of(
            pending.response,
            answer,
            entity=answer.entity and pending.response.entity,
            evidence=evidence,
            timings_ms=_rounded(timings),
            abstained=answer.abstained and failure is None,
            reason=None if failure else answer.reason,
            context_truncated=answer.truncated,
            generator=self.generator.name,
            thoughts=answer.thoughts if pending.thoughts else None,
            generator_error=ErrorDetail.model_validate(failure.body()["error"]) if failure else None,
        )


def _answering_first(evidence: list[EvidenceOut], answering: Evidence | None) -> list[EvidenceOut]:
    """Returns the sections with the one first that the answer is from; `None` is the first."""
    place = None if answering is None else answering.section_index
    return sorted(evidence, key=lambda section: place not in (None, section.section_index))


def _ms(since: float) -> float:
    return (time.perf_counter() - since) * 1000


def _rounded(timings: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in timings.items()}
