"""The HTTP service: `create_app` connects a retriever and a generator to routes; `omgm serve` runs it."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.security import HTTPBearer
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from retriever.asking import Generator, QueryRetriever
from retriever.image_cache import ImageCache
from serving import intake
from serving.access import AccessMiddleware, with_cors
from serving.editing import Editor, OpenEditor
from serving.entities import add_entity_routes
from serving.errors import ApiError, Responses, errors, install_error_handlers
from serving.events import EVENTS, agent_events, answer_events, event_stream, retrieval_events
from serving.fields import CheckedRequest
from serving.metrics import add_metrics
from serving.modes import ModeRuns, Modes, PendingRun
from serving.overload import Overload, OverloadMiddleware
from serving.pages import add_pages
from serving.requests import read_request
from serving.schemas import AnswerOut, InfoOut, LimitsOut, ReadyOut, RequestFields, RequestOptions, RetrieveOut
from serving.service import PendingAnswer, Service
from serving.settings import ServingSettings
from serving.tracing import Traces, TracingMiddleware

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

AddRoutes = Callable[[FastAPI, Service], None]
"""Adds further routes, such as those of `serving.openai_routes.OPENAI`, or of the examples."""
_IMAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",  # an image opened in its own tab must not run scripts
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",  # an image may be removed
}
_FIELDS = RequestFields.model_json_schema()
_FIELDS["properties"]["budget"]["anyOf"][0] = _FIELDS.pop("$defs")["AgentBudget"]  # OpenAPI has no `$defs` to refer to
_MULTIPART = {
    "type": "object",
    "required": ["question"],
    "properties": {
        "image": {"type": "string", "format": "binary", "description": "The image file; repeat it for several."},
        "question": _FIELDS["properties"]["question"],
        "options": {
            "type": "string",
            "default": "{}",
            "description": f"JSON object with any of: {', '.join(RequestOptions.model_fields)}.",
        },
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _MULTIPART},
            "application/json": {"schema": _FIELDS},
        },
    }
}
_BAD_FIELD = {422: "A field is missing, unknown, of the wrong type or out of range."}
_RETRIEVE_RESPONSES: Responses = {200: EVENTS, **errors(400, 408, 413, 415, 429, 503, 504, own=_BAD_FIELD)}
_GENERATOR_FAILED = errors(own={424: "The generator failed and `on_generator_error` is `fail`."})
_ANSWER_RESPONSES = _RETRIEVE_RESPONSES | _GENERATOR_FAILED
IMAGE_RESPONSES: Responses = {
    200: {"content": {"image/*": {}}, "description": "The image file."},
    **errors(own={404: "There is no such image.", 422: "A path parameter has the wrong type."}),
}


def create_app(
    retriever: QueryRetriever,
    generator: Generator,
    settings: ServingSettings | None = None,
    editor: Editor | OpenEditor | str = "it was opened for reading only",
    cache: ImageCache | None = None,
    modes: Modes | None = None,
    tracer: Tracer | None = None,
    routes: Sequence[AddRoutes] = (),
) -> FastAPI:
    """Returns the service; its batch worker runs for the lifetime of the application.

    Args:
        retriever: Finds the candidates.
        generator: Answers from the evidence. One that is an async context manager is entered while the service runs.
        settings: Limits.
        editor: Changes the retriever's index; opens what changes it; or the reason why it cannot be changed.
        cache: Keeps decoded images; the retriever's models may share it.
        modes: Answers requests with a `mode`; without it, they are refused.
        tracer: Traces requests.
        routes: Add further ones.

    Raises:
        ValueError: The index lacks a field of `settings.key_filters`, or one of `routes` raises it.
    """
    settings = settings or ServingSettings()
    cache = cache or ImageCache(settings.cache_mib * 2**20)
    service = Service(retriever, generator, settings, cache, Traces(tracer))
    runs = ModeRuns(service, modes)
    shown = [Depends(HTTPBearer(auto_error=False))] if settings.read_keys or settings.write_keys else []  # in /docs
    app = FastAPI(
        title="OMGM",
        summary="Answers questions about images from an encyclopedia.",
        version=version("omgm"),
        lifespan=lambda app: _running(service, runs),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy that strips a path prefix, the redirect would lead to a wrong URL
        dependencies=shown,
    )
    app.add_middleware(AccessMiddleware, settings=settings)  # the innermost: each call wraps the ones before
    add_metrics(app, service.metrics)
    if tracer is not None:
        app.add_middleware(TracingMiddleware, tracer=tracer)
    install_error_handlers(app)
    add_pages(app)
    for add_routes in routes:
        add_routes(app, service)
    _add_question_routes(app, service, runs)
    _add_state_routes(app, service, runs)
    _add_entity_images(app, service)
    add_entity_routes(app, service, editor)  # after the image route, since an id may contain slashes

    # These go in front of FastAPI's own middleware too; `add_middleware` would put them behind it.
    overload = Overload(service)
    app.state.overload = None if settings.cors_origins else overload  # used by the protocol, which does not do CORS
    app.middleware_stack = _with_head(with_cors(OverloadMiddleware(app.build_middleware_stack(), overload), settings))
    return app


@asynccontextmanager
async def _running(service: Service, runs: ModeRuns) -> AsyncIterator[None]:
    """Runs the batch worker, and the generator if it is an async context manager."""
    async with AsyncExitStack() as stack:
        if isinstance(service.generator, AbstractAsyncContextManager):
            await stack.enter_async_context(service.generator)
        await service.batcher.start()
        yield
        await service.batcher.stop()
        await runs.aclose()


def _add_question_routes(app: FastAPI, service: Service, runs: ModeRuns) -> None:
    @app.post("/answer", response_model=AnswerOut, responses=_ANSWER_RESPONSES, openapi_extra=_BODY)
    async def answer(request: Request) -> AnswerOut | Response:
        """Answers a question, with or without an image, with evidence, candidates, scores and timings.

        With `stream` the response is a stream of server-sent events: `retrieval` (the fields of `/retrieve`), `answer`
        (pieces of text), then `done` (the other fields), or `error`. With a `mode` the first events are the steps of
        the agent, `request`, `round` and `call`, and `done` has all fields.
        """

        def begin(checked: CheckedRequest) -> Coroutine[Any, Any, PendingAnswer | PendingRun]:
            if checked.mode is not None:
                return runs.prepare(checked, request.state.request_id)
            return intake.retrieval(service, request)(checked)

        checked, pending = await intake.take_in(service, request, read_request, begin)
        if isinstance(pending, PendingRun):
            if checked.stream:
                return event_stream(agent_events(runs, pending))
            return await intake.while_connected(request, runs.answer(pending))
        if checked.stream:
            return event_stream(answer_events(service, pending, checked.on_generator_error))
        return await intake.while_connected(request, service.answer(pending, checked.on_generator_error))

    @app.post("/retrieve", response_model=RetrieveOut, responses=_RETRIEVE_RESPONSES, openapi_extra=_BODY)
    async def retrieve(request: Request) -> RetrieveOut | Response:
        """Retrieves evidence and candidates like `/answer`, without the generator."""

        def begin(checked: CheckedRequest) -> Coroutine[Any, Any, PendingAnswer]:
            if checked.mode is not None:
                raise ApiError(422, "unsupported_parameter", "/retrieve runs no agent; leave mode out", param="mode")
            return intake.retrieval(service, request)(checked)

        checked, pending = await intake.take_in(service, request, read_request, begin)
        return event_stream(retrieval_events(pending)) if checked.stream else pending.response


def _add_state_routes(app: FastAPI, service: Service, runs: ModeRuns) -> None:
    @app.get("/health/live")
    async def live() -> dict[str, str]:
        """Answers while the process runs."""
        return {"status": "live"}

    @app.get("/health/ready", response_model=ReadyOut, responses=errors(503, access=False))
    async def ready() -> ReadyOut:
        """Answers 200 while the service accepts requests, else 503 with the reason."""
        problem = service.batcher.problem()
        if problem:
            raise ApiError(503, "not_ready", problem)
        return ReadyOut(
            status="ready",
            index=service.view.about(),
            tokens=service.view.tokens(),
            generator=service.generator.name,
            waiting=service.batcher.waiting,
        )

    @app.get("/info", responses=errors())
    async def info() -> InfoOut:
        """Returns the version, the index, the generator, and the limits of requests."""
        limits = LimitsOut(**{name: getattr(service.settings, name) for name in LimitsOut.model_fields})
        return InfoOut(
            version=version("omgm"),
            index=service.view.about(),
            generator=service.generator.name,
            limits=limits,
            modes=["retrieve", *runs.modes],
            agent_limits=runs.limits,
        )


def _add_entity_images(app: FastAPI, service: Service) -> None:
    @app.get("/entities/{version}/image", response_class=Response, responses=IMAGE_RESPONSES)
    async def entity_image(version: str, id: str = "") -> Response:
        """Returns an image of an entity at the address that responses have, until it is removed or replaced."""
        missing = ApiError(404, "not_found", "there is no image at this address, or not any more", param="id")
        return await image_file(await anyio.to_thread.run_sync(service.view.image, id, version), missing)


def _with_head(app: ASGIApp) -> ASGIApp:
    """Returns `app`, made to answer HEAD like GET; the server omits the body."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await app(scope, receive, send)

    return answer


async def image_file(path: Path | bytes | None, missing: ApiError) -> Response:
    """Returns an image file, or a JPEG, as a response.

    Raises:
        ApiError: `missing`, if there is no file, or not any more.
    """
    if isinstance(path, bytes):
        return Response(path, media_type="image/jpeg", headers=_IMAGE_HEADERS)
    if path is None:
        raise missing
    try:
        data = await anyio.to_thread.run_sync(path.read_bytes)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing from error
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Response(data, media_type=kind, headers=_IMAGE_HEADERS)
