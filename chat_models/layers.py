"""The layers that models put around an answer: tags, boxes and special tokens, in any nesting, whole and streamed."""

from __future__ import annotations

import re

_TOKENS = (
    r"<\|(?:im_end|im_start|eot_id|end_of_text|endoftext|end|return|eom_id|begin_of_box|end_of_box|begin_of_solution"
    r"|end_of_solution|START_RESPONSE|END_RESPONSE|START_OF_TURN_TOKEN|END_OF_TURN_TOKEN|user|assistant|observation"
    r"|begin_of_text|eos|eod|end_of_turn)\|>"
    r"|</?s>|<(?:start|end)_of_turn>|<(?:eos|bos|pad)>|\[/?(?:INST|EOS)\]|</?response>"
    r"|<\uff5c(?:end|begin)\u2581of\u2581sentence\uff5c>"
)
"""Special tokens of chat templates that no text has, and the marks around what models say after their thoughts."""
_FIRST_TOKEN, _LAST_TOKEN = re.compile(_TOKENS), re.compile(rf"(?:{_TOKENS})\Z")
_LONGEST = 40
"""Characters of the longest of them."""
_TAG = r"(?:final[ _-]?)?answer"
_ESCAPED = re.compile(rf"&lt;(/?{_TAG})&gt;", re.IGNORECASE)
_BEHIND = r"(?P<behind>(?:\s*[\[\u3010][^\[\]\u3010\u3011]{0,40}[\]\u3011])*\s*[.]?)"
"""Citations and a full stop, which may stand behind a layer."""
_LAYERS = tuple(
    re.compile(layer + _BEHIND, re.DOTALL | re.IGNORECASE)
    for layer in (
        rf"<{_TAG}>(?P<inner>(?:(?!</?{_TAG}>).)*)(?:</{_TAG}>|\Z)",
        rf"(?P<inner>(?:(?!</?{_TAG}>).)*)</{_TAG}>",
        r"(?:\$\$?|\\\(|\\\[)?\s*\\boxed\s*\{(?P<inner>(?:[^{}]|\{[^{}]*\})*)\}\s*(?:\$\$?|\\\)|\\\])?",
        r"\\(?:text|mathrm|textbf|mathbf)\s*\{(?P<inner>[^{}]*)\}",
        r"\*\*(?P<inner>(?:(?!\*\*).)+)\*\*",
    )
)
_DEEPEST = 16
_TWICE = re.compile(rf"(</?{_TAG}>)(?:\s*\1)+", re.IGNORECASE)


def without_tokens(text: str) -> str:
    """Returns a text without special tokens of chat templates and white space at its ends."""
    shorter = text.strip()
    while token := _FIRST_TOKEN.match(shorter):
        shorter = shorter[token.end() :].lstrip()
    while token := _LAST_TOKEN.search(shorter[-_LONGEST:]):
        shorter = shorter[: -len(token[0])].rstrip()
    return shorter


def unescaped(text: str) -> str:
    """Returns a text whose answer tags are not escaped, as some servers send them."""
    return _ESCAPED.sub(r"<\1>", text)


def bare(text: str) -> str:
    r"""Returns an answer without the layers around it; what stands behind a layer, such as a citation, stays.

    Example:
        >>> bare(r"<answer>$\boxed{\text{Niamey}}$ [1]</answer><|im_end|>"), bare("**Niamey** [1]"), bare("2 ** 3")
        ('Niamey [1]', 'Niamey [1]', '2 ** 3')
    """
    text = _TWICE.sub(r"\1", unescaped(text))
    for _ in range(_DEEPEST):
        inner = without_tokens(text)
        if match := next(filter(None, (layer.fullmatch(inner) for layer in _LAYERS)), None):
            inner = f"{match['inner'].strip()}{match['behind']}".strip()
        if inner == text:
            break
        text = inner
    return text


_OPENINGS = ("<answer>", "<finalanswer>", "<final_answer>", "<final-answer>", "&lt;answer&gt;", "&lt;final_answer&gt;")
_OPEN = re.compile(r"\*(?:\*(?:(?!\*\*).){0,300}(?:\*\*.{0,44})?)?\Z|\$?\$?\\.{0,400}\Z|\$\$?\Z", re.DOTALL)
"""A beginning that may be a layer whose end is to come."""
_TAIL = re.compile(
    rf"(?:\s|{_TOKENS}|</?{_TAG}>|&lt;/?{_TAG}&gt;)*(?:<[^<>]{{0,40}}|\[/?[A-Z]{{0,5}}|&[^\s;]{{0,3}};?/?\w{{0,12}}(?:&g?t?)?)?\Z",
    re.IGNORECASE,
)
"""An end that is, or may become, a special token or a closing tag."""
_TELLING = {*"<>[]{}$*\\&; \n\t"}


class LayerFilter:
    """Lets the text of a stream through without its layers; holds back what is or may be part of one."""

    def __init__(self) -> None:
        self._whole = self._sent = ""

    def feed(self, piece: str) -> str:
        """Adds a piece; returns the text that can be sent."""
        plain = self._sent and len(self._sent) == len(self._whole) and not _TELLING & {*piece[-1:], *piece.strip()}
        self._whole = (self._whole + piece).lstrip()
        if plain:
            self._sent += piece
            return piece
        text = without_tokens(self._whole)
        begin = text.lower().replace(" ", "")
        if any(begin.startswith(mark) or mark.startswith(begin) for mark in _OPENINGS) or _OPEN.match(text):
            return ""
        start = max(0, len(text) - 200)
        end = _TAIL.search(text, start)
        return self.close(text if end is None else text[: end.start()])

    def close(self, text: str) -> str:
        """Returns the unsent rest of the answer, given as much of it as is known."""
        rest = text[len(self._sent) :] if text.startswith(self._sent) else ""
        self._sent += rest
        return rest
