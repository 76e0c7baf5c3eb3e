"""What a chat server does not take, read from its refusals: parameters, roles, conversations that are too long."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from chat_models.errors import ROLES, is_too_long
from chat_models.messages import plain_roles, plain_turns

CHANGED: Mapping[str, str | None] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": None,
    "stream_options": None,
    "temperature": None,
    "stop": None,
    "reasoning_effort": None,
}
"""Fields of a request that servers refuse, and what is sent instead; `None` for nothing."""
OMITTED = (*CHANGED, "stream")
"""All fields that a request can do without."""
_NAMES: Mapping[str, str] = {
    "max_tokens": r"max[_ -]?tokens",
    "max_completion_tokens": r"max[_ -]?completion[_ -]?tokens",
    "stream_options": r"stream[_ -]?options|include[_ -]?usage",
    "reasoning_effort": r"reasoning[_ -]?effort|does not support (?:thinking|reasoning)",
}
"""How messages name fields, if not only as requests do."""
_NO_STREAMS = re.compile(
    r"(?:not|n't|cannot|unsupported|disabled|without)\b.*\bstream(?:ing|s|ed)?\b"
    r"|\bstream(?:ing|s|ed)?\b.*(?:\bnot\b|n't|cannot|unsupported|disabled|must be false)",
    re.IGNORECASE | re.DOTALL,
)
_NO_NULL = re.compile(r"\bcontent\b.*(?:string|\bnil\b|\bnull\b|\bnone\b)", re.IGNORECASE | re.DOTALL)
"""How servers refuse the null that stands for the text of a turn with calls alone."""
_UNKNOWN = re.compile(r"\b(?:un\w+ed|unknown|extra|additional|not (?:permitted|allowed)|forbidden)\b", re.IGNORECASE)
"""How servers say that they do not know a field of a turn, even if another server wants it back."""
_LOADING = re.compile(
    r"\b(?:load(?:s|ing)?|start(?:s|ing)|warm(?:s|ing)|initiali[sz]|download|not (?:yet )?ready)", re.I
)
"""How servers (llama.cpp, TGI, llama-swap) say that they load a model."""
_OTHER_REASON = re.compile(r"image|vision|tool|function|schema|format|content|message|token|length|model|role", re.I)
"""Words of refusals that are about something else than `stream_options`."""


def is_loading(message: str, status: int | None, wait: float | None) -> bool:
    """Returns whether a failure says that the server will be there: it loads its model, or names a time to wait."""
    return status == 503 and (wait is not None or _LOADING.search(message) is not None)


def refused_field(message: str, param: str, status: int | None, body: Mapping[str, Any], unproven: bool) -> str | None:
    """Returns the field of a request that a server refuses, if the request can do without it.

    Args:
        message: The server's message.
        param: The field that the error names in a field of its own, or "".
        status: The HTTP status.
        body: The request as it was sent.
        unproven: Whether the server has not taken `stream_options` before; it is then suspected if nothing is named.
    """
    if status in (400, 422):
        left = [name for name in CHANGED if name in body]
        if param in left:
            return param
        if not is_too_long(message, status):
            for name in left:
                if re.search(rf"\b(?:{_NAMES.get(name, name)})\b", message, re.IGNORECASE):
                    return name
        if unproven and "stream_options" in left and not _OTHER_REASON.search(message):
            return "stream_options"
        turns = [turn for turn in body["messages"] if turn["role"] == "assistant"]
        if any(turn.get("content", "") is None for turn in turns) and _NO_NULL.search(message):
            return "content"
        fields = {name for turn in turns for part in (turn, *(turn.get("tool_calls") or ())) for name in part}
        unknown = "|".join(map(re.escape, sorted(fields - {"role", "content", "tool_calls", "id", "type", "function"})))
        if unknown and re.search(rf"\b(?:{unknown})\b", message) and _UNKNOWN.search(message):
            return "turns"
    if status in (400, 422, 500, 501) and ROLES.search(message) and plain_roles(body["messages"]) != body["messages"]:
        return "messages"
    if status in (400, 422, 500, 501) and body["stream"] and _NO_STREAMS.search(message):
        return "stream"
    return None


def without_fields(body: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Returns a request without the fields that the server refuses, with what is sent in their place."""
    left = dict(body)
    for name, instead in CHANGED.items():
        if name in names and name in left:
            value = left.pop(name)
            left |= {instead: value} if instead else {}
    if "stream" in names:
        left.pop("stream_options", None)
        left["stream"] = False
    if "content" in names:
        left["messages"] = [
            {**one, "content": ""} if one.get("content", "") is None else one for one in left["messages"]
        ]
    if "turns" in names:
        left["messages"] = plain_turns(left["messages"])
    if "messages" in names:
        left["messages"] = plain_roles(left["messages"])
    return left
