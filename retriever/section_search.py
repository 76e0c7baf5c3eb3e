"""Step 1 for questions without an image: their words, the names in them and their meaning against all sections."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from retriever.deixis import without_deixis
from retriever.lexical import is_english, tokenize
from retriever.protocols import Finish, TextReranker, VectorReranker
from retriever.types import Candidate, Filter, FloatArray, Query

NAME, MEANING = 0.5, 0.7
"""Weights of a name and of the cosine, which are added to the score of the words."""
ALONE = 1.6
"""Factor of words where no meaning is compared, with which as many questions are declined."""
_BIAS, _SCORE, _LEAD = -6.5, 6.0, 11.0
"""A logistic regression on the best entity's score and its lead over the next, fitted to 1,558 questions of
SQuADShifts' New Wikipedia, each asked with its article and without (docs/decisions.md)."""
_FIRST = 0.3
"""The lead of an entity without another beside it."""


class SectionMatch(NamedTuple):
    """A section that may answer a question.

    Attributes:
        row: The row of its entity.
        position: Its index in `Entity.sections`.
        words: The BM25 of its words, as a share of what the question could reach; `None` if words are not searched.
        name: The share of the question's words that are a name of its entity.
        cosine: The cosine of its nearest window with the question; `None` without vectors.
    """

    row: int
    position: int
    words: float | None
    name: float
    cosine: float | None

    @property
    def score(self) -> float:
        """How well it fits the question."""
        words = (self.words or 0.0) + NAME * self.name
        return ALONE * words if self.cosine is None else words + MEANING * self.cosine


class SectionIndex(Protocol):
    """Searches the sections of an index (`indexes.live.section_search`)."""

    def search(
        self, question: str, vector: FloatArray | None, excluded: Collection[int] = (), filter: Filter = ()
    ) -> list[SectionMatch]:
        """Returns the sections that fit a question best, of entities of a filter whose rows are not `excluded`."""


PRONOUN = re.compile(r"\b(?:it|its|they|their|them|he|his|him|she|her)\b", re.IGNORECASE)


def points(question: str) -> bool:
    """Returns whether a question only points at what it is about, which an image would show.

    Example:
        >>> [points(text) for text in ("When was this built?", "How old is it?", "Does ice hurt ponds and their fish?")]
        [True, True, False]
    """
    named = without_deixis(question)
    return named != question or (PRONOUN.search(named) is not None and len(tokenize(named)) <= 2)


def topic_of(query: Query) -> str:
    """Returns the text that says what a question without an image is about: the one before it, or itself."""
    return query.before[-1] if query.before else query.question


class SectionSearch:
    """Finds the entities with the sections that fit a question best (a `retriever.protocols.Step`).

    Args:
        index: What is searched.
        reranker: Step 3's model, whose vectors are compared if it has any.
        k: Candidates per query, unless the query's options set another number.
        row_of: Returns the row of an entity, which is the only candidate of a query that has one in its options.
    """

    name = "step1"

    def __init__(
        self, index: SectionIndex, reranker: TextReranker, k: int, row_of: Callable[[str], int | None]
    ) -> None:
        self.index, self.reranker, self.k, self.row_of = index, reranker, k, row_of

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the questions; the returned function finds entities by the best of their sections.

        Questions in languages that the reranker does not read are searched by words alone, as in step 3.
        """
        reads = getattr(self.reranker, "reads", is_english)
        questions = [topic_of(query) for query in queries]
        vectors = self.reranker.encode(questions) if isinstance(self.reranker, VectorReranker) else None

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            return [
                self._candidates(query, None if vectors is None or not reads(questions[number]) else vectors[number])
                for number, query in enumerate(queries)
            ]

        return finish

    def _candidates(self, query: Query, vector: FloatArray | None) -> list[Candidate]:
        best = dict[int, Candidate]()
        options = query.options
        if options.entity is not None:
            row = self.row_of(options.entity)
            return [] if row is None else [Candidate(row, score=1.0)]
        matches = self.index.search(without_deixis(topic_of(query)), vector, options.exclude, options.filter)
        for match in sorted(matches, key=lambda match: -match.score):
            best.setdefault(match.row, Candidate(match.row, score=match.score, sim_w=match.name))
        return list(best.values())[: options.k or self.k]


def fits(question: str, candidates: Sequence[Candidate]) -> float:
    """Returns the probability that the best entity is what a question is about, 0 without candidates.

    One that only points at something is about nothing that is known, unless it has a name, too.
    """
    if not candidates or (points(question) and not candidates[0].sim_w):
        return 0.0
    best = candidates[0].score
    lead = best - candidates[1].score if len(candidates) > 1 else _FIRST
    return 1 / (1 + math.exp(-(_BIAS + _SCORE * best + _LEAD * lead)))
