"""The generator behind an OpenAI-compatible server: the paper's prompts, answered by any chat model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from indexes.chat import ChatClient, Message
from retriever.texts import section_passage
from retriever.types import Evidence, Generation, GenerationRequest
from serving.prompts import Style, answer_messages


class OpenAIGenerator:
    """Asks a chat model for the answer, with the winning section as its context; a `Generator`.

    Args:
        client: The server and its model.
        style: Which of the paper's prompts.
        multimodal: True sends the picture as well.
        max_tokens: Longest answer in tokens.
        max_characters: Longest section text; what is beyond is cut at a word and reported as `truncated`. 12,000
            characters are about the 3,072 tokens of the reference.

    Raises:
        ValueError: If a limit is not positive.
    """

    def __init__(
        self,
        client: ChatClient,
        style: Style = "evqa",
        multimodal: bool = False,
        max_tokens: int = 128,
        max_characters: int = 12_000,
    ) -> None:
        if max_tokens < 1 or max_characters < 1:
            raise ValueError(f"max_tokens and max_characters must be positive, got {max_tokens} and {max_characters}")
        self._client, self._style, self._multimodal = client, style, multimodal
        self._max_tokens, self._max_characters = max_tokens, max_characters

    @property
    def name(self) -> str:
        """The model's name."""
        return self._client.model

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer for each request; an empty answer is an abstention.

        Raises:
            ChatError: If the server fails for one of them.
        """
        return list(await asyncio.gather(*(self._one(request) for request in requests)))

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str]:
        """Yields the answer piece by piece."""
        messages, _ = self._messages(request)
        async for piece in self._client.stream(messages, self._max_tokens):
            yield piece

    async def _one(self, request: GenerationRequest) -> Generation:
        messages, truncated = self._messages(request)
        answer = (await self._client.complete(messages, self._max_tokens)).strip()
        return Generation(answer or None, truncated=truncated)

    def _messages(self, request: GenerationRequest) -> tuple[list[Message], bool]:
        context, truncated = None, False
        if request.evidence is not None:
            context, truncated = _context(request.evidence, self._max_characters)
        image = request.image if self._multimodal else None
        return answer_messages(request.question, context, image, self._style), truncated


def _context(evidence: Evidence, limit: int) -> tuple[str, bool]:
    """Returns the section with its headings, its text cut to `limit` characters, and whether it was cut."""
    text = evidence.text
    truncated = len(text) > limit
    if truncated:
        whole = text[limit].isspace() or not text[:limit].strip().count(" ")
        text = text[:limit] if whole else text[:limit].rsplit(None, 1)[0]
    return section_passage(evidence.entity_title, evidence.section_title, text), truncated
