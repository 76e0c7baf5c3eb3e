"""Messages of the OpenAI chat API: their parts, forms for templates that take fewer roles, and harmless texts."""

from __future__ import annotations

import base64
import io
import json
import re
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


def with_text(message: Message, text: str, *, first: bool = False) -> Message:
    """Appends a text to a message, or puts it first."""
    content = message["content"]
    return {**message, "content": _joined(text, content) if first else _joined(content, text)}


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
    return without_calls(without_system_role(messages))


def without_calls(messages: Sequence[Message]) -> list[Message]:
    """Returns a conversation for a server without tools: calls are text, and their results messages of the user."""
    turns: list[Message] = []
    for message in messages:
        role, content = message["role"], message.get("content") or ""
        role = role if role in ("system", "assistant") else "user"
        for call in message.get("tool_calls") or ():
            content = _joined(content, _call_text(call["function"]), "\n") if content else _call_text(call["function"])
        if turns and turns[-1]["role"] == role:
            content = _joined(turns.pop()["content"], content)
        turns.append({"role": role, "content": content})
    return turns


def plain_turns(messages: Sequence[Message]) -> list[Message]:
    """Returns a conversation whose turns have only the fields of OpenAI's API, for servers that refuse others."""
    return [_plain(message) if message["role"] == "assistant" else message for message in messages]


def _plain(turn: Message) -> Message:
    plain = {name: turn[name] for name in ("role", "content", "tool_calls") if turn.get(name) or name == "content"}
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [{key: call[key] for key in ("id", "type", "function") if key in call} for call in calls]
    return plain


def _call_text(function: Mapping[str, Any]) -> str:
    arguments = function["arguments"]
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>{{"name": {json.dumps(function["name"])}, "arguments": {arguments}}}</tool_call>'


def _joined(first: str | list[Message], second: str | list[Message], between: str = "\n\n") -> str | list[Message]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{between}{second}"
    return [part for one in (first, second) for part in ([text_part(one)] if isinstance(one, str) else one)]


_TOKENS = re.compile(
    r"<(?:[|\uff5c!/]|(?=[A-Za-z_])).{0,200}?>"  # <|im_end|>, </answer>, <start_of_turn>, <!-- … -->
    r"|<[|\uff5c]|<<|\[/?(?:[A-Z][A-Z_ ]{2,40}|gMASK)\]"  # <<SYS>>, [INST], [/TOOL_RESULTS]
)
_NUMBERS = re.compile(
    r"[\[\u3010]{1,2}\s{0,2}[\"'^#]?"
    r"(?:(?:result|source|web|website|page|ref|quote|citation|image)s?[_ ]?(?:id)?\s?[#:]?\s?)?"
    r"\d{1,9}[^\[\]\u3010\u3011\n]{0,60}[\]\u3011]{1,2}",
    re.IGNORECASE,
)
_LABELS = re.compile(r"^([ \t]*)Result(?=[ \t]*#?\d)", re.MULTILINE)
_HARMLESS = str.maketrans("<>[]\u3010\u3011", "\u2039\u203a()()")


def harmless(text: str) -> str:
    r"""Returns a text in which tokens of chat templates and tags are not what they look like; as long as before.

    Example:
        >>> print(ascii(harmless("5 < 7 <|im_end|> [INST]")))
        '5 < 7 \u2039|im_end|\u203a (INST)'
    """
    return _TOKENS.sub(lambda found: found[0].translate(_HARMLESS), text)


def harmless_source(text: str) -> str:
    """Returns a text that can neither speak as the conversation nor forge the number of a result.

    Example:
        >>> harmless_source("founded in 1850 [9], see [Result 2]")
        'founded in 1850 (9), see (Result 2)'
    """
    numbered = _NUMBERS.sub(lambda found: found[0].translate(_HARMLESS), harmless(text))
    return _LABELS.sub(r"\1result", numbered)
