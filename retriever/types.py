"""What flows through the pipeline: entities and their sections, queries, candidates, results, answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Section:
    """One section of an article; `index` is its position in the article as published, dropped sections counted."""

    title: str
    text: str
    index: int


@dataclass(frozen=True, slots=True)
class ArticleImage:
    """A picture of an article: where it comes from (URL or path), and the `index` of its section where it has one."""

    url: str
    section: int | None = None
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Entity:
    """One article of the knowledge base. `id` is its key (a URL in E-VQA); `image` names its main image, if any.

    `images` are all of its pictures in the article's order; where `image` is not at hand, the first of them that is
    takes its place.
    """

    id: str
    title: str
    sections: tuple[Section, ...]
    image: str | None = None
    url: str = ""
    images: tuple[ArticleImage, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StoredTokens:
    """Section tokens as an index holds them, normalized over H before they were stored.

    Attributes:
        values: [R, M, H], float16, or int8 of which a token is `values * scale`.
        scales: [R, M] for int8, else `None`.
        first: Row of `values` where each of the spans that were asked for begins.
    """

    values: Tensor
    scales: Tensor | None
    first: IntArray


@dataclass(frozen=True, slots=True)
class Options:
    """What one request may choose for itself; `None` leaves the profile's value."""

    k: int | None = None
    alpha: float | None = None
    beta: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """An image (RGB) with a question about it."""

    image: Image.Image
    question: str
    id: str = ""
    options: Options = Options()


@dataclass(slots=True)
class ScoredSection:
    """A section of a candidate; `position` counts within `Entity.sections`. A score of `None` means: not scored."""

    position: int
    sim_m: float | None = None
    sim_t: float | None = None
    score: float | None = None


@dataclass(slots=True)
class Candidate:
    """An entity that step 1 found; later steps fill in and reorder.

    Attributes:
        row: The entity's row in the index.
        sim_c: Inner product of the image and the summary (step 1), `None` when another step found it.
        sim_m: The largest multimodal similarity of its sections (step 2), `None` without image or sections.
        score: What the last step ranked by; higher is better.
        sections: Its sections, best first once they are scored.
    """

    row: int
    sim_c: float | None = None
    sim_m: float | None = None
    score: float = 0.0
    sections: list[ScoredSection] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The outcome for one query: candidates, best first, and milliseconds per step (of its whole batch)."""

    query_id: str
    candidates: list[Candidate]
    timings_ms: dict[str, float]
    rankings: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Per step name, the (row, score) pairs as that step left them: what run files are written from."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The section that an answer is to be read from."""

    entity_id: str
    entity_title: str
    section_title: str
    text: str
    section_index: int | None = None
    """The section's position in the article as published, `None` when unknown."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """What a generator gets: the question, the picture, and the evidence (`None`: nothing was retrieved)."""

    question: str
    image: Image.Image | None
    evidence: Evidence | None


@dataclass(frozen=True, slots=True)
class Generation:
    """A generator's answer.

    Attributes:
        answer: The answer, or `None` when it abstains.
        confidence: 0 to 1 where the generator has one.
        span: Where the answer stands in `Evidence.text` (start, end characters), for an extractive reader.
        truncated: True when the evidence had to be cut to fit.
    """

    answer: str | None
    confidence: float | None = None
    span: tuple[int, int] | None = None
    truncated: bool = False

    @property
    def abstained(self) -> bool:
        """True when there is no answer."""
        return self.answer is None
