"""The questions that step 3's encoder is adapted to, by the articles of an index, and batches of them."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from indexes.store.index import Index
from retriever.deixis import without_deixis
from retriever.models.section_encoder import SectionEncoder
from retriever.texts import section_passage
from training.batch import Batch
from training.questions import TrainingQuestion
from training.reranker.left_out import LeftOut

LEFT_OUT = "left_out.jsonl"


@dataclass(frozen=True, slots=True)
class AskedSection:
    """A question, its token ids as step 3 encodes it, and the position of the section with its answer."""

    text: str
    ids: array[int]
    gold: int


@dataclass(frozen=True, slots=True)
class AskedArticle:
    """An entity that questions are about: its row in the index, its id, and the questions."""

    row: int
    id: str
    questions: list[AskedSection] = field(default_factory=list)


def read_articles(
    index: Index,
    questions: Sequence[TrainingQuestion | ValueError],
    encoder: SectionEncoder,
    out: Path,
    max_bad: float,
) -> list[AskedArticle]:
    """Groups questions by their articles; lists those that cannot be trained on in `out/left_out.jsonl`.

    Args:
        index: The index with the articles.
        questions: The questions; an error stands for one that cannot be read.
        encoder: Tokenizes questions.
        out: The folder for the list.
        max_bad: Share of bad questions that is accepted, in 0..1.

    Raises:
        ValueError: Too many questions are bad, or none can be used.
    """
    left_out, articles = LeftOut(), dict[int, AskedArticle]()
    for number, question in enumerate(questions):
        if isinstance(question, ValueError):
            left_out.add(str(number), f"unreadable: {question}")
        elif not question.entity_ids:
            left_out.add(question.id, "no entity is named", bad=False)
        elif question.section_index is None:
            left_out.add(question.id, "no evidence section is named", bad=False)
        elif (row := index.row_of(question.entity_ids[0])) is None:
            left_out.add(question.id, f"the entity is not in the index: {question.entity_ids[0]}")
        else:
            entity = index.entity(row)
            places = {section.index: place for place, section in enumerate(entity.sections)}
            if question.section_index not in places:
                left_out.add(question.id, f"the article has no such section: {question.section_index}")
            elif len(places) < 2:
                left_out.add(question.id, "the article has only one section", bad=False)
            else:
                [ids] = encoder.question_ids([without_deixis(question.question)])
                asked = AskedSection(question.question, array("H", ids), places[question.section_index])
                articles.setdefault(row, AskedArticle(row, entity.id)).questions.append(asked)
    out.mkdir(parents=True, exist_ok=True)
    left_out.report(out / LEFT_OUT, len(questions), max_bad)
    if not articles:
        raise ValueError(
            f"no question can be trained on: each needs its entity and its evidence section; {out / LEFT_OUT} lists "
            "the reasons"
        )
    return list(articles.values())


def passages(index: Index, article: AskedArticle) -> list[str]:
    """Returns the sections of an article as step 3 reads them."""
    entity = index.entity(article.row)
    return [section_passage(entity.title, section.title, section.text) for section in entity.sections]


ASKED = 8
"""Most questions about an article in a batch."""


@dataclass(frozen=True, slots=True)
class SectionBatch(Batch):
    """Questions and sections of several articles.

    Attributes:
        questions: Token ids of each question.
        windows: Normalized vectors of the sections' windows, float32 [W, D].
        sections: The section of each window, ascending from 0, int64 [W].
        gold: The section with the answer of each question, int64 [Q].
        alike: A number for each section, the same for sections of the same text, int64 [S]: they are no negatives of
            each other.
    """

    questions: list[array[int]]
    windows: Tensor
    sections: Tensor
    gold: Tensor
    alike: Tensor


class SectionBatches:
    """Draws batches; each follows from its number and the seed.

    An article is drawn as often as there are questions about it. Its other sections are the hard negatives, those of
    the batch's other articles are further ones.

    Args:
        index: The index with the articles and the vectors of their sections.
        articles: The articles.
        questions: Questions per batch, about.
        seed: The seed.
    """

    def __init__(self, index: Index, articles: Sequence[AskedArticle], questions: int, seed: int) -> None:
        self._index, self._articles, self._questions, self._seed = index, articles, questions, seed
        self._weights = list(accumulate(len(article.questions) for article in articles))

    def __call__(self, number: int) -> SectionBatch:
        """Returns a batch."""
        rng = random.Random(f"{self._seed} {number}")
        asked: list[array[int]] = []
        drawn, golds, texts, alike = dict[int, AskedArticle](), list[int](), dict[str, int](), list[int]()
        windows, sections = list[Tensor](), list[Tensor]()
        while len(asked) < self._questions and len(drawn) < len(self._articles):
            [article] = rng.choices(self._articles, cum_weights=self._weights)
            if article.row in drawn:
                continue
            drawn[article.row] = article
            for question in rng.sample(article.questions, min(ASKED, len(article.questions))):
                asked.append(question.ids)
                golds.append(len(alike) + question.gold)
            vectors, owners = windows_of(self._index, article)
            windows.append(vectors)
            sections.append(owners + len(alike))
            for passage in passages(self._index, article):
                alike.append(texts.setdefault(passage.partition("\n")[2], len(texts)))
        return SectionBatch(asked, torch.cat(windows), torch.cat(sections), torch.tensor(golds), torch.tensor(alike))


def windows_of(index: Index, article: AskedArticle) -> tuple[Tensor, Tensor]:
    """Returns the normalized windows of an article, float32 [W, D], and the section of each, int64 [W]."""
    encoded = index.column("sections", article.row)
    assert encoded is not None  # checked before training
    vectors = torch.nn.functional.normalize(torch.from_numpy(encoded.values.astype(np.float32)), dim=1)
    return vectors, torch.from_numpy(encoded.parts)
