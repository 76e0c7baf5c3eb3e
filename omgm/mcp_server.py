"""An MCP server over an index, with which language models can ask about images; `omgm mcp` runs it."""

from __future__ import annotations

import asyncio
import base64
import logging
import mimetypes
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ContentBlock, ImageContent, InputRequiredResult, TextContent, ToolAnnotations
from PIL import Image
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from chat_models.errors import ChatError
from indexes.store.manifest import Candidates
from omgm import __version__
from omgm.agent import NO_MODEL, Agent, budget_of
from omgm.api import OMGM
from omgm.mcp_images import image_text, read_image
from omgm.mcp_results import (
    AnswerResult,
    EntitiesResult,
    ExcerptsResult,
    SectionsResult,
    SimilarResult,
    agent_result,
    answer_result,
    copies_of,
    entities_result,
    excerpts_result,
    sections_result,
    similar_image,
)
from omgm.settings import AgentSettings
from retriever.filters import Values, check, filter_of, within
from retriever.wording import counted
from search_agents.tools.index import as_list
from serving.errors import ApiError
from serving.images import decode_image
from serving.requests import naming
from serving.settings import ServingSettings

logger = logging.getLogger(__name__)

PROGRESS_S = 10.0
"""Seconds between two notifications of a call's progress."""


def _or(default: object) -> BeforeValidator:
    """Returns a validator that replaces null by the default: models write null for parameters that they leave open.

    The schema does not say so, because some clients support only parameters with a single type.
    """
    return BeforeValidator(lambda value: default if value is None else value)


# A model can write a path or a URL, but not the bytes of what it sees: they come last.
_IMAGE = "The image: over stdio its path or file URI, its URL on a host that the server allows, a data URI or base64"
ImageText = Annotated[str, Field(description=_IMAGE), BeforeValidator(image_text)]
AnyImage = Annotated[str, Field(description=f"{_IMAGE}. Leave it out to ask about a name"), BeforeValidator(image_text)]
MoreImages = Annotated[
    list[Annotated[str, BeforeValidator(image_text)]],
    Field(description="Further images of the same question, such as the back of the thing, or another one to compare"),
    BeforeValidator(as_list),
]
Question = Annotated[str, Field(description="The question about the image, or one that names what it is about")]
WhatIsThis = Annotated[Question, _or("What is this?")]
Mode = Annotated[
    str,
    Field(
        description="`retrieve`, or a search agent for questions that need several searches (auto is the best choice); "
        "an agent takes seconds to minutes"
    ),
    _or("retrieve"),
]
Queries = Annotated[
    list[str], Field(min_length=1, max_length=5, description="1 to 5 queries"), BeforeValidator(as_list)
]
Excluded = Annotated[
    list[str], Field(description="Titles or ids of what the image does not show"), BeforeValidator(as_list)
]
_LIMITED = "Only entities with one of these values for each field are found"
Limited = Annotated[dict[str, Any], Field(description=_LIMITED), _or({})]
_NOTHING: dict[str, Any] = {}
Limit = Annotated[int, Field(ge=1, le=50, description="The most results to return"), _or(5)]
TextLimit = Annotated[int, Field(ge=1, le=10, description="The most results per query"), _or(5)]

_SEARCHED: dict[Candidates, str] = {
    "summary": "a summary of each entity's article, by the meaning of image and text",
    "title": "each entity's title, by the meaning of image and text",
    "article": "each entity's article, by the meaning of image and text",
    "image": "each entity's main image",
    "combined": "each entity's main image and a summary of its article",
}
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_BROWSES = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=True)


