"""The step `identify`: a chat model that sees chooses among the candidates by their names (Ground then Rank)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chat_models.messages import Message, harmless, image_part, text_part
from generators.steps.replies import Replies
from retriever.asking import EntityIndex
from retriever.images import load_image
from retriever.protocols import Finish
from retriever.types import Candidate, Query

_ASK = "Which of these does the photograph show? Answer with its number alone, or with 0 if it shows none of them."


class Identify:
    """Puts the candidate first that the model names, with the best score; the others keep order and scores.

    All keep theirs if the model names none, or for a question without an image.

    Args:
        replies: The model; it must see.
        index: Holds the candidates' names and images.
        candidates: How many of the best candidates it chooses among.
        pictures: Of how many of these it also gets the main image.
    """

    name = "identify"

    def __init__(self, replies: Replies, index: EntityIndex, candidates: int = 10, pictures: int = 0) -> None:
        self._replies, self._index, self._candidates, self._pictures = replies, index, candidates, pictures

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns a function that asks the model about the candidates of each query."""
        return lambda candidates: self._finish(queries, candidates)

    def _finish(self, queries: Sequence[Query], candidates: list[list[Candidate]]) -> list[list[Candidate]]:
        unsure = [n for n, ranked in enumerate(candidates) if len(ranked) > 1 and queries[n].image.width]
        conversations = [self._messages(queries[n], candidates[n][: self._candidates]) for n in unsure]
        for n, reply in zip(unsure, self._replies.request(conversations)(), strict=True):
            candidates[n] = _chosen_first(candidates[n], reply, self._candidates)
        return candidates

    def _messages(self, query: Query, candidates: Sequence[Candidate]) -> list[Message]:
        parts = [image_part(query.image), text_part(f"A photograph. The question about it: {query.question}")]
        for number, candidate in enumerate(candidates, 1):
            parts.append(text_part(f"{number}. {harmless(self._index.entity(candidate.row).title)}"))
            path = self._index.image_path(candidate.row) if number <= self._pictures else None
            if path is not None:
                parts.append(image_part(load_image(path)))
        return [{"role": "user", "content": [*parts, text_part(_ASK)]}]


def _chosen_first(ranked: list[Candidate], reply: str, candidates: int) -> list[Candidate]:
    number = re.search(r"\d+", reply)
    place = int(number[0]) - 1 if number else -1
    if not 0 <= place < min(candidates, len(ranked)):
        return ranked
    chosen = ranked[place]
    chosen.score = max(candidate.score for candidate in ranked)
    return [chosen, *ranked[:place], *ranked[place + 1 :]]
