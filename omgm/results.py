"""Results of the Python API: plain values, tables for pandas, and HTML for notebooks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from html import escape
from pathlib import Path

from PIL import Image

from indexes.image_source import thumbnail
from retriever.evidence import answer_span, best_evidence
from retriever.protocols import EntityIndex
from retriever.types import Candidate, Crop, Entity, Evidence, Generation, Query, RetrievalResult

_SHOWN_CANDIDATES = 5
_THUMBNAIL_SIDE = 160


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate with its scores; `pandas.DataFrame(result.candidates)` makes a table of them.

    Attributes:
        rank: Position in the ranking, from 1.
        entity: The entity's id, such as its URL.
        title: The title of its article.
        sim_c: Score of step 1; `None` if another step found the candidate.
        sim_m: Score of step 2; `None` without a main image or sections.
        fused: The score that candidates are ranked by.
        image: Path of a thumbnail of its main image; `None` without one.
    """

    rank: int
    entity: str
    title: str
    sim_c: float | None
    sim_m: float | None
    fused: float
    image: Path | None = None


@dataclass(frozen=True, slots=True)
class SectionRow:
    """A section of the best entity with its scores; `pandas.DataFrame(result.sections)` makes a table of them.

    Attributes:
        rank: Position in the ranking, from 1.
        title: The section's title.
        index: Its position in the article as published.
        sim_m: Score of step 2; `None` if not scored.
        sim_t: Score of step 3; `None` if not scored.
        score: The score that sections are ranked by; `None` if not scored.
        text: The section's text.
    """

    rank: int
    title: str
    index: int
    sim_m: float | None
    sim_t: float | None
    score: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The retrieval result for a question about an image.

    Attributes:
        question: The question.
        image: The image as the models saw it, RGB.
        entity: The best entity with its whole article; `None` if nothing was found.
        evidence: The best section of the best entity; `None` if it has no sections.
        candidates: All candidates, best first.
        sections: The sections of the best entity, best first.
        timings_ms: Milliseconds per step, for the whole batch.
        recognized: Probability that the image shows the best entity; `None` if the profile is not calibrated.
        crop: The part of the image in which the best entity was recognized: left, top, right and bottom edge as shares
            of its width and height; `None` for the whole image.
    """

    question: str
    image: Image.Image = field(repr=False)
    entity: Entity | None = field(repr=False)
    evidence: Evidence | None
    candidates: tuple[CandidateRow, ...] = field(repr=False)
    sections: tuple[SectionRow, ...] = field(repr=False)
    timings_ms: dict[str, float] = field(repr=False)
    recognized: float | None
    crop: Crop | None

    def _repr_html_(self) -> str:
        """Returns the result as HTML for a notebook."""
        return _as_html(self, None, None)


@dataclass(frozen=True, kw_only=True)
class Answer(Generation, Retrieval):
    """A generator's answer with its retrieval result.

    Attributes:
        evidence: The section that the answer is from.
        span: Start and end of the answer in `evidence.text`, in characters; `None` if it does not occur there.
    """

    evidence: Evidence | None
    span: tuple[int, int] | None = field(default=None, repr=False)

    @property
    def grounded(self) -> bool | None:
        """Whether the evidence contains the answer word for word; `None` without an answer."""
        return None if self.answer is None else self.span is not None

    def _repr_html_(self) -> str:
        """Returns the answer with its evidence as HTML for a notebook."""
        return _as_html(self, self.answer or "(no answer)", self.span)


def make_retrieval(index: EntityIndex, query: Query, result: RetrievalResult) -> Retrieval:
    """Converts the pipeline's result for a query, adding the articles of its candidates."""
    best = result.candidates[0] if result.candidates else None
    return Retrieval(
        question=query.question,
        image=query.image,
        entity=None if best is None else index.entity(best.row),
        evidence=best_evidence(index, result.candidates),
        candidates=tuple(_candidate_row(index, rank, one) for rank, one in enumerate(result.candidates, start=1)),
        sections=() if best is None else _section_rows(index.entity(best.row), best),
        timings_ms=dict(result.timings_ms),
        recognized=result.recognized,
        crop=result.crop,
    )


def make_answer(retrieval: Retrieval, generation: Generation, generate_ms: float) -> Answer:
    """Combines a retrieval result with the generator's answer."""
    evidence = generation.evidence or retrieval.evidence
    given = {one.name: getattr(part, one.name) for part in (retrieval, generation) for one in fields(part)}
    own = {
        "evidence": evidence,
        "span": None if evidence is None else answer_span(generation, evidence.text),
        "timings_ms": {**retrieval.timings_ms, "generate": generate_ms},
    }
    return Answer(**given | own)


def _candidate_row(index: EntityIndex, rank: int, candidate: Candidate) -> CandidateRow:
    entity = index.entity(candidate.row)
    return CandidateRow(
        rank=rank,
        entity=entity.id,
        title=entity.title,
        sim_c=candidate.sim_c,
        sim_m=candidate.sim_m,
        fused=candidate.score,
        image=index.image_path(candidate.row),
    )


def _section_rows(entity: Entity, best: Candidate) -> tuple[SectionRow, ...]:
    rows = []
    for rank, scored in enumerate(best.sections, start=1):
        section = entity.sections[scored.position]
        rows.append(
            SectionRow(rank, section.title, section.index, scored.sim_m, scored.sim_t, scored.score, section.text)
        )
    return tuple(rows)


def _as_html(result: Retrieval, answer: str | None, span: tuple[int, int] | None) -> str:
    parts = [f'<img src="{_data_uri(thumbnail(result.image, _THUMBNAIL_SIDE))}" alt="the question\'s image">']
    parts.append(f"<p><b>{escape(result.question)}</b></p>")
    if answer is not None:
        parts.append(f"<p>{escape(answer)}</p>")
    if result.evidence is not None:
        heading = f"{result.evidence.entity_title}, {result.evidence.section_title}"
        parts.append(f"<blockquote><i>{escape(heading)}</i><br>{_marked(result.evidence.text, span)}</blockquote>")
    parts.append(_candidates_html(result.candidates[:_SHOWN_CANDIDATES]))
    return "<div>" + "".join(parts) + "</div>"


def _marked(text: str, span: tuple[int, int] | None) -> str:
    if span is None:
        return escape(text)
    start, end = span
    return f"{escape(text[:start])}<mark>{escape(text[start:end])}</mark>{escape(text[end:])}"


def _candidates_html(rows: Sequence[CandidateRow]) -> str:
    lines = ["<tr><th></th><th>entity</th><th>sim_c</th><th>sim_m</th><th>fused</th></tr>"]
    for row in rows:
        image = "" if row.image is None else f'<img src="{_data_uri(row.image.read_bytes())}" height="40" alt="">'
        scores = "".join(
            f"<td>{'&ndash;' if v is None else f'{v:.3f}'}</td>" for v in (row.sim_c, row.sim_m, row.fused)
        )
        lines.append(f"<tr><td>{image}</td><td>{escape(row.title)}</td>{scores}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _data_uri(jpeg: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
