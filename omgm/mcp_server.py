"""An MCP server over an index, so that a language model's client can ask about images; `omgm mcp` runs it."""

from __future__ import annotations

import asyncio
import base64
import logging
import mimetypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ContentBlock, ImageContent, TextContent, ToolAnnotations
from PIL import Image
from pydantic import Field
from starlette.applications import Starlette

from indexes.manifest import Candidates
from llm.chat import ChatError
from omgm import __version__
from omgm.api import OMGM
from omgm.mcp_results import (
    AnswerResult,
    EntitiesResult,
    SectionsResult,
    SimilarResult,
    answer_result,
    entities_result,
    sections_result,
    similar_image,
)
from serving.access import AccessMiddleware
from serving.body import body_limit
from serving.errors import ApiError
from serving.images import decode_image
from serving.requests import image_bytes
from serving.settings import ServingSettings

log = logging.getLogger(__name__)

_IMAGE = "The image: base64, a data URI, a URL on a host that the server allows, or over stdio the path of a file"
ImageText = Annotated[str, Field(description=_IMAGE)]
Question = Annotated[str, Field(description="The question about the image")]
Limit = Annotated[int, Field(ge=1, le=50, description="The most results to return")]

_SEARCHED: dict[Candidates, str] = {
    "summary": "a summary of each entity's article, by the meaning of image and text",
    "title": "each entity's title, by the meaning of image and text",
    "article": "each entity's article, by the meaning of image and text",
    "image": "each entity's main image",
    "combined": "each entity's main image and a summary of its article",
}
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class Tools:
    """The tools, each a method.

    Args:
        omgm: What they ask.
        settings: The limits of images and questions.
        paths: Whether an image may be the path of a file on this machine.
    """

    def __init__(self, omgm: OMGM, settings: ServingSettings, *, paths: bool) -> None:
        self._omgm, self._settings, self._paths = omgm, settings, paths

    async def answer(self, image: ImageText, question: Question) -> AnswerResult:
        """Answers a question about an image from the encyclopedia, with the section that holds the answer."""
        with _tool_errors():
            return answer_result(await self._omgm.ask_async(await self._read(image), self._checked(question)))

    async def find_entity(
        self, image: ImageText, question: Question = "What is this?", limit: Limit = 5
    ) -> EntitiesResult:
        """Finds what an image shows: the encyclopedia's entities that fit image and question best."""
        with _tool_errors():
            pair = (await self._read(image), self._checked(question))
            [found] = await self._omgm.retrieve_async([pair])
            return entities_result(self._omgm.index, found, limit)

    async def search_sections(self, image: ImageText, question: Question, limit: Limit = 3) -> SectionsResult:
        """Finds the article about what an image shows, and its sections that fit the question best, with their text."""
        with _tool_errors():
            pair = (await self._read(image), self._checked(question))
            [found] = await self._omgm.retrieve_async([pair])
            return sections_result(found, limit)

    async def similar_images(self, image: ImageText, limit: Limit = 5) -> Annotated[CallToolResult, SimilarResult]:
        """Returns the entities nearest to an image, with their thumbnails."""
        with _tool_errors():
            loaded = await self._read(image)
            rows = await asyncio.to_thread(self._omgm.nearest, loaded, k=limit)
        result = SimilarResult(images=[similar_image(self._omgm.index, row) for row in rows])
        content: list[ContentBlock] = [TextContent(type="text", text=result.model_dump_json(indent=2))]
        for row, similar in zip(rows, result.images, strict=True):
            if row.image is not None and similar.has_thumbnail:
                data = base64.b64encode(await asyncio.to_thread(row.image.read_bytes)).decode()
                kind = mimetypes.guess_type(row.image.name)[0] or "image/jpeg"
                content.append(ImageContent(type="image", data=data, mime_type=kind))
        return CallToolResult(content=content, structured_content=result.model_dump(mode="json"))

    async def _read(self, image: str) -> Image.Image:
        if self._paths and os.path.isfile(path := os.path.expanduser(image)):
            data = await asyncio.to_thread(_file, path, self._settings)
        else:
            try:
                data = await image_bytes(image, self._settings)
            except ApiError as error:
                if self._paths and error.code == "bad_image_url":
                    raise ToolError(f"there is no such file here, and {error.message}") from error
                raise
        return await asyncio.to_thread(decode_image, data, self._settings)

    def _checked(self, question: str) -> str:
        most = self._settings.max_question_chars
        if not question.strip():
            raise ToolError("the question is empty")
        if len(question) > most:
            raise ToolError(f"the question has {len(question)} characters; at most {most} are accepted")
        return question.strip()


def build_server(omgm: OMGM, settings: ServingSettings, *, paths: bool = False) -> MCPServer:
    """Returns the server; arguments as for `Tools`."""
    index = omgm.index
    server = MCPServer(
        "omgm",
        version=__version__,
        instructions=f"Answers questions about images from an encyclopedia ({index.name}: {len(index)} entities).",
        log_level="WARNING",
    )
    tools = Tools(omgm, settings, paths=paths)
    searched = _SEARCHED[index.manifest.inputs.candidates]
    similar = f"Ranks the encyclopedia's entities by comparing an image with {searched}. Returns their thumbnails."
    for tool, description in (
        (tools.answer, None),
        (tools.find_entity, None),
        (tools.search_sections, None),
        (tools.similar_images, similar),
    ):
        server.add_tool(tool, description=description, annotations=_READS)
    return server


def http_app(server: MCPServer, settings: ServingSettings, host: str = "127.0.0.1") -> Starlette:
    """Returns the server as an application at `/mcp`, behind the keys and limits of the service.

    Args:
        server: The server.
        settings: Its keys and limits.
        host: The address it will listen on. On loopback, requests under another host name are refused.
    """
    app = server.streamable_http_app(
        stateless_http=True, json_response=True, max_request_body_size=body_limit(settings), host=host
    )
    app.add_middleware(AccessMiddleware, settings=settings)
    return app


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Reports errors that the caller can fix as tool errors; what a chat server said goes to the log only."""
    try:
        yield
    except ApiError as error:
        raise ToolError(error.message) from error
    except ChatError as error:
        log.warning("the generator failed: %s", error)
        raise ToolError("the generator failed; search_sections finds the evidence without it") from error
    except ValueError as error:
        raise ToolError(str(error)) from error


def _file(path: str, settings: ServingSettings) -> bytes:
    with open(path, "rb") as file:
        return file.read(settings.max_image_bytes + 1)  # one more is too many for decode_image
