"""Tolerant parsing of model replies: thoughts, tags, JSON, answers. Never raises on any text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

from chat_models.layers import bare, unescaped
from chat_models.thoughts import THINK, part
from retriever.arrays import parse_literal

_LIMIT = 50_000
"""Maximum characters of a reply that are parsed."""
_LITERAL_LIMIT = 5_000
"""Maximum characters of an object in Python syntax, or with errors, that are parsed."""
_ANSWER_TAG = r"(?:final[ _-]?)?answer"
_LABEL = re.compile(
    r"^[ \t\u00a0\u3000*#>\"']*(?:(?:(?:the )?(?:final )?answer(?: is)?|(?:最终|最終)?(?:答案|回答)(?:是|为)?|答え"
    r"|réponse(?: finale)?|(?:endgültige )?antwort|respuesta(?: final)?|ответ)[\s*\"']*[:\uff1a]"
    r"|the final answer is(?! not\b))[\s*]*",
    re.IGNORECASE | re.MULTILINE,
)
"""`answer:` or `**Final Answer:**` at the start of a line, in several languages."""
_BOXED = re.compile(r"\\boxed\s*\{(?:[^{}]|\{[^{}]*\})+\}\$*|<\|begin_of_box\|>.*?(?:<\|end_of_box\|>|\Z)", re.DOTALL)
"""An answer in a box, as of models trained on mathematics."""
_ANSWER_KEYS = ("answer", "final_answer", "final answer", "finalanswer")


def without_thoughts(text: str) -> str:
    """Returns a reply without its thoughts; an unclosed thought extends to the end.

    Example:
        >>> without_thoughts("<think>Final Answer: no</think> yes")
        'yes'
    """
    return part(text[:_LIMIT]).text.strip()


def without_think(text: str) -> str:
    """Returns a reply without `<think>` elements only, for formats that have their own thoughts."""
    return part(text[:_LIMIT], THINK).text.strip()


def tagged(text: str, tag: str) -> list[str]:
    """Returns the contents of all elements with a tag; an unclosed one ends at the next, or at the end of the text."""
    opening = rf"<\s*{tag}(?:\s[^<>]*)?>"
    found = re.findall(rf"{opening}(.*?)(?=<\s*/\s*{tag}\s*>|{opening}|\Z)", text[:_LIMIT], re.DOTALL | re.IGNORECASE)
    return [content.strip() for content in found]


def answer_of(text: str) -> str | None:
    """Returns the content of the last `<answer>` outside of thoughts, or `None` if there is none."""
    found = [content for content in tagged(unescaped(without_thoughts(text)), _ANSWER_TAG) if content]
    if not found:
        return None
    answer = bare(found[-1])
    value = json_object(answer) if answer.startswith("{") else None
    return answer if value is None else _answer_in(value) or answer


def labeled_answer(text: str) -> str | None:
    r"""Returns the text after the last `answer:` at the start of a line, or the answer of a JSON object; else `None`.

    Example:
        >>> labeled_answer("It is in the results.\n**Final Answer:** Paris [3]")
        'Paris [3]'
        >>> labeled_answer('{"answer": "Paris", "citations": [3, 4]}')
        'Paris [3] [4]'
    """
    plain = without_thoughts(text)
    value = json_object(plain) if re.match(r"\s*(?:```[\w-]*\s*)?\{", plain) else None
    if value is not None:
        return _answer_in(value)
    if boxed := list(_BOXED.finditer(plain)):
        return bare(boxed[-1][0].rstrip("$")) + plain[boxed[-1].end() :].split("\n")[0].rstrip()
    labels = list(_LABEL.finditer(plain))
    return bare(plain[labels[-1].end() :].strip(" \t\n*`\"'")) or None if labels else None


def _answer_in(value: dict[str, Any]) -> str | None:
    answer = next((value[key] for key in value if key.lower() in _ANSWER_KEYS), "")
    if answer is None:
        return "unknown"
    if not isinstance(answer, str | int | float) or isinstance(answer, bool) or not str(answer).strip():
        return None
    listed = value.get("citations", value.get("sources"))
    marks = [f" [{number}]" for number in listed if isinstance(number, int)] if isinstance(listed, list) else []
    return str(answer).strip() + ("" if "[" in str(answer) else "".join(marks))


def json_object(text: str) -> dict[str, Any] | None:
    r"""Returns the first JSON object in a text, even amid other text, or `None` if there is none.

    Also accepts Python syntax (single quotes, trailing commas), comments, curly quotes and missing closing brackets.
    Nothing is executed.

    Example:
        >>> json_object('Here: ```json {"a": 1} ```'), json_object("{'a': [True, null,]}")
        ({'a': 1}, {'a': [True, None]})
    """
    return next((value for value in json_values(text, "{") if isinstance(value, dict)), None)


def json_values(text: str, brackets: str, most: int = 20) -> Iterator[Any]:
    """Yields the JSON values in a text that begin with one of the given brackets, in order, of the first `most`."""
    text = text[:_LIMIT]
    start, tries = 0, 0
    decoder = json.JSONDecoder(strict=False)  # allows line breaks in strings
    while tries < most and (found := re.compile(f"[{re.escape(brackets)}]").search(text, start)):
        tries += 1
        start = found.start()
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = _literal(text, start)
            if value is None:
                start += 1
                continue
            start = end
        yield value


_PYTHON = {"true": "True", "false": "False", "null": "None"}
_CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"})
_BARE_KEY = re.compile(r"([{,]\s{0,9})([A-Za-z_]\w{0,60})\s{0,9}:")
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_WORD_OR_COMMENT = re.compile(rf"({_STRING})|(?://|\#)[^\n]*|\b(?:true|false|null)\b", re.DOTALL)
_DEEPEST = 200
"""Maximum nesting of brackets in Python's tokenizer (`MAXLEVEL`)."""
_BRACKET_OR_STRING = re.compile(rf"{_STRING}|[\"']|[\[{{(]|[\]}})]", re.DOTALL)


