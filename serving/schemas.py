"""Fields of requests and responses. Their docstrings appear in the API documentation."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from retriever.trail_views import TrailOut
from retriever.views import AnswerView, RetrievalView, View

OnGeneratorError = Literal["degrade", "fail"]


class RequestModel(BaseModel):
    """A part of a request. A null counts as missing: many clients send all the fields that they know."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        return {name: one for name, one in data.items() if one is not None} if isinstance(data, dict) else data


class AnswerOptions(RequestModel):
    """Options of a request; missing ones take the profile's value."""

    k: int | None = Field(default=None, ge=1)
    """Number of candidates that step 1 retrieves."""
    alpha: float | None = Field(default=None, ge=0, le=1)
    """Weight of step 1 against step 2."""
    beta: float | None = Field(default=None, ge=0, le=1)
    """Weight of step 2 against step 3."""
    filter: dict[str, Any] | None = Field(default=None, examples=[{"category": "bird"}])
    """Fields, each with a value or a list of values: only entities with one of them, for every field, are found."""
    entity: str | None = None
    """The id of the entity that is asked about, such as one of `candidates`, whatever the image shows."""
    on_generator_error: OnGeneratorError = "degrade"
    """When the generator fails: `degrade` returns the evidence with a null answer and `generator_error`, `fail` returns
    an error (424)."""
    thoughts: bool = False
    """Whether the response has the `thoughts` of a reasoning model. An agent's are in its `trail` in any case."""


class AgentBudget(BaseModel):
    """The limits of an agent's run; null is the service's own, which none may exceed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    rounds: int | None = Field(default=None, ge=1)
    """Maximum number of rounds."""
    tokens: int | None = Field(default=None, ge=1)
    """Maximum number of prompt and completion tokens of all requests to the chat model."""
    seconds: float | None = Field(default=None, gt=0)
    """Maximum wall time in seconds."""
    money: float | None = Field(default=None, ge=0)
    """Maximum price of model and tools."""


class RequestOptions(AnswerOptions):
    """Options of a request for an answer."""

    mode: str | None = None
    """The search agent that answers, such as `auto`; `/info` lists them. Null or `retrieve` means no agent."""
    budget: AgentBudget | None = None
    """Limits of the agent."""
    boxes: list[list[float]] | None = Field(default=None, max_length=50)
    """Image regions that the agent may refer to by number: each x1, y1, x2, y2 in pixels of the upright image. Swapped
    corners are reordered, and boxes are clipped to the image."""
    before: list[str] | None = Field(default=None, max_length=20)
    """The questions before this one, the oldest first, from that which came with this image on; leave it out for a new
    image. One that points ("How old is it?") is about what they were about, one that names another thing about that."""
    stream: bool = False
    """Whether to answer with server-sent events."""


class RequestFields(RequestOptions):
    """The JSON form of a request."""

    image: str | None = None
    """The image as base64, with or without the `data:image/jpeg;base64,` of a data URI, or its URL on an allowed
    host. Without one, all sections are searched for the question."""
    images: list[str] | None = None
    """Several images in the same way, such as both sides of a thing, or two things to compare. In a form, repeat
    `image`."""
    question: str = Field(examples=["What is the capital of this country?"])
    """The question about the image, or one that names what it is about."""


class EntityOut(View):
    """An entity of the knowledge base."""

    id: str
    title: str
    url: str
    image: str | None
    """Path of its main image on this service, null without one."""


class SectionScores(View):
    """Scores of a section; null if a step did not score it."""

    sim_m: float | None
    """Similarity of image and question to the section and its entity's main image (step 2)."""
    sim_t: float | None
    """Similarity of the question to the section's text (step 3)."""
    score: float | None
    """The score that sections are ranked by."""


class ImageOut(View):
    """An image of a section, or of no section of its article; an answer's "Picture 1" is the first."""

    url: str
    """Its address or path as its source names it."""
    caption: str
    image: str | None
    """Path of a small copy on this service, null if the index has none."""


class EvidenceOut(View):
    """A section of the best entity."""

    entity: EntityOut
    section: str
    """Title of the section."""
    section_index: int
    """Position of the section in the article as published."""
    text: str
    span: tuple[int, int] | None = None
    """Start and end of the answer in `text`, in Unicode characters, if it occurs there word for word, or of
    what a "Yes" or a "No" rests on."""
    scores: SectionScores
    images: tuple[ImageOut, ...] = ()


class CandidateOut(View):
    """A candidate entity with its scores; null if a step did not score it."""

    entity_id: str
    title: str
    url: str
    sim_c: float | None
    """Similarity of the image to the entity's summary (step 1), null without an image."""
    sim_m: float | None
    """The largest `sim_m` of the entity's sections (step 2)."""
    fused: float
    """The score that candidates are ranked by."""
    image: str | None
    """Path of its main image on this service, null without one."""
    photograph: int = 1
    """The number of the question's image that it scores by."""


