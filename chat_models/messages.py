"""Messages of the OpenAI chat API: their content parts, and the forms for templates that take fewer roles."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

Message = dict[str, Any]
"""A message of the OpenAI API: {"role": ..., "content": text or a list of content parts}."""


MAX_SIDE = 1024
"""Longest side of images in messages, in pixels."""


def data_uri(image: Image.Image, max_side: int, quality: int) -> str:
    """Encodes an image as a JPEG data URI, scaled down if a side exceeds `max_side` pixels."""
    size = sent_size(image.size, max_side)
    copy = image.convert("RGB")
    if size != image.size:
        copy = copy.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
    buffer = io.BytesIO()
    copy.save(buffer, "JPEG", quality=quality)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def sent_size(size: tuple[int, int], max_side: int = MAX_SIDE) -> tuple[int, int]:
    """Returns the size (width, height) in pixels at which an image of a size is sent.

    Example:
        >>> sent_size((4000, 3000)), sent_size((640, 480)), sent_size((9000, 3))
        ((1024, 768), (640, 480), (1024, 1))
    """
    scale = min(1.0, max_side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def image_part(image: Image.Image) -> Message:
    """Encodes an image as a content part, with no side longer than `MAX_SIDE` pixels."""
    return {"type": "image_url", "image_url": {"url": data_uri(image, MAX_SIDE, 90)}}


def text_part(text: str) -> Message:
    """Wraps a text as a content part."""
    return {"type": "text", "text": text}


def with_text(message: Message, text: str) -> Message:
    """Appends a text to a message."""
    content = message["content"]
    joined = f"{content}\n\n{text}" if isinstance(content, str) else [*content, text_part(text)]
    return {**message, "content": joined}


def with_images(message: Message, images: Sequence[Image.Image]) -> Message:
    """Appends images to a message."""
    if not images:
        return message
    content = message["content"]
    parts = [text_part(content)] if isinstance(content, str) else content
    return {**message, "content": [*parts, *map(image_part, images)]}


def without_system_role(messages: Sequence[Message]) -> list[Message]:
    """Moves the system messages into the first other message, for chat templates that reject a system role."""
    said = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    first, *others = [message for message in messages if message["role"] != "system"]
    content = first["content"]
    content = f"{said}\n\n{content}" if isinstance(content, str) else [text_part(said), *content]
    return [{**first, "content": content} if said else first, *others]


def plain_roles(messages: Sequence[Message]) -> list[Message]:
    r"""Returns a conversation in which only user and assistant speak, in turns, for templates that take nothing else.

    Results of tools become messages of the user, calls of tools become text, and neighbors of one role are joined.

    Example:
        >>> called = {"id": "1", "type": "function", "function": {"name": "ocr", "arguments": "{}"}}
        >>> for message in plain_roles([
        ...     {"role": "system", "content": "Be brief."},
        ...     {"role": "user", "content": "Read it."},
        ...     {"role": "assistant", "content": "", "tool_calls": [called]},
        ...     {"role": "tool", "tool_call_id": "1", "content": "EXIT"},
        ...     {"role": "user", "content": "Go on."},
        ... ]):
        ...     print(message)
        {'role': 'user', 'content': 'Be brief.\n\nRead it.'}
        {'role': 'assistant', 'content': '<tool_call>{"name": "ocr", "arguments": {}}</tool_call>'}
        {'role': 'user', 'content': 'EXIT\n\nGo on.'}
    """
    turns: list[Message] = []
    for message in without_system_role(messages):
        role, content = "assistant" if message["role"] == "assistant" else "user", message["content"]
        if called := [_call_text(call["function"]) for call in message.get("tool_calls") or ()]:
            content = "\n".join(filter(None, (content, *called)))
        if turns and turns[-1]["role"] == role:
            content = _joined(turns.pop()["content"], content)
        turns.append({"role": role, "content": content})
    return turns


def _call_text(function: Mapping[str, Any]) -> str:
    return f'<tool_call>{{"name": {json.dumps(function["name"])}, "arguments": {function["arguments"]}}}</tool_call>'


def _joined(first: str | list[Message], second: str | list[Message]) -> str | list[Message]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [part for one in (first, second) for part in ([text_part(one)] if isinstance(one, str) else one)]
