"""The assistant's turns: put together from the pieces of a stream, and sent back as they were received.

Servers put into a turn what they want to see again: thought signatures (Gemini), `reasoning_content` (Kimi, DeepSeek),
ids of calls in a form of their own (Mistral). So a turn is kept whole, with fields that nobody here knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from chat_models.messages import Message, text_part
from chat_models.replies import ChatReply

_WHOLE = re.compile(r"role|type|id|format|name|object|index|.*signature")
"""Fields whose text comes at once; others come in pieces."""
NOTHING = "(nothing)"
"""What stands for an empty turn, which many servers refuse."""


def merged(old: Any, new: Any, name: str = "") -> Any:
    """Returns a value of a turn with its next piece: texts are joined, objects and lists merged.

    Example:
        >>> merged({"type": "text", "text": "To"}, {"type": "text", "text": "kyo"})
        {'type': 'text', 'text': 'Tokyo'}
        >>> merged([{"index": 0, "data": "a"}], [{"index": 1, "data": "b"}])
        [{'index': 0, 'data': 'a'}, {'index': 1, 'data': 'b'}]
    """
    if old is None or new is None:
        return old if new is None else new
    if isinstance(old, str) and isinstance(new, str):
        return (new or old) if _WHOLE.fullmatch(name) else old + new
    if isinstance(old, dict) and isinstance(new, dict):
        if any(value and key.endswith("signature") and _repeats(old, new) for key, value in new.items()):
            return {**old, **new}
        return {**old, **{key: merged(old.get(key), value, key) for key, value in new.items()}}
    if name == "content" and isinstance(old, list) != isinstance(new, list):  # Mistral: thoughts in parts, then text
        old, new = ([text_part(value)] * bool(value) if isinstance(value, str) else value for value in (old, new))
    if isinstance(old, list) and isinstance(new, list):
        items = list(old)
        for item in new:
            places = range(len(items))
            at = next((at for at in places if _continues(items[at], item, last=at == places[-1])), len(items))
            items[at : at + 1] = [merged(items[at], item) if at in places else item]
        return items
    return new


def _repeats(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Returns whether a signed piece has the whole thought again, as LiteLLM sends it."""
    return any(old.get(name) and old[name] == new.get(name) for name in ("thinking", "text", "data"))


def _continues(known: Any, piece: Any, *, last: bool) -> bool:
    """Returns whether a piece continues an item of a list: it has its index or, without one, follows its type."""
    if not (isinstance(known, dict) and isinstance(piece, dict)) or known.get("type") != piece.get("type"):
        return False
    if "index" in known or "index" in piece:
        return known.get("index") == piece.get("index")
    return last and "type" in piece and known.get("id") in (None, piece.get("id"))


def turn_of(reply: ChatReply, number: int = 0) -> Message:
    """Returns the turn of a reply for the next request: the message as it was received.

    It differs only where no server could read it: a call has an id and, as its arguments, a JSON object; an empty
    turn says so.

    Args:
        reply: The reply.
        number: The number of the round, for ids of calls that have none.
    """
    turn = dict(reply.message or {"role": "assistant", "content": reply.text})
    calls = turn.get("tool_calls")
    if not calls and reply.calls:  # a reply in the older API, with a `function_call`
        turn.pop("function_call", None)
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
    if calls:
        turn["tool_calls"] = [_readable(call, f"call{number:02}{place:03}") for place, call in enumerate(calls)]
    elif not turn.get("content"):
        turn["content"] = NOTHING
    return turn


def _readable(call: Mapping[str, Any], id_: str) -> Mapping[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    try:
        valid = isinstance(json.loads(arguments) if isinstance(arguments, str) else arguments, dict)
    except (ValueError, RecursionError):
        valid = False
    if not valid:
        call = {**call, "function": {**function, "arguments": "{}"}}
    return call if call.get("id") else {**call, "id": id_}
