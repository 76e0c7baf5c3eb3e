"""What a part answers to its front, from its own files and without models, and the changes that it makes for it."""

from __future__ import annotations

import errno
import json
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from indexes.ids import other_ids, spellings
from indexes.lines import to_row
from indexes.live.changes import Origin, from_bytes, to_bytes
from indexes.live.image_text import IndexText
from indexes.live.index import LiveIndex
from indexes.live.section_search import IndexSections
from indexes.live.version import Version
from indexes.parts.layout import POSITIONS, WHOLE, content_of, fingerprint_of, part_of, read_part
from indexes.parts.messages import Message, read, write
from indexes.parts.weights import SharedWeights
from indexes.store.article_store import opened
from indexes.store.columns import Encoded
from indexes.store.index import Index
from indexes.store.lock import SERVES
from indexes.store.manifest import RECOGNITION, read_manifest
from indexes.store.section_words import SECTION_WORDS, QuestionWords
from retriever.arrays import map_array
from retriever.types import Entity, Filter, IntArray

logger = logging.getLogger(__name__)

_READING = frozenset(
    ("about", "search", "entities", "find", "sample", "weights", "sections", "texts", "scores", "check", "stored")
)
"""The questions that change nothing, each answered by the method of its name."""
_PREFIX = "column "
"""Before the name of a column among what is wanted of entities."""
_AT_ONCE = 64
"""Changes of different entities that are made at the same time, and with one sync; those of one keep their order."""
_REMEMBERED = 100_000
"""Entities whose latest changes are remembered, so that no earlier one of the same front is made after them."""
_HELD = 60.0
"""Seconds for which rows of a version that was asked stay readable, since a front reads later what it has found."""