class Tools:
    """The tools of the server, one per method.

    Args:
        omgm: Answers the questions.
        settings: The limits of images and questions.
        paths: Whether an image may be the path of a file on this machine.
        agent: Runs search agents and their tools.
        limits: The limits of the agents.
    """

    def __init__(
        self, omgm: OMGM, settings: ServingSettings, *, paths: bool, agent: Agent | None, limits: AgentSettings
    ) -> None:
        self._omgm, self._settings, self._paths = omgm, settings, paths
        self._agent, self._budget = agent, budget_of(limits)
        self._runs, self._most_runs = 0, limits.runs
        self.modes = ["retrieve", *(() if agent is None else agent.modes)]
        """The modes that `answer` takes."""

    async def answer(
        self,
        question: Question,
        image: AnyImage = "",
        more_images: MoreImages = [],  # noqa: B006 (read only)
        mode: Mode = "retrieve",
        filter: Limited = _NOTHING,
        context: Context[Any, Any] | None = None,
    ) -> Annotated[CallToolResult, AnswerResult]:
        """Answers a question about an image from the encyclopedia, with the section that holds the answer."""
        async with _progress(context):
            return await self._answer([image, *more_images] if image else more_images, question, mode, filter)

    async def _answer(self, images: list[str], question: str, mode: str, filter: Values) -> CallToolResult:
        with self._limited(filter):
            loaded, checked = await self._read_all(images), self._checked(question)
            if mode not in self.modes:
                known = f"mode must be one of {', '.join(self.modes)}; got {mode[:40]!r}"
                raise ToolError(known if self._agent is not None and self._agent.modes else f"{known}; {NO_MODEL}")
            if mode == "retrieve":
                found = await self._omgm.ask_async(loaded or None, checked)
                answer = answer_result(found)
                return await _with_images(answer, copies_of(found, [answer.evidence]))
            assert self._agent is not None
            if len(loaded) != 1:
                problem = "there are several images" if loaded else "image is missing"
                raise ToolError(f"{problem}: an agent looks at one; leave mode out")
            if self._runs >= self._most_runs:
                raise ToolError(f"{self._runs} agents are already running, the maximum; try again later")
            self._runs += 1
            try:
                run = await self._agent.ask_async(loaded[0], checked, mode, budget=self._budget)
                return await _with_images(agent_result(run), [])
            finally:
                self._runs -= 1

    async def image_search(
        self,
        image: ImageText,
        question: WhatIsThis = "What is this?",
        exclude: Excluded = [],  # noqa: B006 (read only)
        filter: Limited = _NOTHING,
    ) -> ExcerptsResult:
        """Finds sections about what an image shows, leaving out what it is known not to show."""
        with self._limited(filter):
            loaded, checked = await self._read(image), self._checked(question)
            return await self._called("image_search", {"exclude": exclude}, loaded, checked)

    async def text_search(
        self,
        queries: Queries,
        limit: TextLimit = 5,
        filter: Limited = _NOTHING,
    ) -> ExcerptsResult:
        """Searches the encyclopedia's sections by text."""
        with self._limited(filter):
            return await self._called("text_search", {"queries": queries, "limit": limit})

    async def web_search(self, queries: Queries, limit: TextLimit = 5) -> ExcerptsResult:
        """Searches the web."""
        with _tool_errors():
            return await self._called("web_search", {"queries": queries, "limit": limit})

    async def open_page(
        self,
        page: Annotated[str, Field(min_length=1, max_length=2000, description="An article's title or id, or a URL")],
        question: Annotated[str, Field(max_length=1000, description="What to look for")],
    ) -> ExcerptsResult:
        """Opens an article of the encyclopedia, or a web page, and returns the parts that fit a question."""
        with _tool_errors():
            return await self._called("open_page", {"page": page, "question": question})

    async def find_entity(
        self,
        image: ImageText,
        question: WhatIsThis = "What is this?",
        limit: Limit = 5,
        filter: Limited = _NOTHING,
    ) -> EntitiesResult:
        """Finds what an image shows: the encyclopedia's entities that fit image and question best."""
        with self._limited(filter):
            pair = (await self._read(image), self._checked(question))
            [found] = await self._omgm.retrieve_async([pair])
            return entities_result(found, limit)

    async def search_sections(
        self,
        question: Question,
        image: AnyImage = "",
        limit: Annotated[Limit, _or(3)] = 3,
        filter: Limited = _NOTHING,
    ) -> Annotated[CallToolResult, SectionsResult]:
        """Finds the article about what an image shows, or a question names, and its sections that fit the question."""
        with self._limited(filter):
            pair = (await self._read(image) if image else None, self._checked(question))
            [found] = await self._omgm.retrieve_async([pair])
            result = sections_result(found, limit)
            return await _with_images(result, copies_of(found, result.sections))

    async def similar_images(
        self,
        image: ImageText,
        limit: Limit = 5,
        filter: Limited = _NOTHING,
    ) -> Annotated[CallToolResult, SimilarResult]:
        """Returns the entities nearest to an image, with their thumbnails."""
        with self._limited(filter):
            loaded = await self._read(image)
            rows = await asyncio.to_thread(self._omgm.nearest, loaded, k=limit)
        result = SimilarResult(images=[similar_image(row) for row in rows])
        pairs = zip(rows, result.images, strict=True)
        return await _with_images(result, [row.image for row, one in pairs if row.image and one.has_thumbnail])

    @contextmanager
    def _limited(self, filter: Values) -> Iterator[None]:
        """Limits the searches of the block to entities with some values of their fields; errors as `_tool_errors`."""
        with _tool_errors():
            chosen = filter_of(filter)
            check(self._omgm.index, chosen)
            with within(chosen):
                yield

    async def _called(
        self, tool: str, arguments: dict[str, Any], image: Image.Image | None = None, question: str = ""
    ) -> ExcerptsResult:
        if self._agent is None:
            raise ToolError(f"{tool} is not available here")
        return excerpts_result(await self._agent.call(tool, arguments, image, question))

    async def _read(self, image: str) -> Image.Image:
        data = await read_image(image, self._settings, self._paths)
        return await asyncio.to_thread(decode_image, data, self._settings)

    async def _read_all(self, images: list[str]) -> list[Image.Image]:
        if len(images) > (most := self._settings.max_images):
            raise ToolError(f"there are {len(images)} images; at most {most} are accepted")
        loaded = list[Image.Image]()
        for number, image in enumerate(images, start=1):
            with naming(number, len(images)):
                loaded.append(await self._read(image))
        return loaded

    def _checked(self, question: str) -> str:
        most = self._settings.max_question_chars
        if not question.strip():
            raise ToolError("the question is empty")
        if len(question) > most:
            raise ToolError(f"the question has {len(question)} characters; at most {most} are accepted")
        return question.strip()


