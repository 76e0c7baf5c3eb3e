"""Tools for our own index: image search with OMGM's steps, full-text search, and articles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from PIL import Image
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from retriever.filters import SCOPE
from retriever.searching import Searcher
from retriever.texts import section_passage
from retriever.types import Candidate, Entity, Options, Query, RetrievalResult
from search_agents.documents import CHUNK_CHARACTERS, Chunk, best_chunks, chunks_of
from search_agents.parsing import json_values
from search_agents.records import IMAGE, Observation, Source
from search_agents.state import AgentRun, Tool
from search_agents.tools.fulltext import entities_of, full_text
from search_agents.tools.images import PartArguments, part_digest, part_of
from search_agents.tools.page import Opener

ENTITIES, SECTIONS, PER_QUERY, IMAGES, CHUNKS = 5, 3, 5, 5, 4
"""Number of entities and sections of an image search, results and images of a text search, and chunks of a page."""

SearchQuery = Annotated[str, Field(min_length=1, max_length=1000)]


def as_list(value: object) -> object:
    """Returns texts as a list: of one text, or of a list that is written as text; empty ones and null are left out."""
    value = [] if value is None else value
    if isinstance(value, str):
        listed = next(json_values(value, "["), None) if value.lstrip().startswith("[") else None
        value = listed if isinstance(listed, list) else [value]
    return [one for one in value if one not in ("", None)] if isinstance(value, list) else value


Queries = Annotated[
    list[SearchQuery],
    BeforeValidator(as_list),
    Field(
        min_length=1,
        max_length=5,
        validation_alias=AliasChoices("queries", "query", "search_query"),
        description="1 to 5 queries, each a keyword, a phrase or a sentence",
    ),
]


class ImageSearchArguments(PartArguments):
    """What to look for, and what to leave out."""

    question: str = Field(default="", max_length=1000, description="Ranks the sections; by default the whole question")
    exclude: list[str] = Field(default=[], description="Titles or ids of entities that the image does not show")


class TextSearchArguments(BaseModel):
    """The queries."""

    queries: Queries
    limit: int = Field(default=PER_QUERY, ge=1, le=10, description="Results per query")


class FindImagesArguments(BaseModel):
    """The query."""

    query: SearchQuery


class NoArguments(BaseModel):
    """Nothing."""


class IndexTools:
    """The tools of an index."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher, self._index = searcher, searcher.index
        self._texts = full_text(self._index)

    def tools(self) -> list[Tool]:
        """Returns the tools."""
        return [
            Tool(
                "image_search",
                "Finds what an image, or a region of it, shows: entities of the encyclopedia with the sections that "
                "fit the question. Called again for the same image, it returns the next candidates.",
                ImageSearchArguments,
                self._image_search,
                lambda arguments, run: [*self._key(), part_digest(arguments, run), *self._excluded(arguments, run)],
            ),
            Tool(
                "text_search",
                "Searches the encyclopedia's sections by text.",
                TextSearchArguments,
                self._text_search,
                lambda arguments, run: self._text_key(),
            ),
            Tool(
                "find_images",
                "Finds images of the encyclopedia by text.",
                FindImagesArguments,
                self._find_images,
                lambda arguments, run: self._text_key(),
            ),
            Tool(
                "ask_index",
                "Answers the whole question by the retrieval system alone.",
                NoArguments,
                self._ask,
                lambda arguments, run: [*self._key(), run.digest(IMAGE), run.question],
            ),
        ]

    @property
    def opener(self) -> Opener:
        """Opens articles of the index by title, id or URL."""
        return self._open

    async def _image_search(self, arguments: ImageSearchArguments, run: AgentRun) -> Observation:
        excluded = await asyncio.to_thread(self._rows, self._excluded(arguments, run))
        query = Query(part_of(arguments, run), arguments.question or run.question, options=Options(exclude=excluded))
        result = await self._searcher.retrieve_query(query)
        return self._seen(result, part_digest(arguments, run))

    async def _text_search(self, arguments: TextSearchArguments, run: AgentRun) -> Observation:
        sources: dict[Source, None] = {}
        for query in arguments.queries:
            for place in await asyncio.to_thread(self._texts.search, query, arguments.limit):
                sources[self._source(place.entity, place.position, query)] = None
        return Observation(tuple(sources))

    async def _find_images(self, arguments: FindImagesArguments, run: AgentRun) -> Observation:
        places = await asyncio.to_thread(self._texts.search, arguments.query, 20 * IMAGES)
        images: dict[str, Image.Image] = {}
        titles = []
        for row, entity in entities_of(places):
            path = self._index.image_path(row)
            if path is not None and len(images) < IMAGES:
                with Image.open(path) as image:
                    images[f"found_{row}"] = image.convert("RGB")
                titles.append(f"found_{row} shows {entity.title}")
        return Observation(text="\n".join(titles), images=images)

    async def _ask(self, arguments: NoArguments, run: AgentRun) -> Observation:
        answer, result = await self._searcher.answer_query(Query(run.image(IMAGE), run.question))
        seen = self._seen(result, run.digest(IMAGE))
        return Observation(seen.sources, "" if answer is None else f"Proposed answer: {answer}", {}, seen.found, answer)

    async def _open(self, page: str, question: str) -> Observation | None:
        entity = await asyncio.to_thread(self._texts.entity_of, page)
        return None if entity is None else await asyncio.to_thread(_article, entity, question)

    def changes(self) -> list[object]:
        """Returns the number of changes of the index while it was open, unless it is 0, and what the caller may see."""
        return [*filter(None, [self._texts.changes]), *SCOPE.get()]

    def _key(self) -> list[object]:
        """Returns the state of the index that a cached result depends on."""
        return [self._index.name, *self.changes()]

    def _text_key(self) -> object:
        key = self._key()
        return key if len(key) > 1 else self._index.name  # compatible with existing corpora

    def _excluded(self, arguments: ImageSearchArguments, run: AgentRun) -> list[str]:
        return sorted({*arguments.exclude, *run.found.get(part_digest(arguments, run), ())})

    def _rows(self, names: Sequence[str]) -> tuple[int, ...]:
        rows = []
        for name in names:
            row = self._index.row_of(name)
            rows.append(self._texts.row_of_name(name) if row is None else row)
        return tuple(row for row in rows if row is not None)

    def _seen(self, result: RetrievalResult, digest: str) -> Observation:
        """Returns the best sections of the best entity, and the best section of each other entity."""
        sources, found = [], []
        for rank, candidate in enumerate(result.candidates[:ENTITIES]):
            entity = self._index.entity(candidate.row)
            found.append(entity.id)
            related = f"match {rank + 1} of the image that was searched for, similarity {candidate.sim_c:.3f}"
            sources += [
                replace(self._source(entity, at, ""), related=related)
                for at in _positions(candidate, entity, SECTIONS if rank == 0 else 1)
            ]
        return Observation(tuple(sources), found={digest: tuple(found)})

    def _source(self, entity: Entity, position: int, question: str) -> Source:
        section = entity.sections[position]
        chunks = chunks_of(section.text) or [Chunk("", 0, 0)]
        chunk = chunks[0]
        if question and len(chunks) > 1:
            [chunk] = best_chunks(question, chunks, 1)
        return Source(entity.title, chunk.text, entity.url or entity.id, section.title, (chunk.start, chunk.end))


def _positions(candidate: Candidate, entity: Entity, limit: int) -> list[int]:
    ranked = [scored.position for scored in candidate.sections]
    return (ranked or list(range(len(entity.sections))))[:limit]


def _article(entity: Entity, question: str) -> Observation:
    """Returns the best parts of an article for a question, and the titles of all its sections."""
    parts = [(section, chunk) for section in entity.sections for chunk in chunks_of(section.text)]
    passages = [
        Chunk(section_passage(entity.title, section.title, chunk.text), at, at)
        for at, (section, chunk) in enumerate(parts)
    ]
    sources = []
    for best in best_chunks(question, passages, CHUNKS):
        section, chunk = parts[best.start]
        sources.append(
            Source(entity.title, chunk.text, entity.url or entity.id, section.title, (chunk.start, chunk.end))
        )
    titles = "; ".join(dict.fromkeys(section.title for section in entity.sections))
    return Observation(tuple(sources), text=f"Sections of {entity.title}: {titles}"[:CHUNK_CHARACTERS])
