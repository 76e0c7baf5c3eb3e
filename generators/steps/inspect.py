"""The step `inspect`: a chat model that drops sections which do not help to answer the question (ReAG's critic)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeVar

from chat_models.messages import Message, harmless, image_part, text_part
from generators.steps.replies import Replies
from retriever.asking import EntityIndex
from retriever.protocols import Finish
from retriever.texts import section_passage
from retriever.types import Candidate, Query, ScoredSection

Scored = TypeVar("Scored", Candidate, ScoredSection)
_NO = re.compile(r"\W*no\b", re.IGNORECASE)
_ASK = "Does this text help to answer the question? Answer yes or no."


class Inspect:
    """Puts sections behind all others of their entity that the model calls no help.

    Of several inspected entities, those without a section that helps come last. What is put behind scores no more than
    what it comes behind.

    Args:
        replies: The model; it gets the image, too, if it sees.
        index: Holds the articles.
        entities: How many of the best entities to inspect.
        sections: How many of the best sections of each.
    """

    name = "inspect"

    def __init__(self, replies: Replies, index: EntityIndex, entities: int = 1, sections: int = 3) -> None:
        self._replies, self._index, self._entities, self._sections = replies, index, entities, sections

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns a function that asks the model about the best sections of each query's candidates."""
        return lambda candidates: self._finish(queries, candidates)

    def _finish(self, queries: Sequence[Query], candidates: list[list[Candidate]]) -> list[list[Candidate]]:
        pairs = [
            (query, candidate, section)
            for query, ranked in zip(queries, candidates, strict=True)
            for candidate in ranked[: self._entities]
            for section in candidate.sections[: self._sections]
        ]
        replies = self._replies.request([self._messages(*pair) for pair in pairs])()
        refused = {id(section) for (_, _, section), reply in zip(pairs, replies, strict=True) if _NO.match(reply)}
        return [self._ordered(ranked, refused) for ranked in candidates]

    def _messages(self, query: Query, candidate: Candidate, section: ScoredSection) -> list[Message]:
        entity = self._index.entity(candidate.row)
        text = entity.sections[section.position]
        passage = harmless(section_passage(entity.title, text.title, text.text))
        parts = [text_part(f"Question: {query.question}\n\nText:\n{passage}\n\n{_ASK}")]
        if self._replies.sees and query.image.width:
            parts.insert(0, image_part(query.image))
        return [{"role": "user", "content": parts}]

    def _ordered(self, ranked: list[Candidate], refused: set[int]) -> list[Candidate]:
        def helpless(candidate: Candidate) -> bool:
            return all(id(section) in refused for section in candidate.sections[: self._sections])

        inspected = sorted(ranked[: self._entities], key=helpless)
        for candidate in inspected:
            candidate.sections = _lowered(sorted(candidate.sections, key=lambda section: id(section) in refused))
        return _lowered([*inspected, *ranked[self._entities :]])


def _lowered(ranked: list[Scored]) -> list[Scored]:
    """Lowers scores to that of what comes before, and returns the list."""
    lowest = math.inf
    for one in ranked:
        if one.score is not None:
            one.score = lowest = min(lowest, one.score)
    return ranked
