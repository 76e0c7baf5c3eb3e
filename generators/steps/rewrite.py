"""The step `rewrite`: a chat model rewrites the question for another step (WikiSeeker)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chat_models.messages import Message, image_part, text_part
from generators.steps.replies import Replies
from retriever.protocols import Finish, Step
from retriever.types import Candidate, Query

_ASK = (
    "Rewrite the question as one that an encyclopedia's text can be searched for: say what is asked in the words that "
    "such a text would use, and name the kind of thing that it is about. Answer with the rewritten question alone."
)


class Rewrite:
    """Runs a step on questions that the model has rewritten; the answer is still about the user's own.

    Args:
        replies: The model; it gets the image, too, if it sees.
        step: The step.
    """

    def __init__(self, replies: Replies, step: Step) -> None:
        self._replies, self._step = replies, step

    @property
    def name(self) -> str:
        """The name of the step that it runs."""
        return self._step.name

    def start(self, queries: Sequence[Query]) -> Finish:
        """Asks the model; the returned function waits for it and runs the step. Without a reply, a question stays."""
        wait = self._replies.request([self._messages(query) for query in queries])

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            rewritten = [" ".join(reply.split()) for reply in wait()]
            asked = [
                replace(query, question=new or query.question) for query, new in zip(queries, rewritten, strict=True)
            ]
            return self._step.start(asked)(candidates)

        return finish

    def _messages(self, query: Query) -> list[Message]:
        parts = [text_part(f"{_ASK}\n\nQuestion: {query.question}")]
        if self._replies.sees and query.image.width:
            parts.insert(0, image_part(query.image))
        return [{"role": "user", "content": parts}]
