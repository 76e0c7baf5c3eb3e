"""What each step adds (the paper's Table 4, for retrieval), from the records of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.metrics import percent, ranked
from evaluation.records import QueryRecord

STEPS = ("1", "1+2", "1+2+3")
SectionChoice = tuple[str | None, int | None]
"""An entity's id and the published number of one of its sections."""


def step_table(records: Iterable[QueryRecord]) -> list[dict[str, Any]]:
    """Computes entity recall@1 and section recall@1 for step 1 alone, for steps 1+2 and for steps 1+2+3.

    Step 1 alone takes the lead (first) section of its best entity. Steps 1+2 take, from the best entity after step 2,
    the section with the largest `sim_m`, or the lead if no section has one. Steps 1+2+3 take the run's evidence. Entity
    recall covers the queries whose right entity is known, section recall those whose right section is known; either is
    `None` if there are no such queries. A failed query counts as wrong.

    Raises:
        ValueError: There are no records.
    """
    queries = known = labeled = 0
    right_entity = dict.fromkeys(STEPS, 0)
    right_section = dict.fromkeys(STEPS, 0)
    for record in records:
        queries += 1
        gold = record.gold
        known += bool(gold.entities)
        labeled += gold.section is not None
        for steps, (entity, section) in choices(record).items():
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
        for steps in STEPS
    ]


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table in Markdown, in percent."""
    head = "| steps | entity recall@1 | section recall@1 |\n| --- | --- | --- |\n"
    return head + "".join(
        f"| {row['steps']} | {percent(row['recall@1'])} | {percent(row['section_recall@1'])} |\n" for row in rows
    )


def choices(record: QueryRecord) -> dict[str, SectionChoice]:
    """Returns the entity and section that each of `STEPS` chooses."""
    last = record.candidates[0].entity if record.candidates else None
    evidence = record.evidence
    return {
        "1": _best(record, "step1", by_sim_m=False),
        "1+2": _best(record, "step2", by_sim_m=True),
        "1+2+3": (last, None) if evidence is None else (evidence.entity_id, evidence.section_index),
    }


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
