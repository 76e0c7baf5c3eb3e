"""Summaries written by a chat model with the paper's prompt."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chat_models.context import CHARACTERS_PER_TOKEN, Cut, cut_characters
from chat_models.messages import Message
from chat_models.replies import shortened
from chat_models.thoughts import part
from indexes.builder.summary_cache import SummaryCache, question_hash
from retriever.types import Entity
from retriever.wording import counted

if TYPE_CHECKING:
    from chat_models.chat import ChatClient  # needs httpx, which builds without a chat model do without
    from chat_models.replies import ChatReply

logger = logging.getLogger(__name__)

SYSTEM_PROMPT = """You are a Wiki Summary Generator Assistant. Following is some information about you:
## Profile
- name: Wiki Summary Generator Assistant
- language: English
- description: The Wiki Summary Generator Assistant is designed to create concise and informative summaries based on \
provided Wikipedia content. It extracts key aspects of the entity mentioned in the Wiki article, covering various \
dimensions such as history, characteristics, significance, appearance and impact.
## Workflows
1. Input the provided Wikipedia content into the system.
2. Identify the main sections and key information related to the entity.
3. Synthesize this information into a well-structured summary.
4. Review and refine the summary for clarity, coherence, and completeness before finalizing.
## Rules
1. Focus on summarizing key details across multiple aspects (e.g., appearance, features, impact) of the entity.
2. Ensure the summary is concise, clear, and free of irrelevant details.
3. Retain the original meaning and context of the Wiki content while rephrasing it into a summary."""
"""Table 15 of the paper."""


WINDOW = 4
"""Articles being summarized at once, as a multiple of the concurrent requests: finished ones wait for slower ones.