class PartAnswers:
    """Answers the questions of fronts; thread-safe.

    The first change takes the lock on the folder; until then, changes of another process that serves it are followed.

    Args:
        folder: The folder of the part.
        compact_after: As in `Editor`.

    Attributes:
        session: A random name: rows are those of this object, and are given out again differently by the next.

    Raises:
        ValueError: It holds none, or is damaged.
    """

    def __init__(self, folder: Path, compact_after: int = 0) -> None:
        if (part := read_part(folder)) is None:
            raise ValueError(f"{folder}: is no part of an index; omgm index split writes some")
        self.part, self.index, self.session = part, LiveIndex.open(folder), secrets.token_hex(8)
        self._compact_after = compact_after
        self._whole, self._recognition = content_of(folder / WHOLE), content_of(folder / RECOGNITION)
        if fingerprint_of(self._whole) != part.whole:
            raise ValueError(f"{folder / WHOLE}: content differs from its checksum; split the index again")
        self._entities = read_manifest(folder, WHOLE).counts.entities
        self._positions: WeakKeyDictionary[Index, IntArray] = WeakKeyDictionary()
        self._of_files(self.index.version.base)
        self._text, self._sections = IndexText(self.index), IndexSections(self.index)
        self._held: deque[list[Any]] = deque()
        self._holding, self._ordering = threading.Lock(), [threading.Lock() for _ in range(_AT_ONCE)]
        self._last: dict[tuple[str, str], int] = {}  # of each front and entity
        self.answer("about", write({}))  # imports now what messages need, so that a front need not wait for it

    def answer(self, name: str, content: bytes) -> bytes:
        """Returns the message that answers one called `name`, a method below.

        Raises:
            ValueError: The message is none, or not of that name.
        """
        message = read(content)
        try:
            if name == "apply":
                return self.apply(message)
            if name not in _READING:
                raise KeyError(name)
            with self.index.pinned() as version:
                self._hold(version)
                answer: bytes = getattr(self, name)(message)
                return answer
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{name}: {error!r}") from error

    def close(self) -> None:
        """Lets other processes change the part."""
        self.index.close()

    def _hold(self, version: Version) -> None:
        """Keeps what is readable in a version; the version itself would keep what searches have made of it, too."""
        now, own = time.monotonic(), (version.base, version.logged)
        with self._holding:
            if not self._held or self._held[-1][1] != own:
                self._held.append([now, own, list(version.entries.values())])
            self._held[-1][0] = now
            while self._held[0][0] < now - _HELD:
                self._held.popleft()

    def about(self, _: Message) -> bytes:
        """Says which part of what this is, and what a front needs of the whole."""
        of_whole = {"whole": [self._whole], "recognition": [self._recognition]}
        return write(of_whole, part=self.part, session=self.session, **self._size())

    def _size(self) -> dict[str, int]:
        return {"entities": len(self.index), "logged": self.index.version.logged}

    def apply(self, message: Message) -> bytes:
        """Makes `changes`, and answers when they are on disk; or says which entity is `hidden` from the caller."""
        read = map(from_bytes, message.columns["changes"])
        changes, (front, number) = [one for one in read if not isinstance(one, Origin)], message.values["order"]
        try:
            self.index.take_over(SERVES)
            with self._ordering[part_of(changes[0].id, len(self._ordering))]:
                if any(self._last.get((front, one.id), -1) > number for one in changes):
                    raise OSError("a front that had given it up has sent a later change of the same entity since")
                self.index.apply(changes, _filter(message, "scope"))
                self._remember(front, number, [one.id for one in changes])
        except KeyError as error:
            return write({}, hidden=error.args[0])
        except (ValueError, OSError) as error:  # the folder is read-only or full, or another process changes it
            logger.error("a change was refused: %s", error)
            return write({}, failure=str(error), errno=(error.errno or errno.EIO) if isinstance(error, OSError) else 0)
        self.index.compact_when_due(self._compact_after)
        return write({}, **self._size())

    def _remember(self, front: str, number: int, ids: Sequence[str]) -> None:
        """Notes the latest changes of a front, and forgets the oldest: one that was given up comes within seconds."""
        with self._holding:
            for id in ids:
                self._last.pop((front, id), None)
                self._last[front, id] = number
            while len(self._last) > _REMEMBERED:
                del self._last[next(iter(self._last))]

    def stored(self, message: Message) -> bytes:
        """Returns all that is stored of the entity at the only one of `rows`, as if it were added now."""
        [row] = message.columns["rows"].tolist()
        return write({"entity": [to_bytes(self.index.stored(row))]})

    def search(self, message: Message) -> bytes:
        """Finds the entities nearest to `queries`, with their positions in the whole, by which equals are ranked."""
        queries = torch.from_numpy(message.columns["queries"].copy())
        scores, rows = self.index.search_keys(queries, message.values["k"], _filter(message))
        return write({"scores": scores, "rows": rows, "positions": self._at(rows)}, **self._size())

    def entities(self, message: Message) -> bytes:
        """Returns data of the entities at `rows`; `wanted` lists it: articles, images, summaries, tokens, columns."""
        rows = message.columns["rows"].tolist()
        columns: dict[str, list[bytes | None] | IntArray] = {}
        widths = {name: column.width for name, column in self.index.version.base.columns.items()}
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
            return json.dumps(to_row(self.index.entity(row)), ensure_ascii=False).encode()
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
        version, step = self.index.version, message.values["step"]
        own = np.flatnonzero(self._of_files(version.base) % step == 0).astype(np.int64)
        rows = version.start + np.setdiff1d(own, np.array([*version.removed.values()], np.int64))
        rows = np.concatenate([rows, np.array([entry.row for entry in version.entries.values()], np.int64)])
        positions = self._at(rows)
        chosen = positions % step == 0
        return write({"rows": rows[chosen], "positions": positions[chosen]})

    def weights(self, message: Message) -> bytes:
        """Returns in how many documents `terms` are: of sections, or of the text on images."""
        is_sections = message.values["column"] == SECTION_WORDS
        lists = self._sections.lists() if is_sections else self._text.lists()
        files, changes = lists
        return SharedWeights.of(files, changes, message.columns["terms"]).write()

    def sections(self, message: Message) -> bytes:
        """Finds the sections that fit a `question` best, without those of entities at the rows `excluded`."""
        values = message.values
        vector = None if values["vector"] is None else np.array(values["vector"], np.float32)
        words = SharedWeights.read(message)
        question = QuestionWords(values["question"], [words, words.of_changes], words)
        matches = self._sections.search(values["question"], vector, values["excluded"], _filter(message), question)
        table = np.array([[np.nan if value is None else value for value in match] for match in matches], np.float64)
        return write({"matches": table.reshape(-1, 5)})

    def texts(self, message: Message) -> bytes:
        """Finds the `k` entities most similar to a `text`, and how similar those at `rows` are."""
        values, words = message.values, SharedWeights.read(message)
        similar = self._text.similar(values["text"], values["k"], values["rows"], _filter(message), words)
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

    def _at(self, rows: IntArray) -> IntArray:
        places = [-1 if row < 0 else self._position(row) for row in rows.ravel().tolist()]
        return np.array(places, np.int64).reshape(rows.shape)

    def _position(self, row: int) -> int:
        """Returns the position of an entity; a changed one keeps its own, and new ones follow all."""
        home, own = self.index.at(row)
        if isinstance(home, Index):
            return int(self._of_files(home)[own])
        version = self.index.version
        old = version.removed.get(home.change.id)
        if old is not None:
            return int(self._of_files(version.base)[old])
        return self._entities + row * self.part.of + self.part.number - 1

    def _of_files(self, files: Index) -> IntArray:
        if (positions := self._positions.get(files)) is None:
            positions = self._positions[files] = opened(map_array, files.folder / POSITIONS)
            if len(positions) != len(files):
                raise ValueError(f"{files.folder / POSITIONS}: has not as many rows as there are entities; split again")
        return positions


def _filter(message: Message, name: str = "filter") -> Filter:
    return tuple((field, tuple(texts)) for field, texts in message.values[name])


def _ranks(entity: Entity, name: str) -> Iterator[int]:
    """Yields how well names of an entity fit one that was asked for: spellings as given first, ids before others."""
    for number, spelling in enumerate(spellings(name)):
        if spelling == entity.id:
            yield 2 * number
        if spelling in other_ids(entity):
            yield 2 * number + 1
