"""Training samples of step 2: a question with its evidence and hard negatives (the paper's appendix C.2)."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from retriever.types import Entity

logger = logging.getLogger(__name__)

FROM_GOLD = 3
"""The most hard negatives that come from the gold article."""


class TrainingQuestion(Protocol):
    """A labeled question, as training and the mining of negatives need it."""

    @property
    def id(self) -> str:
        """The question's id."""

    @property
    def question(self) -> str:
        """The text of the question."""

    @property
    def image_id(self) -> str:
        """The id of the question's image."""

    @property
    def entity_ids(self) -> tuple[str, ...]:
        """The gold entities."""

    @property
    def section_index(self) -> int | None:
        """The evidence section's position in the article as published."""


class SectionRef(NamedTuple):
    """A candidate: an entity's main image with one of its sections, by its position in `Entity.sections`."""

    entity_id: str
    position: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A question with its evidence and its negatives.

    Attributes:
        question: The text of the question.
        image_id: The id of the question's image.
        positive: The gold entity with the evidence section.
        same: Other sections of the gold article.
        others: Entities, with image and sections, that step 1 found for the question's image and that are not gold.
    """

    question: str
    image_id: str
    positive: SectionRef
    same: tuple[SectionRef, ...]
    others: tuple[str, ...]


def make_samples(
    questions: Sequence[TrainingQuestion],
    entities: Mapping[str, Entity],
    negatives: Mapping[str, Sequence[str]],
    image_of: Callable[[Entity], object | None],
    query_image_of: Callable[[str], object | None],
    candidates: int = 16,
) -> list[Sample]:
    """Returns a sample for each question that can be trained on; logs how many cannot and why.

    Args:
        questions: All questions.
        entities: Entities by id.
        negatives: Ids of the entities that step 1 finds, by image id.
        image_of: Returns `None` if an entity's main image is missing.
        query_image_of: Returns `None` if a question's image is missing.
        candidates: Candidates per sample.
    """
    usable = {key for key, entity in entities.items() if entity.sections and image_of(entity) is not None}
    samples: list[Sample] = []
    left_out: Counter[str] = Counter()
    for question in questions:
        gold = next((key for key in question.entity_ids if key in usable), None)
        if question.section_index is None:
            left_out["the evidence section is unknown"] += 1
        elif gold is None:
            left_out["the entity has no image or no sections"] += 1
        elif question.image_id not in negatives:
            left_out["no negatives were mined for the image"] += 1
        elif query_image_of(question.image_id) is None:
            left_out["the image is missing"] += 1
        else:
            sections = entities[gold].sections
            evidence = next((i for i, s in enumerate(sections) if s.index == question.section_index), None)
            same = tuple(SectionRef(gold, i) for i in range(len(sections)) if i != evidence)
            found = dict.fromkeys(negatives[question.image_id])
            others = tuple(key for key in found if key in usable and key not in question.entity_ids)
            pool = sum(len(entities[key].sections) for key in others)
            if evidence is None:
                left_out["the article has no such section"] += 1
            elif min(FROM_GOLD, len(same)) + pool < candidates - 1:
                left_out["too few negatives"] += 1
            else:
                positive = SectionRef(gold, evidence)
                samples.append(Sample(question.question, question.image_id, positive, same, others))
    for reason, count in left_out.items():
        logger.warning("%d of %d questions left out: %s", count, len(questions), reason)
    return samples


def draw_candidates(
    sample: Sample, entities: Mapping[str, Entity], rng: random.Random, candidates: int = 16
) -> list[SectionRef]:
    """Draws `candidates` different ones: the positive, up to three of the gold article, the rest of other entities.

    Every section of the other entities is equally likely, so long articles weigh more, as in the paper's code.
    """
    same = rng.sample(sample.same, min(FROM_GOLD, len(sample.same), candidates - 1))
    pool = [SectionRef(key, i) for key in sample.others for i in range(len(entities[key].sections))]
    return [sample.positive, *same, *rng.sample(pool, candidates - 1 - len(same))]
