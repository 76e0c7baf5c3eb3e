"""Made-up records of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evaluation.records import CandidateRecord, GoldRecord, QueryRecord, SectionRecord, to_json
from retriever.types import Evidence

SectionScores = tuple[int, float | None, float | None]
"""Number, sim_m and sim_t."""


def candidate(
    entity: str, sim_c: float | None = None, sim_m: float | None = None, sections: Iterable[SectionScores] = ()
) -> CandidateRecord:
    """A candidate whose lead is section 0."""
    scored = [SectionRecord(index, sim_m, sim_t) for index, sim_m, sim_t in sections]
    return CandidateRecord(entity, entity, sim_c, sim_m, lead=0, sections=scored)


def record(id: str, **fields: Any) -> QueryRecord:
    """A record about entity `id`, with its own question and image."""
    defaults: dict[str, Any] = {"question": f"What of {id}?", "image_id": id, "gold": GoldRecord([id])}
    return QueryRecord(id=id, **defaults | fields)


def evidence(entity: str, section: int) -> Evidence:
    """A section as evidence."""
    return Evidence(entity, entity, "", "", section)


def write_records(path: Path, records: Iterable[QueryRecord]) -> None:
    """Writes `queries.jsonl`."""
    path.write_text("".join(json.dumps(to_json(one)) + "\n" for one in records), encoding="utf-8")
