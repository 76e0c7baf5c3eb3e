"""How many questions of a data set a knowledge base can answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from retriever.wording import counted

Sections = Mapping[str, frozenset[int]]
"""The section numbers of each entity in a knowledge base, by the entity id that questions use."""


class QuestionGroup(NamedTuple):
    """Attributes of questions counted together; `image` is the layout of their images, or what is wrong with them."""

    question_type: str
    split: str
    category: str
    image: str
    entities: tuple[str, ...]
    section: int | None


def unknown_entities(wanted: Collection[str], example: str = "") -> str:
    """Returns a message that a knowledge base has none of the entities that questions name.

    Args:
        wanted: The ids that questions name, at least one.
        example: An id that the knowledge base has.
    """
    named = f"{counted(len(wanted), 'entity')}, such as {min(wanted)!r}"
    ids = f", where ids look like {example!r}" if example else ""
    return (
        f"none of the entities that the questions name ({named}) is in the knowledge base{ids}; "
        "are the knowledge base and --dataset the right ones?"
    )


def coverage(groups: Mapping[QuestionGroup, int], known: Sections) -> dict[str, dict[str, int]]:
    """Counts questions: all of them, and those of each question type and split.

    Of the questions `with_entity`, `entity_known` counts those with an entity in the knowledge base; of those
    `with_section`, `section_known` counts those whose section exists in such an entity. The others cannot be right.

    Args:
        groups: The number of questions in each group.
        known: The sections of the knowledge base.
    """
    rows: dict[str, Counter[str]] = {}
    for group, n in sorted(groups.items(), key=repr):
        entities = [known[entity] for entity in group.entities if entity in known]
        facts = {
            "questions": True,
            "with_entity": bool(group.entities),
            "entity_known": bool(entities),
            "with_section": group.section is not None,
            "section_known": any(group.section in sections for sections in entities),
        }
        for name in _row_names(group):
            rows.setdefault(name, Counter()).update({fact: n * true for fact, true in facts.items()})
    return {name: dict(row) for name, row in sorted(rows.items(), key=lambda pair: (pair[0] != "all", pair[0]))}


def _row_names(group: QuestionGroup) -> Iterator[str]:
    yield "all"
    if group.question_type:
        yield f"type {group.question_type}"
    if group.split:
        yield f"split {group.split}"
