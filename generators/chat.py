"""A generator that prompts any chat model on an OpenAI-compatible server with the paper's prompts."""

from __future__ import annotations

import asyncio
import base64
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import unquote

from chat_models.chat import ChatClient
from chat_models.context import Cut, cut_characters, estimated_tokens
from chat_models.errors import ChatError
from chat_models.layers import LayerFilter, bare
from chat_models.messages import Message, harmless, text_part
from chat_models.prompts import Style, answer_messages
from chat_models.replies import ChatReply, shortened
from generators.stop import before_stop
from generators.things import passages_of, things_of
from retriever.texts import section_passage
from retriever.types import ArticleImage, Generation, GenerationRequest

logger = logging.getLogger(__name__)

_LEAST_SECTION = 32
"""Tokens of a section that is not cut any more when a server refuses the prompt."""
_LEAST_UNNAMED = 512
"""The same if the server does not say that the prompt is too long."""


class ChatGenerator:
    """A `Generator` that asks a chat model, with the evidence as its context.

    Args:
        client: The client of the model.
        style: The data set whose prompt in the paper is used.
        multimodal: Whether to send the image too.
        max_tokens: Maximum length of the answer, in tokens. A request may set a lower one.
        max_context_tokens: Maximum length of the section text, in tokens; a longer one is cut and reported as
            `truncated`. Headings and question are never cut.
        cut: Cuts by the model's own tokens (`chat_models.context.token_cut`) or by characters.
        images: Most images of the section that are named, by their captions, and sent if it is `multimodal`.

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
        images: int = 0,
    ) -> None:
        if max_tokens < 1 or max_context_tokens < 1:
            raise ValueError(
                f"max_tokens and max_context_tokens must be at least 1, got {max_tokens} and {max_context_tokens}"
            )
        self._client, self._style, self._multimodal = client, style, multimodal
        self._max_tokens, self._max_context_tokens, self._cut = max_tokens, max_context_tokens, cut
        self._images = images

    @property
    def name(self) -> str:
        """The model's name."""
        return self._client.model

    @property
    def concurrency(self) -> int:
        """How many requests its client sends at the same time."""
        return self._client.concurrency

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request.

        An empty answer is an abstention, unless a stop string or the request's own maximum length may have ended it.
        Thoughts are no part of an answer.

        Raises:
            ChatError: The server failed for one of them.
        """
        return list(await asyncio.gather(*(self._one(request) for request in requests)))

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, then the whole `Generation`.

        Raises:
            ChatError: The server failed.
        """
        async with aclosing(self._pieces(request, self._client.stream)) as pieces:
            async for piece in pieces:
                yield piece

    async def _one(self, request: GenerationRequest) -> Generation:
        *_, whole = [piece async for piece in self._pieces(request, self._converse)]
        assert isinstance(whole, Generation)
        return whole

    async def _converse(self, messages: list[Message], limit: int, **fields: Any) -> AsyncIterator[ChatReply]:
        yield await self._client.converse(messages, limit, **fields)

    async def _pieces(
        self, request: GenerationRequest, send: Callable[..., AsyncIterator[str | ChatReply]]
    ) -> AsyncGenerator[str | Generation]:
        """Yields the answer as `send` does, with fewer images and a shorter section if the server refuses all of it.

        Not every server says that a prompt is too long, or has too many images: if it takes a shorter one, it was.
        """
        limit, images, first = self._max_context_tokens, self._images, None
        while True:
            messages, truncated = await asyncio.to_thread(self._messages, request, limit, images)
            layers = LayerFilter()
            try:
                async for piece in send(messages, self._limit(request), **_stopping(request)):
                    whole = self._generation(piece, request, truncated) if isinstance(piece, ChatReply) else None
                    said = "" if whole is None else whole.answer or ""
                    if ready := layers.feed(piece) if isinstance(piece, str) else layers.close(said):
                        yield ready
                    if whole is not None:
                        yield whole
            except ChatError as error:
                first = first or error
                if error.refused and self._multimodal and (sent := _copies(request, images)):
                    images = max(sent) // 2
                    continue
                size = 0 if request.evidence is None else min(limit, math.ceil(estimated_tokens(request.evidence.text)))
                if not error.refused or size < _LEAST_SECTION or (size < _LEAST_UNNAMED and not error.too_long):
                    raise first from None
                limit = size // 2
            else:
                if first is not None and images < self._images and "image" in first.message.lower():
                    logger.warning("%s takes no more than %d images of a section (generator.images)", self.name, images)
                    self._images = images
                elif first is not None and first.too_long and limit < self._max_context_tokens:
                    logger.warning(
                        "%s takes no more than %d tokens of a section (max_context_tokens)", self.name, limit
                    )
                    self._max_context_tokens = limit
                return

    def _limit(self, request: GenerationRequest) -> int:
        return min(self._max_tokens, request.max_tokens or self._max_tokens)

    def _messages(self, request: GenerationRequest, limit: int, images: int) -> tuple[list[Message], bool]:
        """Returns the prompt and whether its section was cut. Too slow for the event loop (tokenizer, JPEG)."""
        return request_messages(request, self._style, self._multimodal, limit, self._cut, images)

    def _generation(self, reply: ChatReply, request: GenerationRequest, truncated: bool) -> Generation:
        before = before_stop(reply.text, request.stop)
        text = bare(before)  # a stop string may be white space
        ending = reply.ending if before == reply.text else "complete"
        ended = request.stop or (request.max_tokens and reply.cut)
        none = ending in ("refused", "filtered") or not (text or ended)
        answer = None if none else text
        return Generation(
            answer,
            truncated=truncated,
            limitation=self._why_none(reply) if answer is None else None,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            ending=ending,
            thoughts=reply.thoughts,
            passages=() if answer is None else passages_of(request),
        )

    def _why_none(self, reply: ChatReply) -> str | None:
        """Returns why a reply without text has none, as the end of a sentence."""
        if reply.ending == "refused":
            return f"{self.name} refused: {shortened(reply.refusal)}"
        if reply.ending == "filtered":  # also what came before: the rest might have reversed it
            return "the server's content filter withheld it"
        if reply.cut and reply.thoughts:
            return (
                f"{self.name} spent all of its {self._max_tokens} tokens on reasoning: set reasoning_effort=none, "
                "raise max_tokens, or use a model without reasoning"
            )
        if reply.calls:
            return f"{self.name} called the tool {reply.calls[0].name!r} instead of answering"
        return None


