"""One thing in several files, as in a table and in what a program makes of it: its records are one entity.

No photograph tells them apart, and each may say what the others do not.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from indexes.knowledge.image_names import loose_key
from indexes.knowledge.image_rules import home_of, last_name
from indexes.knowledge.sections import FACTS
from indexes.knowledge.selection import language_of
from retriever.types import Entity, Section

_MOST = 4
"""Files that one thing is in, at most: more share a logo."""


class SharedImages:
    """The main image and the file of each entity, in 16 bytes, to find those that share an image."""

    def __init__(self) -> None:
        self._images, self._files = array("q"), array("q")

    def add(self, entity: Entity, image: str | None) -> None:
        """Adds the next entity, with the name of its main image, if that is there."""
        file = home_of(entity)[0]
        self._images.append(hash((image, language_of(file))) if image and file else 0)
        self._files.append(hash(file))

    def groups(self) -> list[list[int]]:
        """Returns the rows of entities with the same main image in one language, each group with as many files."""
        images, files = np.array(self._images, np.int64), np.array(self._files, np.int64)
        order = np.argsort(images, kind="stable")
        starts = np.flatnonzero(np.diff(images[order], prepend=images[order[:1]] - 1))
        lengths = np.diff(starts, append=len(order))
        is_group = (lengths > 1) & (lengths <= _MOST) & (images[order[starts]] != 0)
        pairs = zip(starts[is_group].tolist(), lengths[is_group].tolist(), strict=True)
        runs = (order[start : start + length].tolist() for start, length in pairs)
        return sorted(run for run in runs if len({*files[run].tolist()}) == len(run))


def things_in(group: Sequence[int], entities: Mapping[int, Entity]) -> list[list[int]]:
    """Divides rows of entities that share their main image, and no file, into those that are one thing.

    They share an id, a title or an address, too. What is alone is left out.
    """
    things = list[tuple[set[str], list[int]]]()
    for row in group:
        called = _called(entities[row])
        names, rows = next((thing for thing in things if thing[0] & called), (set[str](), list[int]()))
        names |= called
        rows.append(row)
        if len(rows) == 1:
            things.append((names, rows))
    return [rows for _, rows in things if len(rows) > 1]


def united(group: Sequence[Entity], titles: Counter[str]) -> Entity:
    """Returns the entities of one thing as one.

    Args:
        group: The entities.
        titles: How many have each title: that of fewest stays, since it is not the name of a kind.
    """
    first, *others = group
    title = min((entity.title for entity in group), key=titles.__getitem__)
    names = dict.fromkeys(name for entity in group for name in (entity.title, *entity.names) if name != title)
    images = {image.url: image for image in first.images}
    for image in chain.from_iterable(entity.images for entity in others):
        images.setdefault(image.url, replace(image, section=None))
    return replace(
        first,
        title=title,
        sections=_sections(group, title),
        url=next((entity.url for entity in group if entity.url), ""),
        images=tuple(images.values()),
        names=tuple(names),
        fields=tuple(dict.fromkeys(pair for entity in group for pair in entity.fields)),
        named_after=tuple(dict.fromkeys(pair for entity in group for pair in entity.named_after)),
    )


def _called(entity: Entity) -> set[str]:
    id = entity.id.removeprefix(f"{home_of(entity)[0]}#")  # as ids that others have are written
    id = "" if id.isdecimal() else id  # tables number their rows
    return {*filter(None, (entity.url, loose_key(last_name(id)), loose_key(entity.title)))}


def _sections(group: Sequence[Entity], title: str) -> tuple[Section, ...]:
    """Returns the sections of the first entity, and what those of the others say beyond; facts are one section."""
    sections, said = list[Section](), set[str]()
    for entity in group:
        for section in entity.sections:
            lines = section.text.split("\n")
            new = lines if entity is group[0] else [line for line in lines if line not in said]
            said.update(lines)
            facts = next((n for n, one in enumerate(sections) if one.title == section.title == FACTS), None)
            if not any(line.strip() for line in new):
                continue
            if facts is not None:
                sections[facts] = replace(sections[facts], text="\n".join((sections[facts].text, *new)))
                continue
            heading = title if section.title == entity.title else section.title
            index = section.index if entity is group[0] else max((one.index for one in sections), default=-1) + 1
            sections.append(Section(heading, "\n".join(new), index))
    return tuple(sections)
