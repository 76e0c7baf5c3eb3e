"""What each step adds (the paper's Table 4, in retrieval terms), from the records of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.metrics import ranked
from evaluation.records import Line

STEPS = ("1", "1+2", "1+2+3")


def step_table(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Returns a row for step 1 alone, for 1+2 and for 1+2+3: entity recall@1 and section recall@1.

    Step 1 alone takes the lead (first) section of its best entity; 1+2 the section of the best entity after step 2 that
    has the largest `sim_m`, the lead when none has one; 1+2+3 the evidence of the run. Entity recall is over the
    queries whose right entity the data set names, section recall over those whose right section it names, `None`
    without any; a failed query counts as wrong.

    Raises:
        ValueError: There are no records.
    """
    queries = known = labelled = 0
    right_entity = dict.fromkeys(STEPS, 0)
    right_section = dict.fromkeys(STEPS, 0)
    for line in lines:
        queries += 1
        gold, section = line["gold"]["entities"], line["gold"]["section"]
        known += bool(gold)
        labelled += section is not None
        for steps, (entity, chosen) in choices(line).items():
            right_entity[steps] += entity in gold
            right_section[steps] += section is not None and entity in gold and chosen == section
    if not queries:
        raise ValueError("the run has no records; evaluate first")
    return [
        {
            "steps": steps,
            "recall@1": right_entity[steps] / known if known else None,
            "section_recall@1": right_section[steps] / labelled if labelled else None,
        }
        for steps in STEPS
    ]


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table for a README, shares in percent."""
    head = "| steps | entity recall@1 | section recall@1 |\n| --- | --- | --- |\n"
    return head + "".join(
        f"| {row['steps']} | {_percent(row['recall@1'])} | {_percent(row['section_recall@1'])} |\n" for row in rows
    )


def choices(line: Line) -> dict[str, tuple[str | None, int | None]]:
    """Returns, for each of `STEPS`, the entity and the section (as published) that they settle on."""
    last = line["candidates"][0]["entity"] if line["candidates"] else None
    evidence = line["evidence"]
    return {
        "1": _best(line, "step1", by_sim_m=False),
        "1+2": _best(line, "step2", by_sim_m=True),
        "1+2+3": (last, None) if evidence is None else (evidence["entity_id"], evidence["section_index"]),
    }


def _best(line: Line, step: str, *, by_sim_m: bool) -> tuple[str | None, int | None]:
    ranking = ranked(line["rankings"].get(step, []))
    if not ranking:
        return None, None
    entity = ranking[0][0]
    candidate = next((c for c in line["candidates"] if c["entity"] == entity), None)
    if candidate is None:  # a later step dropped it, and its sections with it
        return entity, None
    scored = [(sim_m, index) for index, sim_m, _, _ in candidate["sections"] if sim_m is not None]
    if by_sim_m and scored:
        return entity, max(scored, key=lambda pair: pair[0])[1]
    return entity, candidate["lead"]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
