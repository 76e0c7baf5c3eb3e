"""The questions that step 3's encoder is adapted to, by the articles of an index that they are about."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexes.store.index import Index
from retriever.deixis import without_deixis
from retriever.models.section_encoder import SectionEncoder
from retriever.texts import section_passage
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
