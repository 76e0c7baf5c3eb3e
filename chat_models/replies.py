"""Replies of chat servers: the text, tool calls and usage of a completion, and the message of an error."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from chat_models.secrets import hidden
from chat_models.thoughts import TAGS, Parted, part

Ending = Literal["complete", "cut", "refused", "filtered"]
"""How a reply ended: as the model meant it to, at its maximum length, in a refusal, or at the content filter."""
_REASONS: tuple[tuple[Ending | Literal["broken"], re.Pattern[str]], ...] = (
    ("filtered", re.compile(r"filter|safety|sensitive|recitation|block|prohibit|spii|guardrail|toxic|moderat|violat")),
    ("refused", re.compile(r"refus")),
    ("cut", re.compile(r"length|max_|context|(?<!rate_)limit")),
    (
        "broken",
        re.compile(
            r"error|abort|cancel|fail|time_?d?_?out|interrupt|preempt|malformed|overload|incomplete|insufficient"
            r"|unavailable|unexpected|disconnect|rate_limit|^(?:other|unknown|language|pause_turn)$|unspecified"
        ),
    ),
)
"""How the finish reasons of servers are read, in this order; all others are complete."""

_LONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Surrogates that are not bytes."""
_HALF = re.compile(
    "[\ud800-\udbff]\\Z|[\udcc2-\udcf4]\\Z|[\udce0-\udcf4][\udc80-\udcbf]\\Z|[\udcf0-\udcf4][\udc80-\udcbf]{2}\\Z"
)
"""The beginning of a character: the first of two surrogates, or the first of several bytes."""
_ESCAPED_SURROGATE = re.compile(
    r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it; `arguments` is text that should be a JSON object."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A reply.

    Attributes:
        text: What the model says, without its thoughts; "" if it refused, or was cut before it said anything.
        calls: The tools it calls.
        prompt_tokens: As counted by the server; `None` if it does not report them.
        completion_tokens: As counted by the server; `None` if it does not report them.
        ending: How the reply ended.
        thoughts: What the model thinks, from fields of its own or from marks in the text.
        refusal: Why the model refused, in its own words, if it did.
        opened: Whether the first thought began in the prompt, where some chat templates put it.
        without: What the model was asked without, in words, because the server refused it.
        message: The message as it was received, for the next request; see `chat_models.turns`.
        model: The model's name in the reply, "" if it has none.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    ending: Ending = "complete"
    thoughts: str = ""
    refusal: str = ""
    opened: bool = False
    without: tuple[str, ...] = ()
    message: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    model: str = field(default="", compare=False)

    @property
    def cut(self) -> bool:
        """Whether the reply was cut at its maximum length, perhaps before the model had said anything."""
        return self.ending == "cut"


def read_reply(body: Mapping[str, Any], tags: Sequence[str] = TAGS, opened: bool = False) -> ChatReply:
    """Reads the first choice of a chat completion.

    Args:
        body: The completion.
        tags: The tags of thoughts in its text.
        opened: Whether the model's prompt is known to begin a thought.

    Raises:
        LookupError, TypeError, AttributeError: The body is not a chat completion.
    """
    choice = own_choice(body["choices"])
    message = choice["message"]
    called = [call.get("function") or {} for call in message.get("tool_calls") or ()]
    ids = [str(call.get("id") or "") for call in message.get("tool_calls") or ()]
    if not called and message.get("function_call"):  # the older API, before tool calls
        called, ids = [message["function_call"]], [""]
    calls = tuple(
        ToolCall(_cleaned(str(function.get("name") or "")), _text(function.get("arguments")), id_)
        for function, id_ in zip(called, ids, strict=True)
    )
    refusal = _cleaned(str(message.get("refusal") or ""))
    ending = ending_of(choice.get("finish_reason"), refusal)
    said, thoughts, usage = written(message.get("content")), reasoning_of(message), body.get("usage")
    reply = make_reply(said, thoughts, ending, usage, tags, opened, calls, refusal)
    return replace(reply, message=_well_formed(message), model=str(body.get("model") or ""))


def own_choice(choices: Sequence[Any]) -> Any:
    """Returns the choice with the index 0, or else the first one.

    Raises:
        LookupError, AttributeError: There is none.
    """
    return next((one for one in choices if one and str(one.get("index")) in ("0", "None")), choices[0])


def make_reply(
    text: str,
    reasoning: str,
    ending: Ending,
    usage: object,
    tags: Sequence[str] = TAGS,
    opened: bool = False,
    calls: tuple[ToolCall, ...] = (),
    refusal: str = "",
) -> ChatReply:
    """Makes a reply of what a server sent, whole or in pieces: parts its text and keeps thoughts apart.

    Text that is cut before the end of a thought that the prompt began (`opened`) is that thought.
    """
    parted = part(text, tags)
    if opened and ending == "cut" and not parted.thoughts:
        parted = Parted("", text.strip(), closed=False)
    said = "" if ending == "refused" else parted.text
    prompt_tokens, completion_tokens = _counts(usage if isinstance(usage, Mapping) else {})
    return ChatReply(
        _cleaned(said),
        calls,
        prompt_tokens,
        completion_tokens,
        ending,
        _cleaned("\n".join(filter(None, (reasoning.strip(), parted.thoughts)))),
        refusal or (parted.text if ending == "refused" else ""),
        parted.opened,
    )


def ending_of(finish_reason: object, refusal: str = "") -> Ending:
    """Returns how a reply ended, from the server's finish reason and the model's refusal."""
    ending = "refused" if refusal else _read_reason(finish_reason)
    return "complete" if ending == "broken" else ending


def is_broken(finish_reason: object) -> bool:
    """Returns whether a finish reason says that the server, not the model, ended the reply."""
    return _read_reason(finish_reason) == "broken"


def _read_reason(finish_reason: object) -> Ending | Literal["broken"]:
    reason = str(finish_reason or "").partition(":")[0]  # Gemini's are such as "content_filter: SAFETY"
    reason = re.sub(r"[^a-z]+", "_", reason.strip().lower().removeprefix("finishreason.")).strip("_")
    return next((ending for ending, pattern in _REASONS if pattern.search(reason)), "complete")


def well_formed(text: str) -> str:
    r"""Joins halves of characters and replaces those that stay alone with U+FFFD.

    They are surrogates, which JSON can spell but UTF-8 cannot encode, or bytes of UTF-8, as low surrogates (the error
    handler `surrogateescape`).

    Example:
        >>> well_formed("cut in an emoji: \ud83d") == "cut in an emoji: \ufffd"
        True
    """
    if text.isascii():
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _LONE.sub("\ufffd", joined).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def begun_character(text: str) -> str:
    """Returns the first half of a character at the end of a text, "" if there is none; see `well_formed`."""
    found = _HALF.search(text[-3:])
    return "" if found is None else found[0]


def _cleaned(text: str) -> str:
    """Replaces unpaired surrogates like `well_formed`, including escaped ones in JSON within the text."""
    return well_formed(_ESCAPED_SURROGATE.sub(lambda found: found[1] or "\\ufffd", text))


def written(content: object) -> str:
    """Returns the text of a message or of a piece of it; some servers send a list of parts.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(content, list | dict):
        content = "".join(map(_part_text, content if isinstance(content, list) else [content]))
    if not isinstance(content, str | None):
        raise TypeError(f"the content is {type(content).__name__}")
    return content or ""


def _well_formed(value: Any) -> Any:
    """Returns a JSON value whose texts can be sent."""
    if isinstance(value, str):
        return _cleaned(value)
    if isinstance(value, Mapping):
        return {key: _well_formed(one) for key, one in value.items()}
    return [_well_formed(one) for one in value] if isinstance(value, list) else value


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise TypeError(f"a part of the content is {type(part).__name__}")
    text = part.get("text")
    text = text.get("value") if isinstance(text, dict) else text  # as in OpenAI's Assistants
    if not isinstance(text, str | None):
        raise TypeError(f"the text of a part is {type(text).__name__}")
    return text or ""


def _text(arguments: object) -> str:
    """Returns arguments as text; some servers send the parsed object instead."""
    return _cleaned(arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False))


def _counts(usage: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Returns the tokens of prompt and completion, `None` for what the server does not say.

    What a total has beyond its parts was written too: Gemini counts thoughts nowhere else.

    Example:
        >>> _counts({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 5120})
        (100, 5020)
        >>> _counts({"input_tokens": "90", "output_tokens": 5}), _counts({"prompt_tokens": -1, "total_tokens": 7})
        ((90, 5), (7, None))
    """
    prompt, completion, total = (
        next((count for name in names if (count := _count(usage.get(name))) is not None), None)
        for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"), ("total_tokens",))
    )
    if total is not None and prompt is not None:
        rest = total - prompt
        completion = max(completion or 0, rest) if rest >= 0 else completion
    elif total is not None:
        prompt = max(0, total - (completion or 0))
    return prompt, completion


def _count(value: object) -> int | None:
    if isinstance(value, str | float) and re.fullmatch(r"\d{1,12}(?:\.0)?", str(value).strip(), re.ASCII):
        value = int(float(value))
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def reasoning_of(message: Mapping[str, Any]) -> str:
    """Returns the thoughts that a message, or a piece of one, has in fields of their own.

    These are `reasoning_content` (vLLM, llama.cpp), `reasoning` (Ollama, vLLM), `thinking`, `reasoning_details`
    (OpenRouter) or parts of the content (Mistral).
    """
    for name in ("reasoning_content", "reasoning", "thinking", "reasoning_details", "content"):
        value = message.get(name)
        if found := _thought(value) if name != "content" else _thought(_thinking_parts(value)):
            return found
    return ""


def _thinking_parts(content: object) -> list[Any]:
    if not isinstance(content, list):
        return []
    return [one.get("thinking") for one in content if isinstance(one, dict) and one.get("type") == "thinking"]


def _thought(value: object) -> str:
    if isinstance(value, list):
        return "".join(map(_thought, value))
    if isinstance(value, Mapping):
        return _thought(value.get("text") or value.get("summary"))
    return value if isinstance(value, str) else ""


def error_message(body: str) -> str:
    """Returns the message of an error in any server's format, the title of a page, or else the body, shortened."""
    try:
        value = json.loads(body)
    except ValueError:
        return page_title(body) if body.lstrip().startswith("<") else shortened(body)
    value = value[0] if isinstance(value, list) and value else value  # Gemini's errors are in a list
    for key in ("error", "message", "detail"):
        value = value.get(key, value) if isinstance(value, dict) else value
    return shortened(value if isinstance(value, str) else body)


def error_field(body: str) -> str:
    """Returns the field of the request that an error names in a field of its own, or ""."""
    try:
        value = json.loads(body)
    except ValueError:
        return ""
    error = value.get("error", value) if isinstance(value, dict) else None
    param = error.get("param") if isinstance(error, dict) else None
    return param if isinstance(param, str) else ""


def page_title(page: str) -> str:
    """Returns the title or first heading of an HTML page in quotation marks."""
    found = re.search(r"<(title|h1)\b[^>]*>(.*?)</\1>", page, re.DOTALL | re.IGNORECASE)
    return f'"{shortened(html.unescape(found[2]))}" (HTML)' if found else f"{shortened(page)[:100]} (HTML)"


def shortened(text: str) -> str:
    """Returns a text as a single line without keys, cut to 300 characters."""
    text = " ".join(hidden(well_formed(text)).split())
    return text if len(text) <= 300 else text[:299] + "…"
