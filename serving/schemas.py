"""What goes over the wire: the request's fields and the response's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

OnGeneratorError = Literal["degrade", "fail"]


class AskOptions(BaseModel):
    """What a request may choose for itself; left out or null, the profile decides."""

    model_config = ConfigDict(extra="forbid", strict=True)

    k: Annotated[int | None, Field(ge=1, description="Candidates of step 1.")] = None
    alpha: Annotated[float | None, Field(ge=0, le=1, description="Weight of step 1 against step 2.")] = None
    beta: Annotated[float | None, Field(ge=0, le=1, description="Weight of step 2 against step 3.")] = None
    stream: Annotated[bool, Field(description="Answer as server-sent events.")] = False
    on_generator_error: Annotated[
        OnGeneratorError,
        Field(
            description="When the generator gives no answer: 'degrade' returns the evidence with a null answer and "
            "`generator_error`, 'fail' returns an error (424)."
        ),
    ] = "degrade"


class AskFields(AskOptions):
    """The JSON form of a request."""

    image: Annotated[str, Field(description="A data URI, or a URL on an allowed host.")]
    question: Annotated[str, Field(description="The question about the image.")]


class EntityOut(BaseModel):
    """An entity of the knowledge base; `image` is the path of its main picture."""

    id: str
    title: str
    url: str
    image: str | None


class SectionScores(BaseModel):
    """Scores of a section; null where a step did not score it."""

    sim_m: float | None
    sim_t: float | None
    score: float | None


class EvidenceOut(BaseModel):
    """A section of the best entity, best first.

    Attributes:
        entity: The entity it belongs to.
        section: Title of the section.
        section_index: Position of the section in the article as published.
        text: Its text.
        span: Where the answer stands in `text` (start, end, in Unicode characters), if the generator says so.
        scores: How the steps scored it.
    """

    entity: EntityOut
    section: str
    section_index: int
    text: str
    span: tuple[int, int] | None = None
    scores: SectionScores


class CandidateOut(BaseModel):
    """A candidate entity with the scores that ranked it; null where a step did not score it."""

    entity_id: str
    title: str
    sim_c: float | None
    sim_m: float | None
    fused: float
    image: str | None


class IndexOut(BaseModel):
    """The index that was asked."""

    name: str
    entities: int


class RetrieveOut(BaseModel):
    """What retrieval found: the best entity, its best sections, every candidate, best first."""

    entity: EntityOut | None
    evidence: list[EvidenceOut]
    candidates: list[CandidateOut]
    timings_ms: dict[str, float]
    request_id: str
    index: IndexOut


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str


class AnswerOut(RetrieveOut):
    """A retrieval with its answer.

    Attributes:
        answer: Null when the generator abstains, and when it fails (`on_generator_error`).
        confidence: 0 to 1 where the generator has one.
        abstained: True when the generator ran and found no answer.
        context_truncated: True when the section was longer than the generator reads.
        generator: What answered.
        generator_error: Why there is no answer when the generator failed, else null.
    """

    answer: str | None
    confidence: float | None
    abstained: bool
    context_truncated: bool
    generator: str
    generator_error: ErrorDetail | None = None


class ErrorOut(BaseModel):
    """The shape of every error."""

    error: ErrorDetail


class ReadyOut(BaseModel):
    """A service that takes requests."""

    status: str
    index: IndexOut
    generator: str
    waiting: int
