"""Serves a part of an index to fronts, without models: `omgm serve --index PARTS/1-of-2`."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from indexes.parts.answering import PartAnswers
from indexes.parts.messages import CONTENT_TYPE


def part_app(folder: Path) -> Starlette:
    """Returns the application that answers for a part.

    Raises:
        ValueError: The folder holds none, or is damaged.
    """
    answers = PartAnswers(folder)

    async def live(_: Request) -> Response:
        return PlainTextResponse(str(answers.part))

    async def answer(request: Request) -> Response:
        content, name = await request.body(), request.path_params["name"]
        try:
            return Response(await anyio.to_thread.run_sync(answers.answer, name, content), media_type=CONTENT_TYPE)
        except ValueError as error:
            return PlainTextResponse(str(error), 400)

    return Starlette(routes=[Route("/health/{kind}", live), Route("/{name}", answer, methods=["POST"])])
