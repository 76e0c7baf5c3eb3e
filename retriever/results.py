"""The result of a question: the ranked entities, the sections of the best one, and the answer with its evidence.

Python returns it as it is; HTTP, MCP and the records of evaluations take its fields by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from PIL import Image

from retriever.evidence import answer_span, best_evidence
from retriever.protocols import EntityIndex
from retriever.types import (
    Candidate,
    Entity,
    Evidence,
    Generation,
    GenerationRequest,
    OtherSection,
    Query,
    RetrievalFields,
    RetrievalResult,
    values_of,
)

OTHERS = 2
"""Number of sections besides the best one that a generator may answer from."""


@dataclass(frozen=True, slots=True)
class RankedEntity:
    """A candidate with its scores; `pandas.DataFrame(result.candidates)` makes a table of them.

    Attributes:
        rank: Position in the ranking, from 1.
        entity: The entity's id, such as its URL.
        title: The title of its article.
        sim_c: Score of step 1; `None` if another step found the candidate.
        sim_m: Score of step 2; `None` without a main image or sections.
        fused: The score that candidates are ranked by.
        image: Path of a thumbnail of its main image; `None` without one.
        url: The URL of its article.
        row: Its row in the index.
    """

    rank: int
    entity: str
    title: str
    sim_c: float | None
    sim_m: float | None
    fused: float
    image: Path | None
    url: str
    row: int


@dataclass(frozen=True, slots=True)
class RankedSection:
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


@dataclass(frozen=True, kw_only=True)
class Retrieval(RetrievalFields):
    """The retrieval result for a question about an image.

    Attributes:
        question: The question.
        image: The image as the models saw it, RGB.
        entity: The best entity with its whole article; `None` if nothing was found.
        evidence: The best section of the best entity; `None` if it has no sections.
        candidates: All candidates, best first.
        sections: The sections of the best entity, best first.
        timings_ms: Milliseconds per step, for the whole batch.
    """

    question: str
    image: Image.Image = field(repr=False)
    entity: Entity | None = field(repr=False)
    evidence: Evidence | None
    candidates: tuple[RankedEntity, ...] = field(repr=False)
    sections: tuple[RankedSection, ...] = field(repr=False)
    timings_ms: dict[str, float] = field(repr=False)

    @classmethod
    def of(
        cls,
        index: EntityIndex,
        query: Query,
        result: RetrievalResult,
        image_path: Callable[[int], Path | None] | None = None,
    ) -> Self:
        """Converts the pipeline's result for a query, adding the articles of its candidates.

        Args:
            index: The index that the candidates' rows refer to.
            query: The query.
            result: Its candidates.
            image_path: Returns the thumbnail of a row, instead of the index.
        """
        path, best = image_path or index.image_path, next(iter(result.candidates), None)
        entity = None if best is None else index.entity(best.row)
        return cls(
            question=query.question,
            image=query.image,
            entity=entity,
            evidence=best_evidence(index, result.candidates),
            candidates=tuple(
                _ranked(index.entity(candidate.row), candidate, rank, path(candidate.row))
                for rank, candidate in enumerate(result.candidates, start=1)
            ),
            sections=() if best is None or entity is None else _sections(entity, best),
            timings_ms=dict(result.timings_ms),
            **values_of(RetrievalFields, result),
        )

    def request(self) -> GenerationRequest:
        """Returns the input of a generator, with the next sections if they have scores, at most `OTHERS`."""
        best = self.sections[0].score if self.sections else None
        others = tuple(
            OtherSection(self._as_evidence(section), section.score - best)
            for section in self.sections[1 : 1 + OTHERS]
            if section.score is not None and best is not None
        )
        return GenerationRequest(self.question, self.image, self.evidence, self.recognized, others=others)

    def _as_evidence(self, section: RankedSection) -> Evidence:
        assert self.entity is not None
        return Evidence(self.entity.id, self.entity.title, section.title, section.text, section.index)


@dataclass(frozen=True, kw_only=True)
class Answer(Generation, Retrieval):
    """A generator's answer with its retrieval result.

    Attributes:
        evidence: The section that the answer is from.
        span: Start and end of the answer in `evidence.text`, in characters; `None` if it does not occur there.
    """

    evidence: Evidence | None
    span: tuple[int, int] | None = field(default=None, repr=False)

    @classmethod
    def to(cls, retrieval: Retrieval, generation: Generation, generate_ms: float) -> Self:
        """Combines a retrieval result with the generator's answer to it."""
        evidence = generation.evidence or retrieval.evidence
        merged = {
            "evidence": evidence,
            "span": None if evidence is None else answer_span(generation, evidence.text),
            "timings_ms": {**retrieval.timings_ms, "generate": generate_ms},
        }
        return cls(**values_of(Retrieval, retrieval) | values_of(Generation, generation) | merged)

    @property
    def grounded(self) -> bool | None:
        """Whether the evidence contains the answer word for word; `None` without an answer."""
        return None if self.answer is None else self.span is not None


def _ranked(entity: Entity, candidate: Candidate, rank: int, image: Path | None) -> RankedEntity:
    sims, score = (candidate.sim_c, candidate.sim_m), candidate.score
    return RankedEntity(rank, entity.id, entity.title, *sims, score, image, entity.url, candidate.row)


def _sections(entity: Entity, best: Candidate) -> tuple[RankedSection, ...]:
    rows = []
    for rank, scored in enumerate(best.sections, start=1):
        section = entity.sections[scored.position]
        scores = (scored.sim_m, scored.sim_t, scored.score)
        rows.append(RankedSection(rank, section.title, section.index, *scores, section.text))
    return tuple(rows)