def _literal(text: str, start: int) -> tuple[Any, int]:
    """Parses a bracketed value in Python syntax or with small errors; returns it, or `None`, and its end."""
    part = text[start : start + _LITERAL_LIMIT]
    for plain in dict.fromkeys((part, part.translate(_CURLY), _BARE_KEY.sub(r'\1"\2":', part))):
        end, missing = _closing(plain)
        source = _WORD_OR_COMMENT.sub(lambda found: found[1] or _PYTHON.get(found[0], ""), plain[:end]) + missing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes
            try:
                return literal(source.replace("\n", " ")), start + end
            except ValueError:
                continue
    return None, start


def literal(source: str | ast.expr) -> Any:
    """Converts a Python literal to a JSON value.

    Raises:
        ValueError: It is not a literal, or JSON cannot represent it.
    """
    try:
        return json.loads(json.dumps(parse_literal(source)))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from error


def _closing(text: str) -> tuple[int, str]:
    """Returns where the first bracket is closed, or the end of the text and the closing braces that it lacks.

    Returns 0 if brackets are nested deeper than Python can parse.
    """
    opened: list[str] = []
    for found in _BRACKET_OR_STRING.finditer(text):
        if found[0] in ('"', "'"):
            return len(text), ""  # an unclosed string: the reply was cut
        if found[0] in "[{(":
            opened.append({"[": "]", "{": "}", "(": ")"}[found[0]])
            if len(opened) > _DEEPEST:
                return 0, ""
        elif found[0] in "]})":
            opened.pop()
            if not opened:
                return found.end(), ""
    whole = len(text) < _LITERAL_LIMIT and set(opened) == {"}"}  # an open list was cut
    return len(text), "}" * len(opened) if whole else ""


def is_true(value: object) -> bool:
    """Returns whether a value in a model's JSON means yes: `true`, `1`, or a word for it."""
    return value is True or value == 1 or (isinstance(value, str) and value.strip().lower() in _YES)


_YES = ("true", "yes", "sufficient", "enough", "1")
_FOUND = "(?:results?|sources?|evidence|information|context|websites?|pages?|articles?|search results?)"
_UNKNOWN = re.compile(
    r"(?:unknown|n/?a|not (?:known|found|sure|available|stated|specified|answerable)|unanswerable|"
    r"(?:(?:i'?m |i am )?sorry\W+(?:but )?)?(?:i|we)(?:'m| am|'re| are)? "
    r"(?:do not|don't|cannot|can't|can not|could not|couldn't|was not able to|not able to|unable to) "
    r"(?:know|tell|answer|determine|find|identify|say|have (?:enough|sufficient))\b.*|"
    r"(?:(?:it|this|that|the (?:answer|question)) )?(?:cannot|can't|can not|could not|couldn't) be "
    r"(?:determined|answered|identified|inferred)\b.*|"
    r"(?:unable|not possible|impossible) to (?:determine|answer|identify|tell|find)\b.*|"
    r"the (?:answer|information) (?:is|was) (?:not|unknown)\b.*|"
    rf"(?:none of )?the (?:\w+ )?{_FOUND} (?:\w+ )?(?:do not|don't|does not|doesn't|did not) "
    r"(?:contain|provide|mention|say|answer|state|include|specify|give|have)\b.*|"
    r"(?:there is |there's )?(?:not enough|insufficient|no (?:relevant |sufficient )?information|no answer)\b.*|"
    r"未知|不知道.*|无法(?:回答|确定).*|)",
    re.DOTALL | re.IGNORECASE,
)


def is_abstention(answer: str) -> bool:
    """Returns whether an answer says that there is no answer.

    Example:
        >>> is_abstention("Unknown."), is_abstention("It cannot be determined."), is_abstention("An unknown soldier")
        (True, True, False)
    """
    plain = re.sub(r"\[[\d, ]*\]", "", answer[:_LIMIT].replace("\u2019", "'"))
    words = [word.start() for word in re.finditer(r"\w", plain)]
    return not words or _UNKNOWN.fullmatch(plain[words[0] : words[-1] + 1]) is not None
