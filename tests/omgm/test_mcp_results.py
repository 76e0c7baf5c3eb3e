"""What MCP's tools return of the results of the Python API."""

from __future__ import annotations

import pytest
from PIL import Image

from omgm.mcp_results import answer_result
from retriever.results import Answer, RankedSection
from retriever.types import Entity, Evidence, Section


@pytest.mark.parametrize(("number", "title"), [(4, "Height"), (2, "Lead"), (None, None)])
def test_the_evidence_is_the_section_that_the_answer_is_from(number: int | None, title: str | None) -> None:
    read = [("Lead", 2, "A tower."), ("Height", 4, "9 m.")]
    sections = tuple(RankedSection(0, title, index, None, None, None, text) for title, index, text in read)
    entity = Entity("kb/t", "Tower", tuple(Section(title, text, index) for title, index, text in read))
    found = Answer(
        question="How tall is it?",
        picture=Image.new("RGB", (4, 4)),
        entity=entity,
        evidence=None if number is None else Evidence("kb/t", "Tower", "", "", number),
        candidates=(),
        sections=sections,
        timings_ms={},
        recognized=None,
        crop=None,
        answer="9 m",
    )
    shown = answer_result(found)
    assert (shown.evidence and shown.evidence.title) == title
    assert shown.entity is not None and shown.entity.title == "Tower"
