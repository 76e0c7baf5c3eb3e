"""The data types of the pipeline: entities and sections, queries, candidates, results and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

if TYPE_CHECKING:  # the reader's process needs no PyTorch
    from torch import Tensor

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
NO_IMAGE = Image.new("RGB", (0, 0))
LABELED = "labeled:"  # prefix of the URLs of labeled images (`indexes.labeled_images`)

Crop = tuple[float, float, float, float]
"""A part of an image: left, top, right and bottom edge as shares of its width and height."""
_RECOGNIZED = "Probability that the image shows `entity`, or the question is about it; null if not calibrated."
_CROP = "The part of the image that shows `entity`: left, top, right and bottom as shares of it; null for the whole."
_TURNED = "By how many degrees the image was turned clockwise to recognize `entity`."
_TEXT = "The lines of text on the image, from top to bottom; null if they were not read."
_FILTER = "The fields by which the search was limited, each with the values of which an entity has one; else null."
Reading = Literal["text", "name"]
Filter = tuple[tuple[str, tuple[str, ...]], ...]
"""Fields, each with the values of which an entity must have one (`retriever.filters`)."""
_PHOTOGRAPHS = "What each of several images shows, in order; what is said of one image is of that with `entity`."
_SEARCHED = "The question that was searched without an image, completed by those before; null if about the image."
_READING = "What the question asks for of `text`: the `text`, or the `name` that stands out; null for other questions."


class EngineError(OSError):
    """A server that the retrieval depends on cannot be reached or refuses a request."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an article; `index` is its position in the article as published, dropped sections included."""

    title: str
    text: str
    index: int


@dataclass(frozen=True, slots=True)
class ArticleImage:
    """An image of an article: its URL or path, and the `index` of the section it belongs to, if any."""

    url: str
    section: int | None = None
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Entity:
    """An article of the knowledge base. `id` is its key (a URL in E-VQA); `image` names its main image, if any.

    `images` are all images of the article, in order; the first available one replaces a missing main image. `names` are
    alternative names of the article, such as redirects to it. `fields` are pairs of a field and a value, by which
    searches can be limited. `named_after` has pairs of a field and its value in the source that image files may be
    called after; it is only known while a knowledge base is read. `source` names the knowledge base that an entity of
    an index came from later, see `indexes.live.updating`.
    """

    id: str
    title: str
    sections: tuple[Section, ...]
    image: str | None = None
    url: str = ""
    images: tuple[ArticleImage, ...] = ()
    names: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    named_after: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    source: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class StoredTokens:
    """Tokens of sections and labeled images as MaxSim reads them, normalized over H.

    Attributes:
        values: float16 [R, M, H]; or int8 [R, M, H], where a token is `values * scale`; or packed signs, uint8
            [R, M, H / 8]. M is at most the encoder's number of tokens.
        scales: [R, M] for int8, else `None`.
        first: For each requested span, the row of `values` where it begins, int64 [spans].
    """

    values: Tensor
    scales: Tensor | None
    first: IntArray


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text in an image, with OCR's confidence, 0 to 1, and the part of the image where it stands."""

    text: str
    confidence: float
    box: Crop
    photograph: int = 1  # the number of the image, of several


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of one request instead of the profile's; `exclude` are rows of entities to leave out of `filter`."""

    k: int | None = None
    alpha: float | None = None
    beta: float | None = None
    exclude: tuple[int, ...] = ()
    filter: Filter = ()
    entity: str | None = None  # the id of the one that is asked about


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """An image (RGB), or `NO_IMAGE`, with a question, and the text on the image if it is to be searched by it, too."""

    image: Image.Image
    question: str
    id: str = ""
    options: Options = Options()
    text: tuple[TextLine, ...] = ()
    before: tuple[str, ...] = ()  # the questions since the image came, with its own first; none if it comes with this
    more: tuple[Image.Image, ...] = ()  # further images of the question, each of which is searched for itself


@dataclass(slots=True)
class ScoredSection:
    """A section of a candidate; `position` is its index in `Entity.sections`. Scores are `None` until computed."""

    position: int
    sim_m: float | None = None
    sim_t: float | None = None
    score: float | None = None


@dataclass(slots=True)
class Candidate:
    """An entity found by step 1; later steps add scores and reorder the list.

    Attributes:
        row: The entity's row in the index.
        sim_c: Inner product of query image and summary vectors (step 1), `None` if another step found the entity.
        sim_m: The highest multimodal similarity among its images, or else among its sections (step 2); `None` without
            stored tokens.
        score: The score that the last step ranked by; higher is better.
        sections: Its sections, best first once scored.
        sim_p: What the second network of step 1's encoder alone contributes to `sim_c`; of one not among the
            network's own nearest, the lowest of these. `None` without a second network.
        sim_w: How similar the words on its images, or its names, are to those on the query's; `None` if not compared.
        places: How many places of the query's image agree with one of its images; `None` if not verified.
        alignment: How well the image by which it scores agrees with the query's where it is laid on it; `None` if not
            compared.
        image: The number of that image among those with tokens of their own, its main image first.
        images: How many these are.
        photograph: The number of the query's image that it scores by, from 1.
    """

    row: int
    sim_c: float | None = None
    sim_m: float | None = None
    score: float = 0.0
    sections: list[ScoredSection] = field(default_factory=list)
    sim_p: float | None = None
    alignment: float | None = None
    sim_w: float | None = None
    places: int | None = None
    image: int = 0
    images: int = 0
    photograph: int = 1


