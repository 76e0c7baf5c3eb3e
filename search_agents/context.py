"""Estimates token counts and cuts conversations to a model's context."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence

from chat_models.context import estimated_tokens
from chat_models.messages import Message

IMAGE_TOKENS = 1000
"""Assumed number of tokens of an image."""
NO_IMAGE = "(an image, left out because the server takes fewer)"
LEFT_OUT = "(left out to save space)"


def tokens_of(messages: Sequence[Message]) -> int:
    """Estimates the number of tokens of messages."""
    return sum(_message_tokens(message) for message in messages)


def fitted(messages: Sequence[Message], max_tokens: int) -> list[Message]:
    """Shortens messages to at most `max_tokens` tokens.

    Whole turns go first, oldest first: a turn of the assistant with the results that follow it. Of the last turn, the
    results lose their content, the last one being cut: its text from the end, then its images from the end. The
    question is cut last; the system message and what the assistant said never.
    """
    fitting = list(messages)
    over = tokens_of(fitting) - max_tokens
    first = next((at for at, message in enumerate(fitting) if message["role"] != "system"), 0)
    starts = [at for at, message in enumerate(fitting) if at > first and message["role"] == "assistant"]
    end = next((at for at in starts[1:] if tokens_of(fitting[first + 1 : at]) >= over), starts[-1:][0] if starts else 0)
    if over > 0 and end > first + 1:
        over -= tokens_of(fitting[first + 1 : end])
        del fitting[first + 1 : end]
    for at in range(first + 1, len(fitting) - 1):
        if over > 0 and fitting[at]["role"] != "assistant":
            over -= _message_tokens(fitting[at])
            fitting[at] = {**fitting[at], "content": LEFT_OUT}
            over += _message_tokens(fitting[at])
    for at in dict.fromkeys((len(fitting) - 1, first)):
        if over > 0 and fitting[at]["role"] != "assistant":
            before = _message_tokens(fitting[at])
            fitting[at] = _cut(fitting[at], before - over)
            over -= before - _message_tokens(fitting[at])
    return fitting


def without_images(message: Message) -> Message:
    """Returns a message with only the text of its parts."""
    if not count_images([message]):
        return message
    return {**message, "content": "\n".join(part["text"] for part in message["content"] if part["type"] == "text")}


def count_images(messages: Sequence[Message]) -> int:
    """Counts the images of messages."""
    return sum(part["type"] == "image_url" for message in messages for part in _parts(message))


def newest_images(messages: Sequence[Message], most: int) -> list[Message]:
    """Returns messages with at most `most` images, at least 1: the first, which is the question's, and the newest."""
    spare = count_images(messages) - max(most, 1)
    kept, position = [], 0
    for message in messages:
        parts = []
        for part in _parts(message):
            if part["type"] != "image_url":
                parts.append(part)
                continue
            parts.append({"type": "text", "text": NO_IMAGE} if 1 <= position <= spare else part)
            position += 1
        kept.append({**message, "content": parts} if _parts(message) else message)
    return kept


def _parts(message: Message) -> list[Message]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _cut(message: Message, limit: int) -> Message:
    """Cuts a message to `limit` tokens: its longest text from the end, then images from the end, except the first."""
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    texts = [at for at, part in enumerate(parts) if part["type"] == "text"]
    if texts:
        longest = max(texts, key=lambda at: len(parts[at]["text"]))
        text = parts[longest]["text"]
        left = limit - sum(_part_tokens(part) for at, part in enumerate(parts) if at != longest)
        parts[longest] = {**parts[longest], "text": _beginning(text, left - text_tokens(LEFT_OUT)) + LEFT_OUT}
    images = [at for at, part in enumerate(parts) if part["type"] != "text"]
    while len(images) > 1 and sum(map(_part_tokens, parts)) > limit:
        del parts[images.pop()]
    return {**message, "content": parts[0]["text"] if isinstance(content, str) else parts}


def _beginning(text: str, tokens: int) -> str:
    """Returns the longest prefix of a text with at most `tokens` tokens."""
    length = bisect_right(range(1, len(text) + 1), tokens, key=lambda end: text_tokens(text[:end]))
    return text[:length]


def _message_tokens(message: Message) -> int:
    content = message.get("content") or ""
    others = {name: value for name, value in message.items() if name not in ("role", "content", "tool_call_id")}
    fields = text_tokens(json.dumps(others, ensure_ascii=False)) if others else 0
    return fields + (text_tokens(content) if isinstance(content, str) else sum(map(_part_tokens, content)))


def _part_tokens(part: Message) -> int:
    if part["type"] == "image_url":
        return IMAGE_TOKENS
    return text_tokens(part.get("text") or json.dumps(part, ensure_ascii=False))


def text_tokens(text: str) -> int:
    """Estimates the number of tokens of a text, at least 1."""
    return int(estimated_tokens(text)) + 1
