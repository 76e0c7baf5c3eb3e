"""The HTTP service: `create_app` joins retriever, index and generator to routes. `omgm serve` runs it."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response, StreamingResponse

from retriever.protocols import EntityIndex, Generator, QueryRetriever
from serving.errors import ApiError, install_error_handlers
from serving.examples import read_examples
from serving.requests import Ask, read_ask
from serving.schemas import AnswerOut, AskFields, AskOptions, ErrorOut, ReadyOut, RetrieveOut
from serving.service import Found, Service, out_of_time
from serving.settings import ServingSettings

T = TypeVar("T")

_PAGE = {"page.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_PICTURE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",  # a picture opened by itself must not run anything
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "max-age=300",
}
_MULTIPART = {
    "type": "object",
    "required": ["image", "question"],
    "properties": {
        "image": {"type": "string", "format": "binary", "description": "The picture."},
        "question": {"type": "string", "description": "The question about the picture."},
        "options": {"type": "string", "description": f"JSON object: {', '.join(AskOptions.model_fields)}."},
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _MULTIPART},
            "application/json": {"schema": AskFields.model_json_schema()},
        },
    }
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorOut, "description": "Malformed body or broken image."},
    413: {"model": ErrorOut, "description": "Image over the limit of bytes or pixels."},
    415: {"model": ErrorOut, "description": "Not an image, or a body of another type."},
    422: {"model": ErrorOut, "description": "A field is missing, unknown, of the wrong type or out of range."},
    424: {"model": ErrorOut, "description": "The generator gave no answer, and the request asked to fail then."},
    429: {"model": ErrorOut, "description": "Too many requests wait; see Retry-After."},
    503: {"model": ErrorOut, "description": "Not ready."},
    504: {"model": ErrorOut, "description": "Out of time."},
}


def create_app(
    retriever: QueryRetriever, index: EntityIndex, generator: Generator, settings: ServingSettings | None = None
) -> FastAPI:
    """Returns the service. Its batch worker runs from the application's start to its end.

    Raises:
        ValueError: `settings.examples_dir` cannot be read.
    """
    settings = settings or ServingSettings()
    service = Service(retriever, index, generator, settings)
    examples = read_examples(settings.examples_dir)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.batcher.start()
        yield
        await service.batcher.stop()

    app = FastAPI(title="OMGM", summary="Answers questions about images from an encyclopedia.", lifespan=lifespan)
    install_error_handlers(app)

    async def find(request: Request) -> tuple[Ask, Found]:
        service.batcher.admit()  # before the upload is read: a full service must not collect pictures
        try:
            async with asyncio.timeout(settings.upload_timeout_s):
                ask = await read_ask(request, settings)
        except TimeoutError as error:
            raise ApiError(408, "upload_timeout", f"the upload took over {settings.upload_timeout_s:g} s") from error
        except ClientDisconnect as error:
            raise _gone() from error
        work = service.find(ask, request.state.request_id, request.scope.get("root_path", ""))
        return ask, await within(settings.timeout_s, request, work)

    async def within(seconds: float, request: Request, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await _while_connected(request, work)
        except TimeoutError as error:
            raise out_of_time(settings) from error

    def events(stream: AsyncIterator[str]) -> StreamingResponse:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    @app.post("/answer", response_model=AnswerOut, responses=_ERRORS, openapi_extra=_BODY)
    async def answer(request: Request) -> AnswerOut | Response:
        """Returns the answer to a question about a picture, with its evidence, candidates, scores and times."""
        ask, found = await find(request)
        if ask.stream:
            return events(service.answer_events(found, ask.on_generator_error))
        return await _while_connected(request, service.answer(found, ask.on_generator_error))

    @app.post("/retrieve", response_model=RetrieveOut, responses=_ERRORS, openapi_extra=_BODY)
    async def retrieve(request: Request) -> RetrieveOut | Response:
        """Returns what `/answer` does, without asking the generator."""
        ask, found = await find(request)
        return events(service.retrieval_events(found)) if ask.stream else found.response

    @app.get("/health/live")
    async def live() -> dict[str, str]:
        """Returns at once while the process runs."""
        return {"status": "live"}

    @app.get("/health/ready", response_model=ReadyOut, responses={503: _ERRORS[503]})
    async def ready() -> ReadyOut:
        """Returns 200 while the batch worker takes requests, 503 with the reason when it does not."""
        problem = service.batcher.problem()
        if problem:
            raise ApiError(503, "not_ready", problem)
        waiting = service.batcher.waiting
        return ReadyOut(status="ready", index=service.about(), generator=generator.name, waiting=waiting)

    @app.get("/entities/{row}/image", response_class=FileResponse)
    async def entity_image(row: int) -> FileResponse:
        """Returns the main picture of an entity."""
        path = index.image_path(row) if 0 <= row < len(index) else None
        if path is None or not path.is_file():
            raise ApiError(404, "not_found", f"entity {row} has no picture here", param="row")
        return _picture(path)

    @app.get("/examples")
    async def list_examples(request: Request) -> list[dict[str, str]]:
        """Returns example pictures with a question each."""
        root = request.scope.get("root_path", "")
        return [
            {"image": f"{root}/examples/{name}", "question": example.question} for name, example in examples.items()
        ]

    @app.get("/examples/{name}", response_class=FileResponse)
    async def example_image(name: str) -> FileResponse:
        """Returns the picture of an example."""
        if name not in examples:
            raise ApiError(404, "not_found", f"there is no example {name!r}", param="name")
        return _picture(examples[name].path)

    for name, kind in _PAGE.items():
        route = "/" if name == "page.html" else f"/{name}"
        app.add_api_route(route, _page_file(name, kind), include_in_schema=False)
    return app


def _page_file(name: str, kind: str) -> Callable[[], Awaitable[Response]]:
    body = resources.files("serving").joinpath(name).read_bytes()

    async def send() -> Response:
        return Response(body, media_type=kind, headers=_PAGE_HEADERS)

    return send


def _picture(path: Path) -> FileResponse:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return FileResponse(path, media_type=kind, headers=_PICTURE_HEADERS)


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns what `work` returns; cancels it when the caller goes away, so that nobody computes for nobody."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _gone()
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _gone() -> ApiError:
    return ApiError(499, "client_gone", "the caller closed the connection")