@dataclass(frozen=True, kw_only=True)
class RetrievalFields:
    """What retrieval says of an image. A field added here is in the results of Python, HTTP, MCP and evaluations."""

    recognized: Annotated[float | None, Field(description=_RECOGNIZED)] = None
    crop: Annotated[Crop | None, Field(description=_CROP)] = None
    turned: Annotated[Literal[0, 90, 180, 270], Field(description=_TURNED)] = 0
    text: Annotated[tuple[TextLine, ...] | None, Field(description=_TEXT)] = None
    by_text: Annotated[bool, Field(description="Whether `entity` was recognized by `text`.")] = False
    reading: Annotated[Reading | None, Field(description=_READING)] = None
    searched: Annotated[str | None, Field(description=_SEARCHED)] = None
    parts: Annotated[tuple[int, int] | None, Field(description="Parts of the index that answered, and all.")] = None
    filter: Annotated[Mapping[str, tuple[str, ...]] | None, Field(description=_FILTER)] = None
    photographs: Annotated[tuple[Photograph, ...], Field(description=_PHOTOGRAPHS)] = ()


@dataclass(frozen=True, slots=True)
class RetrievalResult(RetrievalFields):
    """The result of one query: candidates, best first, and milliseconds per step (for the whole batch)."""

    query_id: str
    candidates: list[Candidate]
    timings_ms: dict[str, float]
    rankings: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """By step name, the (row, score) pairs that the step returned; used to write run files."""
    version: object = field(default=None, repr=False, compare=False)
    """Keeps the candidates' rows readable while the index changes, for as long as the result is held."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The section from which the answer is read."""

    entity_id: str
    entity_title: str
    section_title: str
    text: str
    section_index: int | None = None
    """The section's position in the article as published, or `None` if unknown."""
    images: tuple[ArticleImage, ...] = ()
    """The section's images, then the article's that belong to none; an answer's "Picture 1" is the first of them."""


@dataclass(frozen=True, slots=True)
class OtherSection:
    """Another section of the best entity; `behind` is how much lower step 3 scored it than the evidence (0 or less)."""

    evidence: Evidence
    behind: float


@dataclass(frozen=True, slots=True)
class Photograph:
    """What one of several images shows; `sections` are its best, first ones, if others show something else."""

    entity_id: str | None
    entity_title: str | None
    recognized: float | None
    crop: Crop | None
    turned: int
    sections: tuple[OtherSection, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationRequest(RetrievalFields):
    """The input of a generator: question, image and evidence (`None` if nothing was retrieved).

    `others` are the next sections of the same article, best first; a generator may answer from one of them instead.
    The answer is to end before the first of the strings in `stop`. A model that writes it is to write at most
    `max_tokens` tokens, or fewer if its own limit is lower. `thumbnails` are copies of the article's images, by URL.
    """

    question: str
    image: Image.Image | None
    evidence: Evidence | None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    others: tuple[OtherSection, ...] = ()
    more: tuple[Image.Image, ...] = ()
    thumbnails: Mapping[str, bytes] = field(default_factory=dict, repr=False)


Ending = Literal["complete", "cut", "refused", "filtered"]
"""How a model's reply ended: as it meant to, at its maximum length, in a refusal, or at the server's content filter."""
_ANSWER = "Null if the evidence does not answer the question, or the generator failed."
_DECLINED = "Whether nothing was recognized: the answer is null, or was read on the image."
_QUOTE = "The lines of `text` that are the answer; empty if none is legible, null if the answer is not from them."
_PASSAGES = "Of an answer about different things that several images show: the section that each part is from."
_ENDING = """\
How a chat model's reply ended: `complete`, `cut` at its maximum length, `refused` by the model, or `filtered` by
its server. An agent's are in its trail."""
NOT_RECOGNIZED = "the image was not recognized; go closer until the thing fills the frame, or name it in the question"
"""Why a question is declined and what helps, as the end of a sentence."""


@dataclass(frozen=True)
class AnswerFields:
    """An answer. A field added here is an answer's in Python, HTTP, MCP and the records of evaluations."""

    answer: Annotated[str | None, Field(description=_ANSWER)]
    confidence: Annotated[float | None, Field(description="From 0 to 1, null if the generator reports none.")]
    _: KW_ONLY
    declined: Annotated[bool, Field(description=_DECLINED)] = False
    ending: Annotated[Ending, Field(description=_ENDING)] = "complete"
    quote: Annotated[tuple[TextLine, ...] | None, Field(description=_QUOTE)] = None
    passages: Annotated[tuple[Evidence, ...], Field(description=_PASSAGES)] = ()


@dataclass(frozen=True)  # without slots, so that a class can inherit from it and from another one with fields
class Generation(AnswerFields):
    """A generator's answer, with what only some results have.

    Attributes:
        span: The answer's characters in `Evidence.text` (start, end), for an extractive reader: of a "Yes" or a "No",
            what it rests on.
        truncated: True if the evidence was cut to fit the model's context.
        limitation: What the generator cannot do that the question asks of it, such as reading its language.
        prompt_tokens: As counted by a chat model's server, else `None`.
        completion_tokens: As counted by a chat model's server, else `None`.
        thoughts: What the model wrote before its answer, to itself; no part of the answer.
        evidence: The section that the answer is from, if it is one of the request's `others`.
    """

    confidence: float | None = None
    span: tuple[int, int] | None = None
    truncated: bool = field(default=False, repr=False)
    limitation: str | None = field(default=None, repr=False)
    prompt_tokens: int | None = field(default=None, repr=False)
    completion_tokens: int | None = field(default=None, repr=False)
    thoughts: str = field(default="", repr=False)
    evidence: Evidence | None = None

    @property
    def abstained(self) -> bool:
        """True if there is no answer."""
        return self.answer is None

    @property
    def reason(self) -> str | None:
        """Why there is no answer, as the end of a sentence; `None` with an answer."""
        none = NOT_RECOGNIZED if self.declined else "the generator found none in the evidence"
        return self.limitation or none if self.answer is None else None