def build_server(
    omgm: OMGM,
    settings: ServingSettings,
    *,
    paths: bool = False,
    agent: Agent | None = None,
    limits: AgentSettings | None = None,
) -> MCPServer:
    """Returns the server; takes the arguments of `Tools`. Without an agent, it has none of the agent's tools."""
    limits = limits or AgentSettings()
    index = omgm.index
    holds = counted(len(index), "entity")
    server = _Server(
        "omgm",
        version=__version__,
        instructions=f"Answers questions, with or without an image, from an encyclopedia ({index.name}: {holds}).",
        log_level="WARNING",
    )
    tools = Tools(omgm, settings, paths=paths, agent=agent, limits=limits)
    searched = _SEARCHED[index.manifest.inputs.candidates]
    similar = f"Ranks the encyclopedia's entities by comparing an image with {searched}. Returns their thumbnails."
    for tool, description in (
        (tools.answer, None),
        (tools.find_entity, None),
        (tools.search_sections, None),
        (tools.similar_images, similar),
    ):
        server.add_tool(tool, description=description, annotations=_READS)
    check(index, (), settings.key_filters.values())
    if (answer := server._tool_manager.get_tool("answer")) is not None:
        answer.parameters["properties"]["mode"]["enum"] = tools.modes
    if agent is not None:
        server.add_tool(tools.image_search, annotations=_READS)
        server.add_tool(tools.text_search, annotations=_READS)
        server.add_tool(tools.open_page, annotations=_BROWSES if limits.contact else _READS)
        if limits.searxng_url or limits.search_engine:
            server.add_tool(tools.web_search, annotations=_BROWSES)
    for added in server._tool_manager.list_tools():
        if (limited := added.parameters["properties"].get("filter")) is not None and index.fields.names:
            limited["description"] += f": {', '.join(index.fields.names)}"
        else:
            added.parameters["properties"].pop("filter", None)
    return server


class _Server(MCPServer[Any]):
    """A server that says in one line what is wrong with the arguments of a call."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Calls a tool.

        Raises:
            ToolError: The tool or an argument is unknown, an argument is missing or wrong, or the tool fails.
        """
        tool = self._tool_manager.get_tool(name)
        if tool is None:
            known = ", ".join(one.name for one in self._tool_manager.list_tools())
            raise ToolError(f"there is no tool {name[:100]!r}; there are {known}")
        known = ", ".join(tool.parameters["properties"])
        if unknown := sorted(arguments.keys() - tool.parameters["properties"].keys()):
            raise ToolError(f"{name} has no argument {unknown[0][:100]!r}; it takes {known}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                fault = error.__cause__.errors(include_url=False)[0]
                place = ".".join(map(str, fault["loc"]))
                wrong = "is missing" if fault["type"] == "missing" else fault["msg"].replace("Input should", "must", 1)
                raise ToolError(f"{place} {wrong}; {name} takes {known}") from error
            raise


async def _with_images(result: BaseModel, images: Iterable[Path | bytes]) -> CallToolResult:
    """Returns a result that is followed by images."""
    content: list[ContentBlock] = [TextContent(type="text", text=result.model_dump_json(indent=2))]
    for image in images:
        path, data = (None, image) if isinstance(image, bytes) else (image, await asyncio.to_thread(image.read_bytes))
        kind = (path and mimetypes.guess_type(path.name)[0]) or "image/jpeg"
        content.append(ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=kind))
    return CallToolResult(content=content, structured_content=result.model_dump(mode="json"))


@asynccontextmanager
async def _progress(context: Context[Any, Any] | None) -> AsyncIterator[None]:
    """Notifies the client every few seconds that a call goes on; many give up after a minute of silence."""

    async def notify(to: Context[Any, Any]) -> None:
        seconds = 0.0
        while True:
            await asyncio.sleep(PROGRESS_S)
            seconds += PROGRESS_S
            await to.report_progress(seconds, message=f"answering for {seconds:g} s")

    task = None if context is None else asyncio.create_task(notify(context))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Reports errors that the caller can fix as tool errors; a chat server's message goes only to the log."""
    try:
        yield
    except ApiError as error:
        raise ToolError(error.message) from error
    except ChatError as error:
        logger.warning("the generator failed: %s", error)
        raise ToolError("the generator failed; search_sections finds the evidence without it") from error
    except ValueError as error:
        raise ToolError(str(error)) from error