With a larger window, a slow answer holds up fewer requests, but a killed build loses more.
"""

_TOO_MANY = 20
"""Articles without a summary after which a build stops if they are most of those asked for."""


def article_text(entity: Entity) -> str:
    """Returns an article as the prompt shows it: the title, then the sections under their headings."""
    return "\n\n".join([f"# {entity.title}", *(f"## {section.title}\n{section.text}" for section in entity.sections)])


def summary_messages(article: str) -> list[Message]:
    """Returns the messages that ask for a summary of an article (Table 15)."""
    user = (
        f"Following is the input Wikipedia content:\n\n{article}\n\nBased on the above Wikipedia content, I would like "
        "you to generate a summary of the Wikipedia content.\nHere is the summary of the Wikipedia content:"
    )
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": user}]


@dataclass
class SummaryCounts:
    """The cost of summaries.

    Attributes:
        requests: Requests that were answered.
        cached: Summaries found in the cache.
        tokens_in: Tokens of the requests, as counted by the server, or else estimated at four characters per token.
        tokens_out: Tokens of the answers, counted in the same way.
        cut: Summaries that were cut at their maximum length.
        unanswered: Articles with their title in place of a summary: the model refused, was cut while it was still
            thinking, or said nothing.
    """

    requests: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0
    unanswered: int = 0

    def __str__(self) -> str:
        """Returns a one-line summary."""
        return (
            f"{counted(self.requests, 'request')}, {self.tokens_in:,} tokens in and {self.tokens_out:,} out; "
            f"{self.cached:,} were in the cache"
            + (f"; {self.cut:,} were cut at their maximum length" if self.cut else "")
            + (f"; {self.unanswered:,} have the title instead" if self.unanswered else "")
        )


class ChatSummarizer:
    """Writes summaries with a chat model, as many at once as the client's concurrency allows.

    Args:
        client: The server and its model; used by one thread at a time, outside of any running event loop.
        max_tokens: Most tokens in a summary.
        max_context_tokens: Most tokens of an article; the rest is cut off.
        cut: Counts and cuts with the model's own tokenizer (`chat_models.context.token_cut`), or by characters.
        cache: Stores the summaries; also contains those of earlier builds.

    Attributes:
        counts: The cost of this object's summaries.
    """

    def __init__(
        self,
        client: ChatClient,
        max_tokens: int = 256,
        max_context_tokens: int = 6144,
        cut: Cut = cut_characters,
        cache: SummaryCache | None = None,
    ) -> None:
        self._client, self._max_tokens = client, max_tokens
        self._max_context_tokens, self._cut = max_context_tokens, cut
        self.cache, self.counts = cache, SummaryCounts()
        self._runner = asyncio.Runner()  # connections outlive a call, so their event loop must, too

    @property
    def name(self) -> str:
        """The model's name."""
        return self._client.model

    @property
    def settings(self) -> str:
        """What else decides the summaries, in words."""
        effort = self._client.reasoning_effort
        limits = f"at most {self._max_tokens} tokens from {self._max_context_tokens}"
        return f"{limits}, reasoning effort {effort}" if effort else limits

    def served(self) -> str:
        """Returns a hash of what the server says of its model; empty if it says nothing or cannot be reached."""
        from chat_models.errors import ChatError

        try:
            return "" if self._served is None else question_hash(self._served).hex()
        except ChatError as error:
            logger.warning("%s; whether it still serves the same model is not compared", error)
            return ""

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields one summary per entity, in order; its title if the model returns nothing.

        Later summaries are requested in the meantime: as many requests as the client's concurrency allows are in
        flight, unless three times as many finished summaries are waiting for an earlier one. Closing the generator
        cancels the rest.

        Raises:
            ChatError: The server fails for one of them; the summaries before it have been yielded.
            ValueError: Most articles get no summary.
        """
        window: deque[asyncio.Task[str]] = deque()
        if self.cache is not None:
            _ = self._served  # before the event loop runs
        try:
            for entity in entities:
                window.append(self._runner.get_loop().create_task(self._one(entity)))
                if len(window) == WINDOW * self._client.concurrency:
                    yield self._runner.run(_result(window.popleft()))
            while window:
                yield self._runner.run(_result(window.popleft()))
        finally:
            self._runner.run(_cancel(window))

    def close(self) -> None:
        """Closes the client's connections and the cache."""
        if self.cache is not None:
            self.cache.close()
        self._runner.run(self._client.aclose())
        self._runner.close()

    def messages(self, entity: Entity) -> list[Message]:
        """Returns the messages that ask for a summary, with the article cut to the model's context."""
        article, was_cut = self._cut(article_text(entity), self._max_context_tokens)
        if was_cut:
            logger.info("%s: summarized from its first %d characters", entity.id, len(article))
        return summary_messages(article)

    def cached(self, entity: Entity) -> str | None:
        """Returns the cached summary of an article, or `None`."""
        return None if self.cache is None else self._kept(self._question(self.messages(entity)))

    def _question(self, messages: Sequence[Message]) -> bytes:
        asked = (self._client.model, self._client.reasoning_effort, self._max_tokens, messages)
        return question_hash(*asked) if self._served is None else question_hash(*asked, self._served)

    @cached_property
    def _served(self) -> object:
        """What the server says of the model: another one behind the same name has other summaries.

        Raises:
            ChatError: The server cannot be reached.
        """
        listed = self._runner.run(self._client.reported()) or []
        named = [model for model in listed if model.get("id") == self._client.model]
        return (named or listed) or None

    async def _one(self, entity: Entity) -> str:
        messages = self.messages(entity)
        question = b"" if self.cache is None else self._question(messages)
        if (kept := self._kept(question)) is not None:
            self.counts.cached += 1
            return kept
        reply = await self._client.converse(messages, self._max_tokens)
        self._count(messages, reply)
        summary = " ".join(reply.text.split())
        if not summary:
            self._unanswered(entity, reply)
            return entity.title
        if self.cache is not None:
            self.cache.put(question, self._client.model, summary)
        return summary

    def _kept(self, question: bytes) -> str | None:
        """Returns a summary from the cache, unless an older version kept one with thoughts."""
        kept = None if self.cache is None else self.cache.get(question)
        return None if kept is None or part(kept).thoughts else kept

    def _unanswered(self, entity: Entity, reply: ChatReply) -> None:
        """Counts and logs an article without a summary.

        Raises:
            ValueError: Most articles have none.
        """
        counts = self.counts
        counts.unanswered += 1
        why = "the model returned an empty summary"
        if reply.ending in ("refused", "filtered"):
            why = f"the summary was {reply.ending} {shortened(reply.refusal)}".rstrip()
        elif reply.cut:
            limit = f"spent all of its {self._max_tokens} tokens (summarizer.max_tokens) on reasoning"
            why = f"the model {limit}; set summarizer.reasoning_effort=none or raise the limit"
        logger.warning("%s: %s; using the title instead", entity.id, why)
        if counts.unanswered >= _TOO_MANY and 2 * counts.unanswered > counts.requests:
            raise ValueError(f"{counts.unanswered} of {counts.requests} articles have no summary; the last: {why}")

    def _count(self, messages: Sequence[Message], reply: ChatReply) -> None:
        counts, asked = self.counts, sum(len(message["content"]) for message in messages)
        counts.requests += 1
        counts.cut += reply.cut
        counts.tokens_in += asked // CHARACTERS_PER_TOKEN if reply.prompt_tokens is None else reply.prompt_tokens
        written = len(reply.text + reply.thoughts) // CHARACTERS_PER_TOKEN
        counts.tokens_out += written if reply.completion_tokens is None else reply.completion_tokens


async def _result(task: asyncio.Task[str]) -> str:
    return await task


async def _cancel(tasks: Sequence[asyncio.Task[str]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)  # only the first failure is reported
