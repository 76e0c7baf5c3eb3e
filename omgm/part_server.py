"""Serves a part of an index to fronts, without models: `omgm serve --index PARTS/1-of-2`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from indexes.parts.answering import PartAnswers
from indexes.parts.messages import CONTENT_TYPE


def part_app(folder: Path, compact_after: int = 0) -> Starlette:
    """Returns the application that answers for a part, which it compacts after so many changes, if at all.

    Raises:
        ValueError: The folder holds none, or is damaged.
    """
    answers = PartAnswers(folder, compact_after)

    async def live(_: Request) -> Response:
        return PlainTextResponse(str(answers.part))

    async def answer(request: Request) -> Response:
        content, name = await request.body(), request.path_params["name"]
        if request.path_params.get("session", answers.session) != answers.session:
            return PlainTextResponse("was restarted", 410)  # rows that the front knows are others now
        try:
            return Response(await anyio.to_thread.run_sync(answers.answer, name, content), media_type=CONTENT_TYPE)
        except ValueError as error:
            return PlainTextResponse(str(error), 400)

    routes = [Route(path, answer, methods=["POST"]) for path in ("/{name}", "/{session}/{name}")]

    @asynccontextmanager
    async def closing(_: Starlette) -> AsyncIterator[None]:
        yield
        await anyio.to_thread.run_sync(answers.close)

    return Starlette(routes=[Route("/health/{kind}", live), *routes], lifespan=closing)
