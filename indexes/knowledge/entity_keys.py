"""What the image files of each entity may be called after: its id, names, short values of its fields, its folder."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.knowledge.file_keys import loose_key
from retriever.types import Entity, IntArray

OWN_FILE = ""
"""The field of `Entity.named_after` for the path of the file that an entity comes from."""
SHARED = -2
"""The row of what belongs to several entities."""
_PAGE = re.compile(r"(?:(?:^|/)(?:_?index|readme|default))?(?:\.(?:x?html?|mdx?|markdown))?$", re.IGNORECASE)
"""The end of a path that says that it is a page, not which."""
_LONGEST = 100
_MOST_FIELDS = 100
_LEVELS = 2


class KeyRows(NamedTuple):
    """Entities by key, sorted by hash and field; `hash` is that of Python, so they hold in this process alone.

    Attributes:
        hashes: The hash of each key, int64.
        fields: The number of the field that the key comes from.
        rows: The row of the entity, or `SHARED`.
        weak: Whether the key is a number, or shorter than three characters.
    """

    hashes: IntArray
    fields: NDArray[np.int16]
    rows: NDArray[np.int32]
    weak: NDArray[np.bool_]


class EntityKeys:
    """Collects the keys of entities, in 15 bytes each.

    Attributes:
        fields: The names of the fields.
        lacking: For each entity, whether it has no image yet.
    """

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.lacking = array("b")
        self._number: dict[str, int] = {}
        self._hashes, self._fields, self._rows, self._weak = array("q"), array("h"), array("i"), array("b")
        self._in_folder: dict[str, int] = {}
        self._under_folder = Counter[str]()

    def add(self, entity: Entity, lacking: bool) -> None:
        """Adds the next entity.

        Args:
            entity: The entity.
            lacking: Whether it has no image yet.
        """
        row = len(self.lacking)
        self.lacking.append(lacking)
        values = [("id", _last_name(entity.id)), ("title", entity.title), *(("names", one) for one in entity.names)]
        for field, value in dict.fromkeys((*values, *entity.named_after)):
            if field == OWN_FILE:
                self._add_folder(value.rpartition("/")[0], row)
            elif len(value) <= _LONGEST and (key := loose_key(value)) and (number := self._of(field)) is not None:
                self._hashes.append(hash(key))
                self._fields.append(number)
                self._rows.append(row)
                self._weak.append(len(key) < 3 or key.isdecimal())

    def table(self) -> KeyRows:
        """Returns the entities by key."""
        hashes, fields = np.array(self._hashes, np.int64), np.array(self._fields, np.int16)
        order = np.lexsort((fields, hashes))
        hashes, fields, rows = hashes[order], fields[order], np.array(self._rows, np.int32)[order]
        first = np.ones(len(hashes), bool)
        first[1:] = (hashes[1:] != hashes[:-1]) | (fields[1:] != fields[:-1])
        starts = np.flatnonzero(first)
        if len(starts):
            several = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
            rows = np.where(several, np.int32(SHARED), rows[starts])
        return KeyRows(hashes[first], fields[first], rows, np.array(self._weak, bool)[order][first])

    def row_beside(self, folder: str) -> int | None:
        """Returns the row of the only entity whose file is in a folder or, if it is alone there, in the one above.

        Returns:
            `SHARED` if the nearest folder with such files has several of them, `None` if there is none.
        """
        here, inner = folder, folder not in self._in_folder
        if inner:
            here = folder.rpartition("/")[0]
        if not folder or here not in self._in_folder:
            return self._in_folder.get(folder)
        return SHARED if inner and self._under_folder[here] > 1 else self._in_folder[here]

    def folder_keys(self, folder: str) -> Iterator[str]:
        """Yields the keys of a folder and of the one above it, as far as they are one entity's."""
        for _ in range(_LEVELS):
            if not folder or self._under_folder[folder] > 1:
                return
            folder, _, name = folder.rpartition("/")
            yield loose_key(name)

    def _of(self, field: str) -> int | None:
        if field not in self._number and len(self.fields) < _MOST_FIELDS:
            self._number[field] = len(self.fields)
            self.fields.append(field)
        return self._number.get(field)

    def _add_folder(self, folder: str, row: int) -> None:
        self._in_folder[folder] = SHARED if folder in self._in_folder else row
        self._under_folder[folder] += 1
        while folder:
            folder = folder.rpartition("/")[0]
            self._under_folder[folder] += 1


def _last_name(id: str) -> str:
    """Returns the last name of an id that is a path or a URL: `fox` for `animals/fox/index.html`."""
    path = re.split("[?#]", id)[0] if "://" in id else id
    while path and (shorter := _PAGE.sub("", path.rstrip("/"))) != path:
        path = shorter
    return path.rpartition("/")[2] or id
