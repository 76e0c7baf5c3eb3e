"""An index whose parts are served by processes of their own: the front asks them for what a batch of queries needs."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, Unpack

import numpy as np
import torch

from indexes.lines import from_row
from indexes.parts.layout import part_of
from indexes.parts.messages import Message, write
from indexes.parts.remote import PartLostError, Parts
from indexes.store.columns import Encoded, columns
from indexes.store.fields import FIELDS
from indexes.store.index import Index, OpenOptions, check_models
from indexes.store.keys import IMAGE_WEIGHT, as_query
from indexes.store.layout import THUMBNAILS
from indexes.store.manifest import MANIFEST, RECOGNITION, read_manifest
from indexes.store.section_vectors import SECTION_VECTORS
from indexes.store.tokens import HostTokens, Residency, TokenStore
from retriever.image_cache import ImageCache
from retriever.label_reading import TextIndex
from retriever.section_search import SectionIndex
from retriever.types import EngineError, Entity, Filter, FloatArray, IntArray, StoredTokens

logger = logging.getLogger(__name__)

T = TypeVar("T")
_SPREAD = 1 << 20
"""Token rows reserved per entity: the tokens of the entity at row r begin at r * _SPREAD."""
_SESSION = 1 << 26
"""Rows reserved per part and session of it: a part that was restarted gives out rows anew."""
_KEPT = 1 << 28
"""Bytes of entities that are kept, with their tokens and thumbnails."""


@dataclass(eq=False)
class _Row:
    """What a part has sent of an entity."""

    article: bytes
    image: Path | None
    tokens: HostTokens
    sections: int
    columns: dict[str, Encoded] = field(default_factory=dict)

    @cached_property
    def entity(self) -> Entity:
        return from_row(json.loads(self.article))


class View:
    """The parts that answered a batch of queries, and the entities that it read, which stay readable with it.

    Args:
        up: The sessions of these parts, by their numbers, from 0.
        of: The number of all parts.
    """

    def __init__(self, up: Mapping[int, int], of: int) -> None:
        self.up, self.of = up, of
        self.rows: dict[int, _Row] = {}
        self.expected: set[int] = set()


class PartedIndex(Index):
    """The index that several parts are of; thread-safe.

    A row is the row in a part times the number of parts, plus the part's number; `_SESSION` is added to the former for
    each restart of the part. What a search has found is read together, from all parts at the same time, when the first
    of it is needed. A row stays the same entity's, with the same content, also if that is changed.

    Args:
        parts: The parts.
        folder: A folder with the manifest of the whole index (`front_folder`), for thumbnails.
        device: As in `Index`.
        image_weight: As in `Index`.

    Attributes:
        texts: Searches the text on images.
        sections: Searches sections.
    """

    texts: TextIndex
    sections: SectionIndex

    def __init__(self, parts: Parts, folder: Path, device: str = "cpu", image_weight: float = IMAGE_WEIGHT) -> None:
        self.parts, self.folder, self.manifest = parts, folder, read_manifest(folder)
        self.digest = self.manifest.files["entities.jsonl"].sha256
        self.device, self.image_weight = device, image_weight
        codec, shape = self.manifest.inputs.codec, self.manifest.stored_shape[1:]
        values, scales = np.empty((0, *shape), codec.dtype), np.empty((0, shape[0]), np.float16)
        self.token_store = TokenStore(codec, values, scales, device)
        self._pinned: ContextVar[View | None] = ContextVar("pinned", default=None)
        self._rows: weakref.WeakValueDictionary[int, _Row] = weakref.WeakValueDictionary()
        self._recent, self._numbers = ImageCache(_KEPT), itertools.count()

    @classmethod
    def open_parts(cls, parts: Parts, folder: Path, **options: Unpack[OpenOptions]) -> PartedIndex:
        """Opens the index of some parts; raises errors like `Index.open`."""
        index = PartedIndex(parts, folder, options.get("device", "cpu"), options.get("image_weight", IMAGE_WEIGHT))
        check_models(folder, index.manifest, options)
        return index

    @contextmanager
    def pinned(self) -> Iterator[View]:
        """Yields a view that this context uses until the end of the block: of the parts that are up now.

        Within such a block, it is that of the block.
        """
        view = self.view
        token = self._pinned.set(view)
        try:
            yield view
        finally:
            self._pinned.reset(token)

    @property
    def is_pinned(self) -> bool:
        """Whether this context has pinned a view."""
        return self._pinned.get() is not None

    @property
    def view(self) -> View:
        """The view that this context has pinned, or else a new one."""
        return self._pinned.get() or View(self.parts.up, self.parts.of)

    @property
    def up(self) -> frozenset[tuple[int, int]]:
        """The parts of this context's view and their sessions, to which what is learned from samples belongs."""
        return frozenset(self.view.up.items())

    def retried(self, work: Callable[[View], T]) -> T:
        """Calls `work` with a view of the parts that are up, and returns its result; again without a part that is lost.

        Raises:
            EngineError: All are down.
        """
        for left in reversed(range(self.parts.of + 1)):
            try:
                with self.pinned() as view:
                    return work(view)
            except PartLostError as error:
                if not left:
                    raise
                logger.warning("asking again, without a part: %s", error)
        raise AssertionError

    def ask(self, name: str, content: bytes) -> dict[int, Message]:
        """Asks all parts of the view; returns their answers by number.

        Raises:
            PartLostError: One of them is lost.
            EngineError: All are down.
        """
        if not (up := self.view.up):
            raise EngineError("all parts of the index are down")
        return self.parts.ask(name, dict.fromkeys(up, content), up)

    def ask_of(self, name: str, rows: Sequence[int], **values: Any) -> dict[int, tuple[list[int], Message]]:
        """Asks the parts of some rows about these; returns which each was asked about, and its answer."""
        of: dict[int, list[int]] = {}
        for row in rows:
            of.setdefault(row % self.parts.of, []).append(row)
        sessions = {number: min(some) // self.parts.of // _SESSION for number, some in of.items()}
        own = {number: np.array(some, np.int64) // self.parts.of % _SESSION for number, some in of.items()}
        contents = {number: write({"rows": some}, **values) for number, some in own.items()}
        return {number: (of[number], answer) for number, answer in self.parts.ask(name, contents, sessions).items()}

    def in_parts(self, rows: Iterable[int]) -> dict[int, list[int]]:
        """Returns those of some rows that each part of the view has, as its own."""
        of, wanted = self.parts.of, [*rows]
        return {
            number: [row // of % _SESSION for row in wanted if row % of == number and row // of // _SESSION == session]
            for number, session in self.view.up.items()
        }

    def __len__(self) -> int:
        """Returns the number of entities, also of parts that are down."""
        known = self.parts.entities
        return self.manifest.counts.entities if known is None else known

    def search(self, vectors: torch.Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        """Returns scores and rows; see `Index.search`. Entities with equal scores are in the order of the whole."""
        queries = as_query(vectors.float().cpu(), self.manifest.inputs.candidates, self.image_weight).numpy()
        answers = self.ask("search", write({"queries": queries}, k=k, filter=filter))
        scores = np.concatenate([answer.columns["scores"] for answer in answers.values()], axis=1)
        positions = np.concatenate([answer.columns["positions"] for answer in answers.values()], axis=1)
        rows = np.concatenate(
            [self.rows_in(number, answer.columns["rows"]) for number, answer in answers.items()], axis=1
        )
        order = np.lexsort((positions, -scores), axis=1)[:, :k]
        best = np.take_along_axis(rows, order, axis=1)
        self.view.expected.update(best[best >= 0].tolist())
        return np.take_along_axis(scores, order, axis=1), best

    def rows_in(self, number: int, own: IntArray) -> IntArray:
        """Returns the rows of entities by their rows in a part; -1 stays."""
        first = self.view.up[number] * _SESSION
        rows: IntArray = np.where(own < 0, -1, (own + first) * self.parts.of + number)
        return rows

    def sample(self, most: int) -> list[int]:
        """Returns rows of up to `most` entities all over the index, always the same."""
        answers = self.ask("sample", write({}, step=-(-len(self) // most) or 1))
        pairs = list[tuple[int, int]]()
        for number, answer in answers.items():
            rows = self.rows_in(number, answer.columns["rows"]).tolist()
            pairs += zip(answer.columns["positions"].tolist(), rows, strict=True)
        self.view.expected.update(row for _, row in pairs)
        return [row for _, row in sorted(pairs)]

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, or `None` if it is not in the index.

        Raises:
            PartLostError: It may be in a part that is down.
        """
        matches, home = list[tuple[int, int, int]](), part_of(entity_id, self.parts.of)
        with self.pinned() as view:
            for number, answer in self.ask("find", write({}, ids=[entity_id])).items():
                [own], [rank], [position] = (answer.columns[name].tolist() for name in ("rows", "ranks", "positions"))
                if own >= 0:
                    matches.append((rank, position, int(self.rows_in(number, np.array(own)))))
        if home not in view.up and not (matches and min(matches)[0] == 0):
            raise self.parts.lost(home, "is down, and may have the entity")
        return min(matches)[2] if matches else None

    def entity(self, row: int) -> Entity:
        """Returns the article at `row`; raises errors like `row`."""
        return self._row(row).entity

    def summary(self, row: int) -> str:
        """Returns the summary of the article at `row`."""
        [(_, answer)] = self.ask_of("entities", [row], wanted=["summary"]).values()
        return bytes(answer.columns["summary"][0]).decode()

    def image_path(self, row: int) -> Path | None:
        """Returns the path of the main image's thumbnail, or `None`; it is here as long as the entity is kept."""
        return self._row(row).image

    def token_rows(self, row: int) -> range:
        """Returns the rows of an entity's tokens, see `Index.token_rows`."""
        return range(row * _SPREAD, row * _SPREAD + len(self._row(row).tokens.values))

    def section_rows(self, row: int) -> range:
        """Returns the rows of an entity's section tokens."""
        return range(row * _SPREAD, row * _SPREAD + self._row(row).sections)

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns stored tokens; each span is the `token_rows` of an entity or a prefix of them."""
        return self.token_store.gather([], [self._tokens(span) for span in spans])

    def tokens(self, rows: IntArray) -> torch.Tensor:
        """Returns stored tokens, decoded; see `Index.tokens`."""
        each = [self.token_store.decode(self._tokens(range(row, row + 1))) for row in np.asarray(rows).tolist()]
        return torch.cat(each) if each else self.token_store.read(np.empty(0, np.int64))

    def column(self, name: str, row: int) -> Encoded | None:
        """Returns the rows of an entity in a column; `None` if the index has no such column."""
        if name not in self.manifest.inputs.columns:
            return None
        found = self._row(row)
        if name not in found.columns:  # then others are needed, too
            kept = self.view.rows | {row: found}
            lacking = {row: other for row, other in kept.items() if name not in other.columns}
            for rows, answer in self.ask_of("entities", [*lacking], wanted=[_column(name)]).values():
                for number, other in enumerate(rows):
                    lacking[other].columns[name] = self._encoded(name, answer, number)
        return found.columns[name]

    @cached_property
    def fields(self) -> Any:
        """The fields of its entities."""
        return _PartedFields(self)

    @property
    def residency(self) -> Residency:
        """Where the tokens are."""
        return _InParts(0)

    def _row(self, row: int) -> _Row:
        """Returns an entity, after reading it and what else the view expects to need, if that was not read yet."""
        view = self.view
        found = view.rows.get(row) or self._rows.get(row)
        if found is None:
            self._read([row, *(other for other in view.expected if other not in self._rows)], view)
            found = view.rows[row]
        return view.rows.setdefault(row, found)  # steps side by side may read one at once: the file of the first stays

    def _read(self, rows: Sequence[int], view: View) -> None:
        """Reads entities from their parts.

        Raises:
            PartLostError: One of these is lost.
        """
        wanted = ["article", "image", "tokens"]
        sections = SECTION_VECTORS.name
        wanted += [_column(sections)] if sections in self.manifest.inputs.columns else []
        shape, codec = self.manifest.stored_shape[1:], self.manifest.inputs.codec
        for of_part, answer in self.ask_of("entities", [*dict.fromkeys(rows)], wanted=wanted).values():
            values = answer.columns
            for number, row in enumerate(of_part):
                tokens = np.frombuffer(values["tokens"][number], codec.dtype).reshape(-1, *shape)
                scales = np.frombuffer(values["scales"][number], np.float16)
                scales = scales.reshape(-1, shape[0]) if codec.scaled else scales.reshape(0, 0)
                found = _Row(
                    values["article"][number],
                    self._written(row, values["image"][number]),
                    HostTokens(tokens, scales),
                    int(values["counts"][number, 1]),
                )
                if len(wanted) > 3:
                    found.columns[sections] = self._encoded(sections, answer, number)
                if found.image is not None:
                    weakref.finalize(found, found.image.unlink, missing_ok=True).atexit = False
                self._rows[row] = found = view.rows.setdefault(row, found)
                size = len(found.article) + tokens.nbytes + len(values["image"][number] or b"")
                self._recent.put("row", str(row), found, size)

    def _written(self, row: int, thumbnail: bytes | None) -> Path | None:
        """Returns a file with a thumbnail; its time is always the same, as its content is."""
        if thumbnail is None:
            return None
        path = self.folder / THUMBNAILS / f"{row}-{next(self._numbers)}.jpg"  # an old one may be about to be removed
        path.write_bytes(thumbnail)
        os.utime(path, (0, 0))
        return path

    def _tokens(self, span: range) -> HostTokens:
        row, start = divmod(span.start, _SPREAD)
        tokens = self._row(row).tokens
        return HostTokens(*(array[start : start + len(span)] for array in tokens))

    def _encoded(self, name: str, answer: Message, number: int) -> Encoded:
        values, parts = answer.columns[_column(name)][number], answer.columns[f"{_column(name)} parts"][number]
        keys, width = np.frombuffer(parts, np.int64), answer.values["widths"][name]
        return Encoded(np.frombuffer(values, columns()[name].dtype).reshape(len(keys), width), keys)


class _PartedFields:
    """The fields of the entities of an index in parts (implements `retriever.filters.Fields`)."""

    def __init__(self, index: PartedIndex) -> None:
        self._ask = index.ask
        self.names = index.manifest.inputs.columns.get(FIELDS, "").splitlines()

    def check(self, filter: Filter, within: Filter) -> None:
        """Checks that there are such fields, with such values in some part.

        Raises:
            ValueError: There are none; the message says what a part has instead.
        """
        single = [(name, (text,)) for name, texts in filter for text in texts]
        answers = self._ask("check", write({}, filter=single, within=within))
        for problems in zip(*(answer.values["problems"] for answer in answers.values()), strict=True):
            if all(problems):
                raise ValueError(problems[0])


class _InParts(Residency):
    def __str__(self) -> str:
        return "tokens are in the parts of the index, and read for each batch"


def _column(name: str) -> str:
    return f"column {name}"


def front_folder(parts: Parts) -> Path:
    """Returns a temporary folder with what parts say of the whole index; it is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="omgm-parts-"))
    weakref.finalize(parts, shutil.rmtree, folder, ignore_errors=True)
    (folder / THUMBNAILS).mkdir()
    (folder / MANIFEST).write_bytes(parts.manifest)
    if parts.recognition:
        (folder / RECOGNITION).write_bytes(parts.recognition)
    return folder
