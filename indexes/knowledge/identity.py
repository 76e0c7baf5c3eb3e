"""What entities are called: ids of their own, the same for the same thing however often it is read; names of files."""

from __future__ import annotations

import posixpath
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from indexes.ids import hash_id
from retriever.strict_json import is_unicode
from retriever.types import Entity


class Identities:
    """Gives entities ids, and finds copies; 50 to 100 bytes per entity.

    If the source has `several` files, the same id in two of them means two things, unless these are equal: tables
    number their rows, and a site's public folder has copies of its sources.
    """

    def __init__(self, *, several: bool) -> None:
        self._several = several
        self._seen, self._titles, self._copies = SeenHashes(), SeenHashes(), SeenHashes()
        self._count, self._path, self._of_file = 0, "", array("q")

    def skip(self) -> None:
        """Counts an entry that is no entity, so that numbers in ids are those of entries."""
        self._count += 1

    def of(self, entity: Entity, place: str, path: str) -> Entity | ValueError | None:
        """Returns an entity with an id of its own, or why it cannot be used; `None` for a copy of another one.

        An entity without an id is called by its title, with its number if an earlier one has the same title.
        """
        self._count += 1
        if self._several and self._is_copy(entity, path):
            return None
        if not entity.id and entity.title:
            is_new = self._titles.add(hash_id(entity.title))
            entity = replace(entity, id=entity.title if is_new else f"{entity.title} ({self._count})")
        if field := _bad_unicode(entity):
            return ValueError(f"{place}: {field}: not valid Unicode (surrogates not allowed)")
        if not entity.id:
            return ValueError(f"{place}: field 'id' is empty")
        if self._seen.add(hash_id(entity.id)):
            return entity
        whole = PurePosixPath(path)
        others = (whole.with_suffix("").as_posix(), path) if is_whole_file(place, path) else (f"{path}#{entity.id}",)
        other = next((id for id in others if self._several and self._seen.add(hash_id(id))), None)
        if other is None:
            return ValueError(f"{place}: field 'id': {entity.id!r} occurs a second time; every entity needs its own")
        return replace(entity, id=other)

    def _is_copy(self, entity: Entity, path: str) -> bool:
        """Returns whether another file has the same entity, with the same texts."""
        if path != self._path:
            for content in self._of_file:
                self._copies.add(content)
            self._path, self._of_file = path, array("q")
        content = hash_id(_content(entity))
        self._of_file.append(content)
        return bool(entity.sections) and content in self._copies


def is_whole_file(place: str, path: str) -> bool:
    """Returns whether the entry at a place is all that is in its file."""
    return place.endswith(path)


def _content(entity: Entity) -> str:
    return "\0".join((entity.id, entity.title, *(f"{one.title}\0{one.text}" for one in entity.sections)))


def _bad_unicode(entity: Entity) -> str:
    """Returns the field with an unpaired surrogate, which JSON can express but UTF-8 cannot; "" if there is none."""
    texts = {
        "id": [entity.id],
        "title": [entity.title],
        "url": [entity.url],
        "image": [entity.image or ""],
        "names": entity.names,
        "images": [f"{image.url} {image.caption}" for image in entity.images],
    }
    bad = (f"field {field!r}" for field, values in texts.items() if not all(map(is_unicode, values)))
    sections = (f"section {one.title!r}" for one in entity.sections if not is_unicode(f"{one.title}{one.text}"))
    return next(bad, "") or next(sections, "")


_UNNAMED = ("index", "_index", "readme")
"""Names of files that are named by their folder instead."""


def note_title(path: str, folder_name: str, common: frozenset[str] = frozenset()) -> str:
    """Returns the title of a note without one: the name of its file in words, as GitHub wikis write `Gold-Pan`.

    Args:
        path: Its path in the knowledge base.
        folder_name: The name of the knowledge base's folder.
        common: Names of files that say nothing (`common_names`).
    """
    name = named_by(path, folder_name, common)
    return name if re.search(r"\s", name) else re.sub(r"(?<=[^\W\d_])[-_]+(?=\w)|(?<=\w)[-_]+(?=[^\W\d_])", " ", name)


def common_names(files: Sequence[Path]) -> frozenset[str]:
    """Returns the file name that most notes share, in lower case, as where each thing has its folder."""
    counts = Counter(file.stem.casefold() for file in files)
    return frozenset(name for name, count in counts.items() if count > max(len(files) / 2, 1))


def named_by(path: str, folder_name: str, common: frozenset[str] = frozenset()) -> str:
    """Returns the name of a note: its file's, or its folder's if the file is an index or has a common name."""
    parts = posixpath.splitext(path)[0].split("/")
    says_nothing = parts[-1].lower() in _UNNAMED or parts[-1].casefold() in common
    return [folder_name, *parts][-2] if says_nothing else parts[-1]


class SeenHashes:
    """A set of 64-bit hashes that takes 16 to 32 bytes per hash; Python's `set` would take about a hundred."""

    def __init__(self) -> None:
        self._table = np.zeros(1 << 10, np.int64)  # 0 marks a free slot
        self._size = 0

    def add(self, value: int) -> bool:
        """Adds a hash and returns whether it is new."""
        new = self._put(self._table, value or 1)
        self._size += new
        if 2 * self._size > len(self._table):
            table = np.zeros(2 * len(self._table), np.int64)
            for old in self._table[self._table != 0].tolist():
                self._put(table, old)
            self._table = table
        return new

    def __contains__(self, value: int) -> bool:
        """Returns whether a hash was added."""
        place = (value or 1) % len(self._table)
        while (taken := self._table[place]) != 0:
            if taken == (value or 1):
                return True
            place = (place + 1) % len(self._table)
        return False

    @staticmethod
    def _put(table: NDArray[np.int64], value: int) -> bool:
        place = value % len(table)
        while (taken := table[place]) != 0:
            if taken == value:
                return False
            place = (place + 1) % len(table)
        table[place] = value
        return True
