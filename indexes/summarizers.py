"""Summaries of articles for step 1: extracted from the article, or written by a chat model with the paper's prompt."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Protocol

from llm.chat import ChatClient
from llm.context import Cut, cut_characters
from llm.messages import Message
from retriever.lexical import words
from retriever.types import Entity

logger = logging.getLogger(__name__)


class Summarizer(Protocol):
    """Writes the short texts that step 1 searches."""

    @property
    def name(self) -> str:
        """The summarizer with all that changes its output: two summarizers of the same name write the same."""

    def summarize(self, entities: Sequence[Entity]) -> list[str]:
        """Returns one summary per entity."""

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields the same summaries one by one, in order; it takes entities only as it needs them."""


def _stems(*lines: str) -> frozenset[str]:
    return frozenset(stem for line in lines for stem in words(line))


LOOKS = _stems(  # words that say how something looks
    "red blue green yellow white black orange purple pink brown gray grey gold golden silver maroon crimson turquoise",
    "violet scarlet azure beige bronze cream ivory navy teal dark light bright pale colored color colour colorful",
    "stripe striped band horizontal vertical diagonal cross star crescent disk disc circle triangle square rectangle",
    "canton emblem shield sun moon eagle lion tree leaf wreath centered center corner edged outlined bordered pattern",
    "spotted speckled mottled checkered five-pointed round oval elongated pear-shaped shaped shape conical cylindrical",
    "flat curved pointed thin thick wide narrow tall long short small large smooth rough wrinkled velvety shiny glossy",
    "hairy ribbed peel skin shell flesh pulp stalk seed crown petal flower bark trunk plumage feather beak bill wing",
    "tail fur eye dome tower spire facade column arch roof window brick stone marble granite wooden glass steel",
    "bottle carton package label can jar box",
)
_UNSEEN = _stems(  # words of sentences that explain or tell rather than describe
    "stand symbolize represent meaning mean history adopted legend commemorate recall signify signifies symbolizing",
    "taste tasting flavor recipe percent population",
)
_LOOK_TITLE = re.compile(r"\b(?:flag|description|appearance|look|looks|morphology|plumage|architecture|design)\b", re.I)
_LOOK_LABEL = re.compile(
    r"^(?:(?P<topic>[A-Z][\w ()-]{1,30}):\s+)?(?:description|appearance):\s+|^(?:Flag|Appearance):\s+", re.I
)
_AFTERWARDS = re.compile(r"[;,.]?\s*\b(?:meaning|history|notes?|etymology|symbolism|significance)\s*(?::| - )", re.I)
_LABELED = re.compile(r"^[^.:;]{1,50}:[\s;]")
_SENTENCE = re.compile(r"(?<=[^\W\d_]{2})[.!?](?=\s+[A-Z\"“])|(?<=[)\"”\d])[.!?](?=\s+[A-Z])|\n")
_CLAUSE = re.compile(r";|,\s+(?:and|but|which|where|who|while)\b|\s-\s")
_FEW = 6
"""Words of a described look below which the article's other sentences help."""
_SHORT = 24
"""Words below which a summary without a described look is extended."""


class ExtractiveSummarizer:
    """Extracts what an article says about looks first, cut to the words that a small text encoder reads.

    A summary is the title, followed by what is labeled as a description ("Flag: description: ..." or a section named
    "Appearance"). If that is little, it adds the first clause of the lead and the sentences richest in words of color,
    shape and material. A summary that is still short is extended by the article's first sentences.

    Args:
        max_words: Longest summary.

    Raises:
        ValueError: If `max_words` is less than 1.
    """

    def __init__(self, max_words: int = 64) -> None:
        if max_words < 1:
            raise ValueError(f"max_words must be at least 1, got {max_words}")
        self.max_words = max_words
        self.name = f"extractive-{max_words}"

    def summarize(self, entities: Sequence[Entity]) -> list[str]:
        """Returns one summary per entity."""
        return list(self.stream(entities))

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields one summary per entity."""
        for entity in entities:
            yield self._summary(entity)

    def _summary(self, entity: Entity) -> str:
        described = list(_described(entity))
        parts = list(described)
        if len(" ".join(described).split()) < _FEW:
            parts += list(_lead(entity))
            ranked = sorted(_sentences(entity), key=_looks, reverse=True)
            parts += [sentence for sentence in ranked if _looks(sentence) > 0]
            for sentence in _sentences(entity):
                if len(" ".join(parts).split()) >= _SHORT:
                    break
                parts.append(sentence)
        text = " ".join(f"{part}." for part in _once([entity.title, *parts]))
        cut = text.split()[: self.max_words]
        return " ".join(cut).rstrip(",;:- ")


def _once(parts: Sequence[str]) -> list[str]:
    """Returns the parts without repetition; a sentence replaces its own first clause."""
    title, kept = parts[0].strip(" .;,"), list[str]()
    for part in (part.strip(" .;,") for part in parts[1:]):
        begun = next((i for i, earlier in enumerate(kept) if part.startswith(earlier)), None)
        if begun is not None:
            kept[begun] = part
        elif part:
            kept.append(part)
    return [title, *kept]


def _described(entity: Entity) -> Iterator[str]:
    """Yields texts that are labeled as a description of looks, in the article's order."""
    for section in entity.sections:
        for line in section.text.splitlines():
            if label := _LOOK_LABEL.match(line):
                yield _AFTERWARDS.split(line[label.end() :])[0]
    for section in entity.sections:
        if _LOOK_TITLE.search(section.title) and section.title != entity.title:
            for sentence in _SENTENCE.split(section.text):
                if sentence.strip() and not _LABELED.match(sentence) and _looks(sentence) > 0:
                    yield sentence


