"""Step 2's training samples: a question, its evidence, and what it is set against (the paper's appendix C.2)."""

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


class TrainingQuestion(Protocol):
    """What training asks of a question."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def question(self) -> str:
        """Its words."""

    @property
    def image_id(self) -> str:
        """Names its picture."""

    @property
    def entity_ids(self) -> tuple[str, ...]:
        """The entities that it is about."""

    @property
    def section_index(self) -> int | None:
        """Where its evidence stands in the article as published."""


class Pair(NamedTuple):
    """A candidate: the main image of an entity with one of its sections, by its position in `Entity.sections`."""

    entity_id: str
    position: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A question with its evidence.

    Attributes:
        question: Its words.
        image_id: Names its picture.
        positive: The gold entity with the evidence section.
        same: Other sections of the gold article.
        others: Entities with picture and sections that step 1 found for the picture, other than gold.
    """

    question: str
    image_id: str
    positive: Pair
    same: tuple[Pair, ...]
    others: tuple[str, ...]


def make_samples(
    questions: Sequence[TrainingQuestion],
    entities: Mapping[str, Entity],
    negatives: Mapping[str, Sequence[str]],
    image_of: Callable[[Entity], object | None],
    query_image_of: Callable[[str], object | None],
    candidates: int = 16,
) -> list[Sample]:
    """Returns the questions that can be trained on; the log says how many are left out and why.

    Args:
        questions: All of them.
        entities: By their ids.
        negatives: Per picture the ids of the entities that step 1 finds.
        image_of: Gives `None` for an entity whose main image is not there.
        query_image_of: Gives `None` for a question's picture that is not there.
        candidates: Pairs a sample.
    """
    usable = {key for key, entity in entities.items() if entity.sections and image_of(entity) is not None}
    samples: list[Sample] = []
    left_out: Counter[str] = Counter()
    for question in questions:
        gold = next((key for key in question.entity_ids if key in usable), None)
        if question.section_index is None:
            left_out["the evidence section is not known"] += 1
        elif gold is None:
            left_out["the entity has no picture or no sections"] += 1
        elif question.image_id not in negatives:
            left_out["no negatives were mined for the picture"] += 1
        elif query_image_of(question.image_id) is None:
            left_out["the picture is missing"] += 1
        else:
            sections = entities[gold].sections
            evidence = next((i for i, s in enumerate(sections) if s.index == question.section_index), None)
            same = tuple(Pair(gold, i) for i in range(len(sections)) if i != evidence)
            found = dict.fromkeys(negatives[question.image_id])
            others = tuple(key for key in found if key in usable and key not in question.entity_ids)
            pool = sum(len(entities[key].sections) for key in others)
            if evidence is None:
                left_out["the article has no such section"] += 1
            elif min(FROM_GOLD, len(same)) + pool < candidates - 1:
                left_out["too few negatives"] += 1
            else:
                samples.append(Sample(question.question, question.image_id, Pair(gold, evidence), same, others))
    for reason, count in left_out.items():
        logger.warning("%d of %d questions left out: %s", count, len(questions), reason)
    return samples


def draw_candidates(
    sample: Sample, entities: Mapping[str, Entity], rng: random.Random, candidates: int = 16
) -> list[Pair]:
    """Returns `candidates` different pairs: the positive, up to three of the gold article, the rest of other entities.

    Every section of the other entities is equally likely, so that long articles weigh more, as in the paper's code.
    """
    same = rng.sample(sample.same, min(FROM_GOLD, len(sample.same), candidates - 1))
    pool = [Pair(key, i) for key in sample.others for i in range(len(entities[key].sections))]
    return [sample.positive, *same, *rng.sample(pool, candidates - 1 - len(same))]
