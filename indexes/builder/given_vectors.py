"""Vectors of summaries that another system computed: a flat FAISS index, as OMGM's, EchoSight's and ReflectiVA's."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from indexes.json_streams import read_values, starts_with
from indexes.labeled_values import kind
from retriever.digests import digests_of
from retriever.types import Entity, FloatArray, IntArray
from retriever.wording import counted

_FLAT = (faiss.IndexFlatIP, faiss.IndexFlatL2, faiss.IndexFlat)
_IDS = ("id", "url", "entity_id")


class GivenVectors:
    """The vectors of a flat FAISS index, memory-mapped and normalized when read; vector i is of the i-th entity.

    Args:
        path: The index.
        ids: The entity of each vector, if they are not in the order of the knowledge base: its id, or its position.

    Raises:
        ValueError: The file is no flat FAISS index, is empty, or has other vectors than `ids`.
    """

    def __init__(self, path: Path, ids: Sequence[str | int] | None = None) -> None:
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1][-200:]
            raise ValueError(f"{path}: cannot be read as a FAISS index ({reason})") from error
        if not isinstance(index, _FLAT):
            raise ValueError(
                f"{path}: is a {type(index).__name__}, but only a flat index (IndexFlatIP) has the vectors themselves"
            )
        if not index.ntotal:
            raise ValueError(f"{path}: has no vectors")
        if ids is not None and len(ids) != index.ntotal:
            raise ValueError(f"{path}: has {index.ntotal:,} vectors, but {len(ids):,} ids were given for them")
        self.path, self.ids, self._index = path, ids, index
        [digest] = digests_of([path])
        self.digest = digest.hex()

    def __len__(self) -> int:
        """Returns the number of vectors."""
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._index.d)

    def rows_for(self, entities: Sequence[Entity]) -> IntArray:
        """Returns the number of each entity's vector, int64 [N].

        Raises:
            ValueError: There are more or fewer vectors than entities, or an entity has none; the message says so.
        """
        if self.ids is None or isinstance(self.ids[0], int):
            if len(entities) != len(self):
                raise ValueError(
                    f"{self.path}: has {counted(len(self), 'vector')}, but the knowledge base has "
                    f"{counted(len(entities), 'entity')}; name the one that the vectors were made from, in its order, "
                    "or the entity of each vector"
                )
            rows = np.arange(len(self), dtype=np.int64)
            if self.ids is not None:
                rows[np.array(self.ids)] = np.arange(len(self), dtype=np.int64)
            return rows
        known = {id: row for row, id in enumerate(self.ids)}
        missing = [entity.id for entity in entities if entity.id not in known]
        if missing:
            raise ValueError(
                f"{self.path}: {counted(len(missing), 'entity')} of {len(entities):,} have no vector, such as "
                f"{missing[0]!r}"
            )
        return np.array([known[entity.id] for entity in entities], np.int64)

    def read(self, rows: IntArray) -> FloatArray:
        """Returns vectors, float32 [len(rows), dimension], of length 1.

        Raises:
            ValueError: A vector is zero or not finite.
        """
        vectors = np.stack([self._index.reconstruct(int(row)) for row in rows])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            bad = int(rows[int(np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))[0])])
            raise ValueError(f"{self.path}: vector {bad} is zero or not finite")
        return np.asarray(vectors / lengths, np.float32)


class GivenSummaries:
    """A `Summarizer` that returns given summaries, and titles where there are none.

    Args:
        summaries: By entity id.
        name: Identifies them.
    """

    def __init__(self, summaries: Mapping[str, str], name: str) -> None:
        self._summaries, self.name = summaries, name

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields one summary per entity."""
        for entity in entities:
            yield self._summaries.get(entity.id) or entity.title


def read_summaries(path: Path) -> dict[str, str]:
    """Reads summaries by entity id: an object of texts by id, or JSON lines with `id` (or `url`) and `summary`.

    Raises:
        ValueError: The file has another form, or a field that is not known; the message names it.
    """
    if starts_with(path, "{"):
        values = [row for _, row in read_values(path)]
        if len(values) == 1 and "summary" not in values[0]:
            return {_text(path, id, id): _text(path, value, id) for id, value in values[0].items()}
    else:
        raise ValueError(f"{path}: expected an object of summaries by id, or JSON lines with id and summary")
    summaries = {}
    for number, row in enumerate(values, start=1):
        unknown = sorted(row.keys() - {*_IDS, "summary"})
        if unknown:
            raise ValueError(f"{path}: line {number}: unknown field {unknown[0]!r}; known are id, url and summary")
        id = next((row[name] for name in _IDS if name in row), None)
        summaries[_text(path, id, "id")] = _text(path, row.get("summary"), "summary")
    return summaries


def read_ids(path: Path) -> list[str] | list[int]:
    """Reads the entity of each vector: a JSON list of ids or positions, or ReflectiVA's `{"values": [[id, …], …]}`.

    Raises:
        ValueError: The file has another form; EchoSight's pickle has to be converted to JSON by its owner.
    """
    if path.suffix in (".pkl", ".pickle"):
        raise ValueError(f"{path}: is a pickle, which could run any code when read; write its list as JSON")
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    if isinstance(content, dict):
        if unknown := sorted(content.keys() - {"values"}):
            raise ValueError(f"{path}: unknown field {unknown[0]!r}; expected a list, or an object with values")
        content = [row[0] if isinstance(row, list) and row else row for row in content.get("values", ())]
    if isinstance(content, list) and content:
        if all(isinstance(one, str) for one in content) and len(set(content)) == len(content):
            return content
        if all(type(one) is int for one in content) and sorted(content) == list(range(len(content))):
            return content
    raise ValueError(f"{path}: expected a list of different ids, or of all positions from 0, got {kind(content)}")


def _text(path: Path, value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{path}: {what}: expected text, got {kind(value)}")
    return value
