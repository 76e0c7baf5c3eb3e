"""Separates what a reasoning model thinks from what it says, in whole replies and in streams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from chat_models.layers import without_tokens

THINK = ("think", "thinking", "seed:think")
"""Tags that no prompt asks for: they are always thoughts."""
TAGS = (*THINK, "thought", "thoughts", "reason", "reasoning", "reflection", "scratchpad")
"""All tags of thoughts."""
_MARKS = (
    ("[THINK]", "[/THINK]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi-VL
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A Reasoning
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<unused94>thought", "<unused95>"),  # MedGemma
    ("<|channel>thought", "<channel|>"),  # Gemma
    ("Here is my thought process:", "Here is my response:"),  # Granite
)
"""Other beginnings and ends of thoughts."""
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>analysis(?:<\|message\|>)?(.*?)"
    r"(?P<end><\|end\|>|(?=<\|start\|>|<\|channel\|>(?!analysis))|\Z)",
    re.DOTALL,
)
"""A thought in the Harmony format of gpt-oss."""
_FINAL = re.compile(r"(?:<\|start\|>assistant)?<\|channel\|>final(?:<\|constrain\|>\w+)?<\|message\|>|<\|return\|>")
_HEADER = re.compile(r"<\|(?:start|channel)\|>(?:(?!<\|message\|>).)*\Z", re.DOTALL)
"""The incomplete beginning of a message in the Harmony format."""
_BARE_CHANNELS = re.compile(r"\A\s*analysis(?=[A-Z\"'(])(.*?)(?:assistantfinal|(?P<cut>\Z))", re.DOTALL)
"""The same after a server has deleted its special tokens."""
_LONGEST_MARK = 64
"""Maximum characters of a mark."""
_BEGINS, _ENDS = {*"<[◁"}, {*">]▷:l"}
"""Characters with which marks begin and end."""
_OPENINGS = ("analysis", "Here is my thought process:")
"""Marks without brackets, which count only at the beginning of a reply."""


@dataclass(frozen=True, slots=True)
class Parted:
    """A reply in two parts.

    Attributes:
        text: What the model says.
        thoughts: What it thinks, "" if nothing.
        closed: False if the last thought was cut.
        opened: Whether the first thought began in the prompt: the reply has only its end.
    """

    text: str
    thoughts: str = ""
    closed: bool = True
    opened: bool = False


def part(reply: str, tags: Sequence[str] = TAGS) -> Parted:
    """Parts a reply into thoughts and text. A thought that is not closed extends to the end.

    If a thought ends that never began, its beginning is in the prompt, where some chat templates put it: everything
    before is a thought.

    Args:
        reply: The reply.
        tags: The tags of thoughts, such as "think".

    Example:
        >>> part("<think>France? No.</think> Tokyo").text, part("A red disc, so Japan.</think>Tokyo").text
        ('Tokyo', 'Tokyo')
    """
    thoughts: list[str] = []
    said: list[str] = []
    opened, inside = False, ""
    text, closed = _without_channels(reply, thoughts)
    begin = 0
    for mark in _any_mark(tuple(tags)).finditer(text):
        opens = mark["open"] is not None or (mark["tag"] is not None and not mark["slash"])
        name = (mark["tag"] or "").lower() or _pair(mark[0], opens)
        if not inside and opens:
            said.append(text[begin : mark.start()])
            inside, begin = name, mark.end()
        elif not inside or (name == inside and not opens):
            opened = opened or (not inside and not thoughts)
            thoughts += [text[begin : mark.start()]] if inside else [*said, text[begin : mark.start()]]
            said = said if inside else []
            inside, begin = "", mark.end()
    (thoughts if inside else said).append(text[begin:])
    whole = "\n".join(filter(None, (thought.strip() for thought in thoughts)))
    if not thoughts:
        return Parted(text)
    return Parted(without_tokens("".join(said)).strip(), whole, closed and not inside, opened)


def _without_channels(reply: str, thoughts: list[str]) -> tuple[str, bool]:
    """Moves Harmony's thoughts to a list; returns the rest, and whether the last one was closed."""
    if "<|channel|>" in reply:
        found = list(_CHANNEL.finditer(reply))
        thoughts += [one[1] for one in found]
        rest = _CHANNEL.sub("", reply)
        return _FINAL.sub("", rest), not found or found[-1]["end"] != "" or bool(rest.strip())
    if bare := _BARE_CHANNELS.match(reply):
        thoughts.append(bare[1])
        return reply[bare.end() :], bare["cut"] is None
    return reply, True


@lru_cache
def _any_mark(tags: tuple[str, ...]) -> re.Pattern[str]:
    begins, ends = ("|".join(re.escape(pair[side]) for pair in _MARKS) for side in (0, 1))
    names = "|".join(map(re.escape, tags))
    tag = rf"<\s*(?P<slash>/?)\s*(?P<tag>{names})(?:\s[^<>]{{0,40}})?>"
    return re.compile(rf"{tag}|(?P<open>{begins})|(?P<close>{ends})", re.IGNORECASE)


def _pair(mark: str, opens: bool) -> str:
    return next(begin for begin, end in _MARKS if (begin if opens else end).lower() == mark.lower())


class ThoughtFilter:
    """Lets the text of a stream through and holds its thoughts back.

    Text that may be the beginning of a mark is held back until further pieces show whether it is.

    Args:
        tags: The tags of thoughts.
        opened: Whether the prompt begins a thought; `None` if that is unknown, in which case everything is held back
            until the end.
    """

    def __init__(self, tags: Sequence[str] = TAGS, opened: bool | None = False) -> None:
        self.whole = ""
        self._tags, self._opened, self._sent = tags, opened, ""
        self._inside, self._held = bool(opened), True

    def feed(self, piece: str) -> str:
        """Adds a piece; returns the text that can be sent."""
        self.whole += piece
        if self._opened is None or (self._inside and not _ENDS & {*piece}):
            return ""
        if not self._inside and not self._held and not _BEGINS & {*piece}:
            self._sent += piece
            return piece
        parted = part(self.whole, self._tags)
        self._inside = not parted.closed or (self._opened and not parted.opened)
        if self._inside:
            return self._rest(parted.text if parted.thoughts else "")
        end = _begun(parted.text, first=not parted.thoughts)
        self._held = end < len(parted.text) or not parted.text
        return self._rest(parted.text[:end])

    def close(self, text: str) -> str:
        """Returns the unsent rest of the answer, given the whole answer at the end of the stream."""
        return self._rest(text)

    def _rest(self, text: str) -> str:
        """Returns the part of a text after what was sent, or "" if what was sent turned out to be a thought."""
        rest = text[len(self._sent) :] if text.startswith(self._sent) else ""
        self._sent += rest
        return rest


def _begun(text: str, first: bool) -> int:
    """Returns where a mark may begin that the end of a text leaves open, or the text's length."""
    start = text.lstrip()
    if first and any(mark.startswith(start) or start == mark for mark in _OPENINGS):
        return 0
    if (header := _HEADER.search(text)) is not None:
        return header.start()
    at = max(text.rfind(mark) for mark in _BEGINS)
    tail = text[at:] if at >= 0 else ""
    channel = tail.startswith(("<|channel", "<unused")) and len(tail) < 2 * len("<|channel|>analysis")
    return at if tail and len(tail) < _LONGEST_MARK and (channel or not {*">]▷"} & {*tail}) else len(text)
