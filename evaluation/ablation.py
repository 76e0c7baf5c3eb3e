"""What each step adds (the paper's Table 4, for retrieval), from the records of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.metrics import percent, ranked
from evaluation.records import QueryRecord

STEPS = ("step1", "step2", "step3")
"""The names of the paper's steps."""
SectionChoice = tuple[str | None, int | None]
"""An entity's id and the published number of one of its sections."""


def step_table(records: Iterable[QueryRecord], names: Sequence[str] = STEPS) -> list[dict[str, Any]]:
    """Computes entity recall@1 and section recall@1 for the first step alone, for the first two, and so on.

    From the best entity then, steps that end before step 2 take the lead (first) section, and others the one with the
    largest `sim_m`, or the lead if no section has one. All steps take the run's evidence. Entity recall covers the
    queries whose right entity is known, section recall those whose right section is known; either is `None` if there
    are no such queries. A failed query counts as wrong.

    Args:
        records: The records.
        names: The names of the run's steps.

    Raises:
        ValueError: There are no records.
    """
    queries = known = labeled = 0
    right_entity, right_section = ({joined(first): 0 for first in prefixes(names)} for _ in range(2))
    for record in records:
        queries += 1
        gold = record.gold
        known += bool(gold.entities)
        labeled += gold.section is not None
        for steps, (entity, section) in choices(record, names).items():
            right_entity[steps] += entity in gold.entities
            right_section[steps] += gold.section is not None and entity in gold.entities and section == gold.section
    if not queries:
        raise ValueError("the run has no records; run omgm evaluate first")
    return [
        {
            "steps": steps,
            "recall@1": right_entity[steps] / known if known else None,
            "section_recall@1": right_section[steps] / labeled if labeled else None,
        }
        for steps in right_entity
    ]


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table in Markdown, in percent."""
    head = "| steps | entity recall@1 | section recall@1 |\n| --- | --- | --- |\n"
    return head + "".join(
        f"| {row['steps']} | {percent(row['recall@1'])} | {percent(row['section_recall@1'])} |\n" for row in rows
    )


def choices(record: QueryRecord, names: Sequence[str] = STEPS) -> dict[str, SectionChoice]:
    """Returns the entity and section that the first steps choose, by names such as "1+2"; all take the evidence."""
    last = record.candidates[0].entity if record.candidates else None
    evidence = record.evidence
    chosen = {joined(first): _best(record, first[-1], by_sim_m="step2" in first) for first in prefixes(names)}
    every = (last, None) if evidence is None else (evidence.entity_id, evidence.section_index)
    return chosen | {joined(names): every}


def prefixes(names: Sequence[str]) -> list[Sequence[str]]:
    """Returns the first of the steps, the first two, and so on."""
    return [names[:number] for number in range(1, len(names) + 1)]


def joined(names: Sequence[str]) -> str:
    """Returns how a table calls some steps, such as "1+2"."""
    return "+".join(name.removeprefix("step") for name in names)


def _best(record: QueryRecord, step: str, *, by_sim_m: bool) -> SectionChoice:
    ranking = ranked(record.rankings.get(step, []))
    if not ranking:
        return None, None
    entity = ranking[0][0]
    candidate = next((c for c in record.candidates if c.entity == entity), None)
    if candidate is None:  # a later step dropped it together with its sections
        return entity, None
    scored = [(section.sim_m, section.index) for section in candidate.sections if section.sim_m is not None]
    if by_sim_m and scored:
        return entity, max(scored, key=lambda pair: pair[0])[1]
    return entity, candidate.lead
