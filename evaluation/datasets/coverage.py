"""How much of a data set a knowledge base can be right about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from retriever.types import Entity

Sections = Mapping[str, frozenset[int]]
"""By the id of an entity that a knowledge base has, the numbers of its sections."""


class Kind(NamedTuple):
    """What questions are counted by; `picture` is the layout it was found in, or what is wrong with it."""

    question_type: str
    split: str
    category: str
    picture: str
    entities: tuple[str, ...]
    section: int | None


def sections_in(entities: Iterable[Entity], wanted: set[str]) -> dict[str, frozenset[int]]:
    """Returns the numbers of the sections of those entities that are wanted, by id."""
    return {e.id: frozenset(section.index for section in e.sections) for e in entities if e.id in wanted}


def coverage(kinds: Mapping[Kind, int], known: Sections) -> dict[str, dict[str, int]]:
    """Returns counts of questions: all of them, and those of each question type and split.

    `entity_known` counts those of the `with_entity` of which the knowledge base has one entity, `section_known` those
    of the `with_section` whose section one of these entities has. A question that is not counted there is never right.

    Args:
        kinds: How many questions there are of each kind.
        known: What the knowledge base has.
    """
    rows: dict[str, Counter[str]] = {}
    for kind, n in sorted(kinds.items(), key=repr):
        found = [known[entity] for entity in kind.entities if entity in known]
        facts = {
            "questions": True,
            "with_entity": bool(kind.entities),
            "entity_known": bool(found),
            "with_section": kind.section is not None,
            "section_known": any(kind.section in sections for sections in found),
        }
        for group in _groups(kind):
            rows.setdefault(group, Counter()).update({name: n * fact for name, fact in facts.items()})
    return {group: dict(row) for group, row in sorted(rows.items(), key=lambda pair: (pair[0] != "all", pair[0]))}


def _groups(kind: Kind) -> Iterator[str]:
    yield "all"
    if kind.question_type:
        yield f"type {kind.question_type}"
    if kind.split:
        yield f"split {kind.split}"
