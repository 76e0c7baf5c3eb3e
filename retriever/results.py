"""The result of a question: the ranked entities, the sections of the best one, and the answer with its evidence.

Python returns it as it is; HTTP, MCP and the records of evaluations take its fields by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from PIL import Image

from retriever.asking import EntityIndex
from retriever.images import ImageInput, load_image
from retriever.types import (
    LABELED,
    AnswerFields,
    ArticleImage,
    Candidate,
    Entity,
    Evidence,
    Generation,
    GenerationRequest,
    OtherSection,
    Query,
    RetrievalFields,
    RetrievalResult,
    ScoredSection,
    Section,
)
from retriever.unspaced import UNSPACED

_INSIDE = rf"[^\W{UNSPACED}]"
"""A letter or figure of a word that spaces separate; in scripts without spaces, a word may end anywhere."""
_ALONE = re.compile(f"[{UNSPACED}]")
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
        photograph: The number of the question's image that it scores by, from 1.
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
    photograph: int = 1


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
        text: The section's text; `images` are its images, see `Evidence.images`.
    """

    rank: int
    title: str
    index: int
    sim_m: float | None
    sim_t: float | None
    score: float | None
    text: str
    images: tuple[ArticleImage, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Retrieval(RetrievalFields):
    """The retrieval result for a question.

    Attributes:
        question: The question.
        picture: The image as it was given: its path, bytes or pixels, `None` without one. That of a file holds none.
        more: The question's other images, in the same way.
        entity: The best entity with its whole article; `None` if nothing was found.
        evidence: The best section of the best entity; `None` if it has no sections.
        candidates: All candidates, best first.
        sections: The sections of the best entity, best first.
        timings_ms: Milliseconds per step, for the whole batch.
        thumbnails: The copies (JPEG) that the index stores of the best entity's images, by the URLs of these.
    """

    question: str
    picture: ImageInput | None = field(repr=False, compare=False)
    more: tuple[ImageInput, ...] = field(default=(), repr=False, compare=False)
    entity: Entity | None = field(repr=False)
    evidence: Evidence | None
    candidates: tuple[RankedEntity, ...] = field(repr=False)
    sections: tuple[RankedSection, ...] = field(repr=False)
    timings_ms: dict[str, float] = field(repr=False)
    thumbnails: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, index: EntityIndex, query: Query, result: RetrievalResult) -> Self:
        """Converts the pipeline's result for a query, adding the articles of its candidates."""
        best = next(iter(result.candidates), None)
        entity = None if best is None else index.entity(best.row)
        scored = (
            () if best is None or entity is None else ((entity, entity.sections[s.position], s) for s in best.sections)
        )
        return cls(
            question=result.searched or query.question,
            picture=query.image if query.image.width and result.searched is None else None,
            more=query.more if result.searched is None else (),
            entity=entity,
            evidence=best_evidence(index, result.candidates),
            candidates=tuple(_ranked(index, candidate, rank) for rank, candidate in enumerate(result.candidates, 1)),
            sections=tuple(_scored(*one, rank) for rank, one in enumerate(scored, 1)),
            timings_ms=dict(result.timings_ms),
            thumbnails={} if best is None else index.thumbnails(best.row),
            **values_of(RetrievalFields, result),
        )

    @property
    def image(self) -> Image.Image | None:
        """The image as the models saw it, RGB; read again if it was given as a file. `None` without one.

        Raises:
            ImageError: The file has changed or is gone.
        """
        return None if self.picture is None else load_image(self.picture)

    def request(self) -> GenerationRequest:
        """Returns the input of a generator, with the next sections if they have scores, at most `OTHERS`."""
        best = self.sections[0].score if self.sections else None
        others = tuple(
            OtherSection(_evidence(self.entity, section), section.score - best)
            for section in self.sections[1 : 1 + OTHERS]
            if self.entity is not None and section.score is not None and best is not None
        )
        about, more = (self.question, self.image, self.evidence), tuple(map(load_image, self.more))
        shared = values_of(RetrievalFields, self)
        return GenerationRequest(*about, others=others, more=more, thumbnails=self.thumbnails, **shared)