class IndexOut(View):
    """The index that was searched."""

    name: str
    entities: int | None
    """Number of entities in it; null if keys see only some (serving.key_filters)."""


class RetrieveOut(RetrievalView):
    """The result of retrieval."""

    entity: EntityOut | None
    """The best entity, null if the search found none."""
    evidence: list[EvidenceOut]
    """Its best sections, best first."""
    candidates: list[CandidateOut]
    """All candidates, best first."""
    timings_ms: dict[str, float]
    """Milliseconds per step; a step's time is that of its whole batch."""
    request_id: str
    """The `x-request-id` header of this response, which also marks the request in the server's log."""
    index: IndexOut


class ErrorDetail(View):
    """An error."""

    message: str
    """What is wrong and how to fix it. The text may change."""
    type: str
    """`invalid_request_error`, `rate_limit_error` or `server_error`."""
    param: str | None
    """The request field at fault, if it is one."""
    code: str
    """A stable error code."""


class AnswerOut(RetrieveOut, AnswerView):
    """The result of retrieval with the generator's answer."""

    context_truncated: bool
    """Whether the section was longer than the generator's context."""
    generator: str
    """Name of the generator."""
    prompt_tokens: int | None = None
    """Tokens of the generator's prompt, null if its server does not count them. An agent's are in `trail`."""
    completion_tokens: int | None = None
    """Tokens of the generator's answer, null if its server does not count them."""
    thoughts: str | None = None
    """What a reasoning model thought before it answered, no part of the answer: only if the request asks for it with
    `thoughts`, empty if there are none. An agent's are in `trail`."""
    generator_error: ErrorDetail | None = None
    """Why the generator, or an agent's model, failed; null if it did not."""
    mode: str = "retrieve"
    """`retrieve`, or the agent that answered. An agent's sources are in `trail`: there is no `entity`, and `evidence`
    and `candidates` are empty."""
    trail: TrailOut | None = None
    """The record of how an agent reached its answer."""


class ArticleFields(BaseModel):
    """An article to put into the index, like a line of a JSON lines knowledge base.

    What it does not name of `image`, `images`, `url` and `fields` stays as it is if the index has the entity; null or
    an empty list removes the images.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str = ""
    """Optional; must equal the id in the path."""
    title: str
    sections: list[dict[str, str]]
    """Each with `title` and `text`."""
    url: str = ""
    fields: dict[str, Any] = {}
    """Fields that searches can be limited by, each with a value or a list of values."""
    image: str | None = None
    """The main image as base64, with or without the `data:image/jpeg;base64,` of a data URI, or its URL on an allowed
    host; the path that GET returns keeps it. In a form, the name of the file sent."""
    images: list[dict[str, str | int | None]] = []
    """All images, each with `url` and optionally `section` and `caption`; without `image` the first is the main one.
    With several images per entity, the others are fetched from allowed hosts too; those that cannot be fetched are
    skipped."""


class ArticleSectionOut(View):
    """A section of an article."""

    title: str
    text: str
    index: int
    """Its position in the article as published."""


class ArticleOut(View):
    """An article of the index."""

    id: str
    title: str
    url: str
    image: str | None
    """Path of its main image on this service, null without one."""
    fields: dict[str, list[str]]
    """Fields that searches can be limited by, with their values."""
    sections: list[ArticleSectionOut]


class ChangeOut(View):
    """A change that is on disk and visible to every later search."""

    id: str
    created: bool = False
    """Whether the index had no entity of this id before."""
    notes: list[str] = Field(default_factory=list)
    """Images that stayed or were removed, and those that are not searched, with the reason."""
    index: IndexOut


class ErrorOut(View):
    """The shape of every error."""

    error: ErrorDetail


class ReadyOut(View):
    """The state of a service that accepts requests."""

    status: str
    index: IndexOut
    tokens: str | None
    """Where the index's tokens are and why, in words: on the GPU, or on disk because they do not fit."""
    generator: str
    """Name of the generator."""
    waiting: int
    """Number of requests in the queue."""


class LimitsOut(View):
    """Limits of requests; see docs/settings.md."""

    max_image_bytes: int
    max_image_pixels: int
    max_images: int
    max_question_chars: int
    max_k: int
    timeout_s: float


class InfoOut(View):
    """Description of this service."""

    version: str
    """Version of OMGM."""
    index: IndexOut
    generator: str
    """Name of the generator."""
    limits: LimitsOut
    modes: list[str]
    """Values of `mode` that `/answer` accepts."""
    agent_limits: AgentBudget | None
    """The largest `budget` of an agent, null without agents."""
