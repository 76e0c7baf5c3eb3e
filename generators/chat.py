"""A generator that prompts any chat model on an OpenAI-compatible server with the paper's prompts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from generators.stop import before_stop
from llm.chat import ChatClient, OnlyReasonedError
from llm.context import Cut, cut_characters
from llm.messages import Message
from llm.prompts import Style, answer_messages
from llm.replies import Usage
from retriever.texts import section_passage
from retriever.types import Generation, GenerationRequest


class ChatGenerator:
    """A `Generator` that asks a chat model, with the evidence as its context.

    Args:
        client: The client of the model.
        style: The data set whose prompt in the paper is used.
        multimodal: Whether to send the image too.
        max_tokens: Maximum length of the answer, in tokens. A request may set a lower one.
        max_context_tokens: Maximum length of the section text, in tokens; a longer one is cut and reported as
            `truncated`. Headings and question are never cut.
        cut: Cuts by the model's own tokens (`llm.context.token_cut`) or by characters.

    Raises:
        ValueError: A limit is not positive.
    """

    def __init__(
        self,
        client: ChatClient,
        style: Style = "evqa",
        multimodal: bool = False,
        max_tokens: int = 128,
        max_context_tokens: int = 3072,
        cut: Cut = cut_characters,
    ) -> None:
        if max_tokens < 1 or max_context_tokens < 1:
            raise ValueError(
                f"max_tokens and max_context_tokens must be at least 1, got {max_tokens} and {max_context_tokens}"
            )
        self._client, self._style, self._multimodal = client, style, multimodal
        self._max_tokens, self._max_context_tokens, self._cut = max_tokens, max_context_tokens, cut

    @property
    def name(self) -> str:
        """The model's name."""
        return self._client.model

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request.

        An empty answer is an abstention, unless a stop string or the request's own maximum length may have ended it.

        Raises:
            ChatError: The server failed for one of them.
        """
        return list(await asyncio.gather(*(self._one(request) for request in requests)))

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, then the whole `Generation`.

        Raises:
            ChatError: The server failed.
        """
        messages, truncated = await asyncio.to_thread(self._messages, request)
        answer, usage, limit = "", Usage(), self._limit(request)
        try:
            async for piece in self._client.stream(messages, limit, usage=usage, stop=request.stop):
                answer += piece
                yield piece
        except OnlyReasonedError:
            if limit == self._max_tokens:
                raise
        yield _generation(answer, request, truncated, usage)

    async def _one(self, request: GenerationRequest) -> Generation:
        messages, truncated = await asyncio.to_thread(self._messages, request)
        answer, usage, limit = "", Usage(), self._limit(request)
        try:
            answer = await self._client.complete(messages, limit, usage=usage, stop=request.stop)
        except OnlyReasonedError:
            if limit == self._max_tokens:
                raise
        return _generation(answer, request, truncated, usage)

    def _limit(self, request: GenerationRequest) -> int:
        return min(self._max_tokens, request.max_tokens or self._max_tokens)

    def _messages(self, request: GenerationRequest) -> tuple[list[Message], bool]:
        """Returns the prompt and whether its section was cut. Too slow for the event loop (tokenizer, JPEG)."""
        return request_messages(request, self._style, self._multimodal, self._max_context_tokens, self._cut)


def _generation(answer: str, request: GenerationRequest, truncated: bool, usage: Usage) -> Generation:
    before = before_stop(answer, request.stop)
    text = before.strip()  # a stop string may be white space
    ended = request.stop or (request.max_tokens and usage.cut)
    return Generation(
        text if text or ended else None,
        truncated=truncated,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cut=usage.cut and before == answer,
    )


def request_messages(
    request: GenerationRequest, style: Style, multimodal: bool, max_context_tokens: int, cut: Cut
) -> tuple[list[Message], bool]:
    """Returns the messages that request an answer, for serving and for training, and whether the section was cut.

    Args:
        request: The question, image and evidence.
        style: The data set whose prompt in the paper is used.
        multimodal: Whether to send the image too.
        max_context_tokens: Maximum length of the section text, in tokens.
        cut: Cuts the section.
    """
    context, truncated = None, False
    if (evidence := request.evidence) is not None:
        text, truncated = cut(evidence.text, max_context_tokens)
        context = section_passage(evidence.entity_title, evidence.section_title, text)
    image = request.image if multimodal else None
    return answer_messages(request.question, context, image, style), truncated