def _lead(entity: Entity) -> Iterator[str]:
    """Yields the first clause of the article that says more than its title, after the kind in "Anjou (Pear)"."""
    for sentence in _sentences(entity):
        yield _CLAUSE.split(sentence)[0]
        if len(sentence.split()) > 3:
            return


def _sentences(entity: Entity) -> Iterator[str]:
    """Yields the sentences of prose, without labeled lines."""
    title = set(words(entity.title))
    for section in entity.sections:
        for sentence in _SENTENCE.split(section.text):
            sentence = sentence.strip(" \ufeff.;")
            if named := re.fullmatch(rf"{re.escape(entity.title)}\s*\((.+)\)", sentence):
                sentence = named[1]  # "Anjou (Pear)"
            if not _LABELED.match(sentence) and not set(words(sentence)) <= title:
                yield sentence


def _looks(sentence: str) -> float:
    """Scores how much a sentence describes: words of looks count for it; words that explain, and length, against it."""
    found = words(sentence)
    seen = len({word for word in found if word in LOOKS})
    unseen = sum(word in _UNSEEN for word in found)
    return seen - 1.5 - 1.5 * unseen - 0.05 * len(found)


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
"""Articles in the making, as a multiple of the requests in flight: finished ones wait here for an earlier, slower one.

The more there are, the fewer requests a slow answer holds up, and the more a killed build loses.
"""


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


class ChatSummarizer:
    """Has a chat model write the summaries, of as many articles at once as the client's concurrency allows.

    Args:
        client: The server and its model; used from one thread, outside of any running event loop.
        max_tokens: Most tokens of a summary.
        max_context_tokens: Most tokens of an article; the rest is cut off.
        cut: Counts and cuts by the model's own tokenizer (`llm.context.token_cut`), or by characters.
    """

    def __init__(
        self,
        client: ChatClient,
        max_tokens: int = 256,
        max_context_tokens: int = 6144,
        cut: Cut = cut_characters,
    ) -> None:
        self._client, self._max_tokens = client, max_tokens
        self._max_context_tokens, self._cut = max_context_tokens, cut
        self._runner = asyncio.Runner()  # connections outlive one call, so their loop must as well

    @property
    def name(self) -> str:
        """The model's name."""
        return self._client.model

    def summarize(self, entities: Sequence[Entity]) -> list[str]:
        """Returns one summary for each entity; its title if the model returns nothing.

        Raises:
            ChatError: If the server fails for one of them.
        """
        return list(self.stream(entities))

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields one summary for each entity, in order; its title if the model returns nothing.

        The model is asked for later ones meanwhile: as many requests as the client's concurrency allows are in flight,
        unless three times as many finished ones wait for an earlier one that takes longer. Closing the generator
        cancels the rest.

        Raises:
            ChatError: If the server fails for one of them; the summaries of those before it were yielded.
        """
        window: deque[asyncio.Task[str]] = deque()
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
        """Closes the client's connections."""
        self._runner.run(self._client.aclose())
        self._runner.close()

    def messages(self, entity: Entity) -> list[Message]:
        """Returns the messages about an article, cut to the model's context."""
        article, was_cut = self._cut(article_text(entity), self._max_context_tokens)
        if was_cut:
            logger.info("%s: summarized from its first %d characters", entity.id, len(article))
        return summary_messages(article)

    async def _one(self, entity: Entity) -> str:
        summary = " ".join((await self._client.complete(self.messages(entity), self._max_tokens)).split())
        if not summary:
            logger.warning("%s: the model wrote no summary; its title is used instead", entity.id)
        return summary or entity.title


async def _result(task: asyncio.Task[str]) -> str:
    return await task


async def _cancel(tasks: Sequence[asyncio.Task[str]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)  # what failed beside the first failure is not reported
