"""The groups of entities in a folder, by reader and place: how many have an image, and how to leave one out."""

from __future__ import annotations

import posixpath
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from posixpath import commonpath
from shlex import quote

from retriever.types import Entity
from retriever.wording import counted

_LISTED = 8
_FEW = 0.2  # share of entities with an image up to which a group may hold other things


@dataclass(frozen=True, slots=True)
class Group:
    """Entities that the same reader found in one place.

    Attributes:
        reader: The name of the reader.
        pattern: Their files, as `--only` and `--skip` take them.
        entities: Their number.
        with_image: How many of them have an image.
    """

    reader: str
    pattern: str
    entities: int
    with_image: int

    def __str__(self) -> str:
        """Describes the group: "`docs/*`: 31 entities without image"."""
        images = f"{self.with_image:,} with an image" if self.with_image else "none with an image"
        return f"{self.pattern} ({self.reader}): {counted(self.entities, 'entity')}, {images}"


class Groups:
    """Remembers in which place each entity of a reading was; 4 bytes per entity.

    The order of entities is that in which they are read.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, bool], int] = {}
        self._of = array("i")
        self._with_image = array("b")

    def add(self, reader: str, path: str, *, is_file: bool) -> None:
        """Adds the next entity: its reader, and the path of its file, which may hold nothing else."""
        place = (reader, posixpath.dirname(path) if is_file else path, is_file)
        self._of.append(self._numbers.setdefault(place, len(self._numbers)))

    def counting(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Yields entities in the order of `add`, and notes which of them have an image."""
        for entity in entities:
            self._with_image.append(entity.image is not None or bool(entity.images))
            yield entity

    def all(self) -> list[Group]:
        """Returns the groups: tables by file, and notes, pages and records by reader and top folder."""
        files = [folder for _, folder, is_file in self._numbers if is_file]
        shared = commonpath([folder or "." for folder in files]) if files else ""
        start = 0 if shared in ("", ".") else len(shared) + 1
        patterns = []
        for reader, folder, is_file in self._numbers:
            top = folder[:start] + folder[start:].partition("/")[0] if len(folder) > start else folder
            patterns.append((reader, (f"{top}/*" if top else "*") if is_file else folder))
        counts: dict[tuple[str, str], list[int]] = {}
        for number, has_image in zip(self._of, self._with_image, strict=False):
            count = counts.setdefault(patterns[number], [0, 0])
            count[0] += 1
            count[1] += has_image
        return [Group(*place, *count) for place, count in counts.items()]

    def notes(self) -> Iterator[str]:
        """Yields lines about several groups, and how to leave out those that hold hardly any image."""
        groups = self.all()
        if len(groups) < 2:
            return
        for group in groups[:_LISTED]:
            yield str(group)
        things = [group for group in groups if group.with_image > _FEW * group.entities]
        others = [group for group in groups if group.with_image <= _FEW * group.entities]
        if things and others:
            skip = " ".join(f"--skip {quote(group.pattern)}" for group in others if group.pattern != "*")
            only = " ".join(f"--only {quote(group.pattern)}" for group in things)
            number = counted(sum(group.entities for group in others), "entity")
            yield f"{number} in groups with hardly any image; to leave these out: {skip or only}"
