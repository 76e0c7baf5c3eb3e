"""What a part answers to its front, from its own files and without models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from indexes.ids import other_ids, spellings
from indexes.lines import Lines
from indexes.live.image_text import IndexText
from indexes.live.section_search import SearchedSections, sections_of
from indexes.parts.layout import POSITIONS, WHOLE, content_of, fingerprint_of, read_part
from indexes.parts.messages import Message, read, write
from indexes.parts.weights import SharedWeights
from indexes.store.article_store import load_array
from indexes.store.columns import Encoded
from indexes.store.index import Index
from indexes.store.manifest import RECOGNITION
from indexes.store.section_words import SECTION_WORDS, QuestionWords
from indexes.store.word_search import WordSearch
from retriever.types import BoolArray, Entity, Filter, IntArray

_PREFIX = "column "
"""Before the name of a column among what is wanted of entities."""


class PartAnswers:
    """Answers the questions of fronts; thread-safe.

    Args:
        folder: The folder of the part.

    Raises:
        ValueError: It holds none, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        if (part := read_part(folder)) is None:
            raise ValueError(f"{folder}: is no part of an index; omgm index split writes some")
        self.part, self.index = part, Index.open(folder)
        self._whole, self._recognition = content_of(folder / WHOLE), content_of(folder / RECOGNITION)
        if fingerprint_of(self._whole) != part.whole:
            raise ValueError(f"{folder / WHOLE}: content differs from its checksum; split the index again")
        self._positions: IntArray = load_array(folder / POSITIONS)
        if len(self._positions) != len(self.index):
            raise ValueError(f"{folder / POSITIONS}: has not as many rows as the part has entities; split it again")
        self._articles, self._text = Lines(folder / "entities.jsonl"), IndexText(self.index)
        self.answers: Mapping[str, Callable[[Message], bytes]] = {
            name: getattr(self, name)
            for name in (
                "about",
                "search",
                "entities",
                "find",
                "sample",
                "weights",
                "sections",
                "texts",
                "scores",
                "check",
            )
        }

    def answer(self, name: str, content: bytes) -> bytes:
        """Returns the message that answers one called `name`, a method below.

        Raises:
            ValueError: The message is none, or not of that name.
        """
        message = read(content)
        try:
            return self.answers[name](message)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{name}: {error!r}") from error

    def about(self, _: Message) -> bytes:
        """Says which part of what this is, and what a front needs of the whole."""
        return write({"whole": [self._whole], "recognition": [self._recognition]}, part=self.part)

    def search(self, message: Message) -> bytes:
        """Finds the entities nearest to `queries`, with their positions in the whole, by which equals are ranked."""
        queries = torch.from_numpy(message.columns["queries"].copy())
        scores, rows = self.index.search_keys(queries, message.values["k"], _filter(message))
        return write({"scores": scores, "rows": rows, "positions": self._at(rows)})

    def entities(self, message: Message) -> bytes:
        """Returns data of the entities at `rows`; `wanted` lists it: articles, images, summaries, tokens, columns."""
        rows = message.columns["rows"].tolist()
        columns: dict[str, list[bytes | None] | IntArray] = {}
        widths = {name: column.width for name, column in self.index.columns.items()}
        for name in message.values["wanted"]:
            if name.startswith(_PREFIX):
                encoded = [self._encoded(name.removeprefix(_PREFIX), row) for row in rows]
                columns[name] = [one.values.tobytes() for one in encoded]
                columns[f"{name} parts"] = [one.parts.tobytes() for one in encoded]
            elif name == "tokens":
                tokens = [self.index.stored_tokens(self.index.token_rows(row)) for row in rows]
                columns["tokens"] = [one.values.tobytes() for one in tokens]
                columns["scales"] = [one.scales.tobytes() for one in tokens]
                counts = [(self.index.token_rows(row), self.index.section_rows(row)) for row in rows]
                columns["counts"] = np.array([[*map(len, pair)] for pair in counts], np.int64).reshape(-1, 2)
            else:
                columns[name] = [self._content(name, row) for row in rows]
        return write(columns, widths=widths)

    def _encoded(self, name: str, row: int) -> Encoded:
        encoded = self.index.column(name, row)
        if encoded is None:
            raise KeyError(name)
        return encoded

    def _content(self, name: str, row: int) -> bytes | None:
        if name == "article":
            return bytes(self._articles.read(row, bytes))
        if name == "summary":
            return self.index.summary(row).encode()
        path = self.index.image_path(row)
        return None if path is None else path.read_bytes()

    def find(self, message: Message) -> bytes:
        """Finds the entities with some ids or other names, and says how well each of these fits, lowest best."""
        rows, ranks = list[int](), list[int]()
        for name in message.values["ids"]:
            row = self.index.row_of(name)
            rows.append(-1 if row is None else row)
            ranks.append(-1 if row is None else next(_ranks(self.index.entity(row), name), 0))
        found = np.array(rows, np.int64)
        return write({"rows": found, "ranks": np.array(ranks, np.int64), "positions": self._at(found)})

    def sample(self, message: Message) -> bytes:
        """Returns those of every `step` entities of the whole that are in this part."""
        rows = np.flatnonzero(self._positions % message.values["step"] == 0).astype(np.int64)
        return write({"rows": rows, "positions": self._positions[rows]})

    def weights(self, message: Message) -> bytes:
        """Returns in how many documents `terms` are: of sections, or of the text on images."""
        is_sections = message.values["column"] == SECTION_WORDS
        lists = self._sections.words if is_sections else self._words.lists
        if lists is None:
            raise KeyError(SECTION_WORDS)
        return SharedWeights.of(lists, message.columns["terms"]).write()

    def sections(self, message: Message) -> bytes:
        """Finds the sections that fit a `question` best, without those of entities at the rows `excluded`."""
        values = message.values
        vector = None if values["vector"] is None else np.array(values["vector"], np.float32)
        words = SharedWeights.read(message)
        question = QuestionWords(values["question"], [words], words)
        matches = self._sections.search(question, vector, values["excluded"], self._among(message))
        table = np.array([[np.nan if value is None else value for value in match] for match in matches], np.float64)
        return write({"matches": table.reshape(-1, 5)})

    def texts(self, message: Message) -> bytes:
        """Finds the `k` entities most similar to a `text`, and how similar those at `rows` are."""
        words = WordSearch(self._words.lists.with_weights(SharedWeights.read(message)))
        values = message.values
        similar = words.similar(values["text"], values["k"], values["rows"], self._among(message))
        cosines = np.array([*similar.values()], np.float64)
        return write({"rows": np.array([*similar], np.int64), "cosines": cosines})

    def scores(self, message: Message) -> bytes:
        """Returns the scores that a search gives the entities at `rows`."""
        query = np.array(message.values["query"], np.float32)
        scores = self._text.scores_of_query(query, message.columns["rows"].tolist())
        return write({"scores": np.array(scores, np.float64)})

    def check(self, message: Message) -> bytes:
        """Says of each field and value of a filter why no entity here has it, that fits `within`; "" if one has."""
        problems = []
        for field in _filter(message):
            try:
                self.index.fields.check((field,), _filter(message, "within"))
                problems.append("")
            except ValueError as error:
                problems.append(str(error))
        return write({}, problems=problems)

    def _among(self, message: Message) -> BoolArray | None:
        among: BoolArray | None = self.index.fields.among(filter) if (filter := _filter(message)) else None
        return among

    def _at(self, rows: IntArray) -> IntArray:
        positions = np.full(rows.shape, -1, np.int64)
        positions[rows >= 0] = self._positions[rows[rows >= 0]]
        return positions

    @cached_property
    def _sections(self) -> SearchedSections:
        return sections_of(self.index)

    @cached_property
    def _words(self) -> WordSearch:
        return WordSearch.open(self.index.folder)


def _filter(message: Message, name: str = "filter") -> Filter:
    return tuple((field, tuple(texts)) for field, texts in message.values[name])


def _ranks(entity: Entity, name: str) -> Iterator[int]:
    """Yields how well names of an entity fit one that was asked for: spellings as given first, ids before others."""
    for number, spelling in enumerate(spellings(name)):
        if spelling == entity.id:
            yield 2 * number
        if spelling in other_ids(entity):
            yield 2 * number + 1
