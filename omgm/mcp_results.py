"""Results of the tools of `omgm mcp`, small enough for a language model to read, which gets the docstrings too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import AfterValidator

from chat_models.messages import harmless
from retriever import results
from retriever.results import Answer, Retrieval
from retriever.views import AnswerView, RetrievalView, View
from search_agents.records import Observation
from search_agents.trail import AgentAnswer

Harmless = Annotated[str, AfterValidator(harmless)]
"""A text of an article, which cannot speak as the conversation."""
_SHOWN = 4
"""Most images of sections that follow a result: about 200 kB of base64."""


class EntityResult(View):
    """An entity of the encyclopedia."""

    id: str
    title: Harmless
    url: str


class RankedEntity(EntityResult):
    """An entity with its scores; null if a step did not score it."""

    sim_c: float | None
    """Similarity of the image to the entity's search key (step 1)."""
    sim_m: float | None
    """Largest similarity of image and question to a section and the entity's main image (step 2)."""
    score: float
    """The score that entities are ranked by."""


class EntitiesResult(View):
    """Entities, best first."""

    entities: list[RankedEntity]


class ImageResult(View):
    """An image of a section, or of no section of its article; an answer's "Picture 1" is the first."""

    caption: Harmless
    url: str
    has_thumbnail: bool
    """Whether a small copy follows as an image, in the same order."""


class SectionResult(View):
    """A section of an article."""

    title: Harmless
    text: Harmless
    score: float | None
    """The score that sections are ranked by; null if they are not scored."""
    images: tuple[ImageResult, ...] = ()


class SectionsResult(View):
    """The article of the best entity, its sections best first."""

    entity: EntityResult | None
    """Null if nothing was found."""
    sections: list[SectionResult]


class ExcerptResult(View):
    """An excerpt of an article or a web page."""

    title: str
    section: str
    """Empty for web pages and results of web searches."""
    url: str
    """A URL, or an entity's id."""
    text: str


class ExcerptsResult(View):
    """Excerpts, best first."""

    excerpts: list[ExcerptResult]
    note: str
    """Further information, such as the sections of an article."""


class AnswerResult(RetrievalView, AnswerView):
    """An answer with its source."""

    entity: EntityResult | None
    """The entity that the image shows; null if nothing was found."""
    evidence: SectionResult | None
    """The section that the answer is read from."""
    sources: tuple[ExcerptResult, ...] = ()
    """The sources that an agent's answer cites; `entity` and `evidence` are then null."""
    stopped: str = ""
    """The limit or failure that ended an agent's run early."""


class SimilarImage(EntityResult):
    """An entity and how similar it is to the image; its thumbnail follows as an image, in the same order."""

    similarity: float
    has_thumbnail: bool


class SimilarResult(View):
    """Entities, most similar first."""

    images: list[SimilarImage]


def entities_result(found: Retrieval, limit: int) -> EntitiesResult:
    """Returns the best candidates."""
    best = found.candidates[:limit]
    return EntitiesResult(entities=[RankedEntity.of(one, id=one.entity, score=one.fused) for one in best])


def sections_result(found: Retrieval, limit: int) -> SectionsResult:
    """Returns the best sections of the best entity."""
    return SectionsResult.of(found, sections=_sections(found, found.sections[:limit]))


def answer_result(found: Answer) -> AnswerResult:
    """Returns an answer with the section that it is from."""
    number = found.evidence and found.evidence.section_index
    source = [row for row in found.sections if row.index == number][:1]
    return AnswerResult.of(found, evidence=next(iter(_sections(found, source)), None))


def copies_of(found: Retrieval, sections: Iterable[SectionResult | None]) -> list[bytes]:
    """Returns the copies of images that follow some sections."""
    urls = [image.url for section in sections if section for image in section.images if image.has_thumbnail]
    return [found.thumbnails[url] for url in dict.fromkeys(urls)]


def _sections(found: Retrieval, rows: Sequence[results.RankedSection]) -> list[SectionResult]:
    stored = dict.fromkeys(image.url for row in rows for image in row.images if image.url in found.thumbnails)
    shown = [*stored][:_SHOWN]
    return [
        SectionResult.of(row, images=[ImageResult.of(one, has_thumbnail=one.url in shown) for one in row.images])
        for row in rows
    ]


def agent_result(found: AgentAnswer) -> AnswerResult:
    """Returns an agent's answer with the sources that it cites."""
    cited = sorted({number for claim in found.claims for number in claim.sources})
    unknown = dict.fromkeys(("grounded", "confidence", "recognized", "entity", "evidence"))
    return AnswerResult.of(found, **unknown, sources=[found.sources[number - 1] for number in cited])


def excerpts_result(seen: Observation) -> ExcerptsResult:
    """Returns the excerpts that an agent's tool found."""
    return ExcerptsResult(excerpts=[ExcerptResult.of(source) for source in seen.sources], note=seen.text)


def similar_image(found: results.RankedEntity) -> SimilarImage:
    """Returns an entity that step 1 found."""
    has_thumbnail = found.image is not None and found.image.is_file()
    return SimilarImage.of(found, id=found.entity, similarity=found.fused, has_thumbnail=has_thumbnail)