@dataclass(frozen=True, kw_only=True)
class Answer(Generation, Retrieval):
    """A generator's answer with its retrieval result.

    Attributes:
        evidence: The section that the answer is from; `None` if it was read on the image.
        span: Start and end of the answer in `evidence.text`, in characters; `None` if it does not occur there.
    """

    evidence: Evidence | None
    span: tuple[int, int] | None = field(default=None, repr=False)

    @classmethod
    def to(cls, retrieval: Retrieval, generation: Generation, generate_ms: float) -> Self:
        """Combines a retrieval result with the generator's answer to it."""
        evidence = None if generation.quote else generation.evidence or retrieval.evidence
        span = None if evidence is None else answer_span(generation, evidence.text)
        own = {"evidence": evidence, "span": span, "timings_ms": {**retrieval.timings_ms, "generate": generate_ms}}
        unknown = {"entity": None, "sections": ()} if generation.quote and generation.declined else {}
        return cls(**values_of(Retrieval, retrieval) | values_of(Generation, generation) | own | unknown)

    @property
    def grounded(self) -> bool | None:
        """Whether the evidence contains the answer word for word; `None` without an answer from it."""
        return self.span is not None if self.answer and not self.quote else None


def _ranked(index: EntityIndex, candidate: Candidate, rank: int) -> RankedEntity:
    entity, image = index.entity(candidate.row), index.image_path(candidate.row)
    sims, score = (candidate.sim_c, candidate.sim_m), candidate.score
    about = entity.id, entity.title, *sims, score, image, entity.url, candidate.row
    return RankedEntity(rank, *about, candidate.photograph)


def _scored(entity: Entity, section: Section, scores: ScoredSection, rank: int) -> RankedSection:
    sims, images = (scores.sim_m, scores.sim_t), _images(entity, section.index)
    return RankedSection(rank, section.title, section.index, *sims, scores.score, section.text, images)


def _evidence(entity: Entity, section: Section | RankedSection) -> Evidence:
    return Evidence(entity.id, entity.title, section.title, section.text, section.index, _images(entity, section.index))


def _images(entity: Entity, index: int) -> tuple[ArticleImage, ...]:
    """Returns the images of a section, then those of no section, without labeled ones and the main image."""
    others = (one for one in entity.images if one.section is None and not one.url.startswith(LABELED))
    return (*(i for i in entity.images if i.section == index), *(i for i in others if i.url != entity.image))


def values_of(kind: type[RetrievalFields | AnswerFields], source: object) -> dict[str, Any]:
    """Returns the fields that a dataclass declares, as another object has them."""
    return {one.name: getattr(source, one.name) for one in fields(kind)}


def best_evidence(index: EntityIndex, candidates: Sequence[Candidate]) -> Evidence | None:
    """Returns the best section of the best candidate, or `None` without candidates or sections."""
    if not candidates or not candidates[0].sections:
        return None
    entity = index.entity(candidates[0].row)
    return _evidence(entity, entity.sections[candidates[0].sections[0].position])


def answer_span(generation: Generation, text: str) -> tuple[int, int] | None:
    """Returns the character span (start, end) of an answer in its section, or `None` if the section lacks it.

    That is its `span`, if it has one. A chat model's answer is matched word by word: case, white space and a final
    period may differ, but the match may not begin or end inside a word or a number.
    """
    words = (generation.answer or "").rstrip(".\u3002 \n").split()
    if generation.span is not None or not words:
        return generation.span
    quoted = r"\s+".join(re.escape(word) for word in words)
    before = "" if _ALONE.match(words[0]) else f"(?<!{_INSIDE})"
    after = "" if _ALONE.match(words[-1][-1]) else f"(?!{_INSIDE})"
    found = re.search(rf"{before}(?<!\d[.,]){quoted}{after}(?![.,]\d)", text, re.IGNORECASE)
    return found.span() if found else None