def _stopping(request: GenerationRequest) -> dict[str, Any]:
    return {"stop": list(request.stop)} if request.stop else {}


def request_messages(
    request: GenerationRequest, style: Style, multimodal: bool, max_context_tokens: int, cut: Cut, images: int = 0
) -> tuple[list[Message], bool]:
    """Returns the messages that request an answer, for serving and for training, and whether the section was cut.

    Args:
        request: The question, images and evidence.
        style: The data set whose prompt in the paper is used.
        multimodal: Whether to send the images too.
        max_context_tokens: Maximum length of the section text, in tokens; of several sections together.
        cut: Cuts the section.
        images: Most images of the section that are named, and sent to a multimodal model.
    """
    passages, truncated, things = list[str](), False, things_of(request)
    for number, thing in things.items():
        if (evidence := thing.evidence) is not None:
            text, was_cut = cut(evidence.text, max_context_tokens // len(things))
            shown = evidence.images[:images] if evidence == request.evidence else ()
            named = [f"Picture {place}: {_name(one)}" for place, one in enumerate(shown, 1)]
            passage = section_passage(evidence.entity_title, evidence.section_title, text)
            passage = harmless("\n".join([passage, *(["## Pictures of this section", *named] if named else [])]))
            passages.append(f"Image {number}:\n{passage}" if len(things) > 1 else passage)
            truncated = truncated or was_cut
    asked = [request.image, *request.more] if multimodal and request.image is not None else []
    messages = answer_messages(request.question, "\n\n".join(passages) or None, asked, style)
    if multimodal and (copies := _copies(request, images)):
        uris = {n: f"data:image/jpeg;base64,{base64.b64encode(copy).decode()}" for n, copy in copies.items()}
        parts = ((text_part(f"Picture {n}:"), {"type": "image_url", "image_url": {"url": u}}) for n, u in uris.items())
        content = messages[-1]["content"]
        *given, prompt = [text_part(content)] if isinstance(content, str) else content
        messages[-1] = {**messages[-1], "content": [*given, *(part for pair in parts for part in pair), prompt]}
    return messages, truncated


def _copies(request: GenerationRequest, most: int) -> dict[int, bytes]:
    """Returns copies of the first images of the section by their numbers; those that the index lacks are left out."""
    urls = [one.url for one in request.evidence.images[:most]] if request.evidence is not None else []
    return {number: request.thumbnails[url] for number, url in enumerate(urls, 1) if url in request.thumbnails}


def _name(image: ArticleImage) -> str:
    """Returns the caption of an image, or else its file's name."""
    return " ".join(image.caption.split()) or unquote(image.url).rpartition("/")[2][:100]
