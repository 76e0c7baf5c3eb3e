"""Lists of definitions in Markdown, as of Pandoc, PHP Markdown Extra and kramdown: `: meaning` below a term."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_MEANING = re.compile(r":[ \t]+(?=\S)")
_TERM = re.compile(r"(?!<!--(?:(?!-->).)*-->\s*$)(?:\*\*(?=\S)|`(?!``)|[^\s:>#|`~*+=-])")
_DEFINED = "\x1e"  # stands at the end of a paragraph that further meanings may continue
_BLOCK = re.compile(r"!!!|\?\?\?|===|`{3}|~{3}|[-*+][ \t]|\d+[.)][ \t]|[#>|]")  # the beginning of a block


def with_definitions(text: str) -> str:
    """Returns a text with definitions (`: meaning` below a term) as paragraphs `term: meaning, meaning`.

    Further blocks of a definition follow it. A term without words, such as a comment, has no colon.
    """
    return "\n".join(_defined(text.split("\n"))) if "\n:" in text else text


def _defined(lines: list[str]) -> list[str]:
    found: list[str] = []
    number, fenced, term, is_term = 0, False, -1, False  # whether the last text is a term, and its place
    while number < len(lines):
        line = lines[number]
        fenced ^= _FENCE.match(line) is not None
        mark = None if fenced or term < 0 or len(found) - term > 2 else _MEANING.match(line)
        if mark is None:
            term = len(found) if line.strip() and not fenced else term
            is_term = is_term if not line.strip() else _TERM.match(line) is not None
            found.append(line)
            number += 1
            continue
        end = _first(lines, number + 1, lambda one: bool(one.strip()) and not one[0].isspace())
        width = len(mark[0])
        body = [line[width:], *(one[min(width, len(one) - len(one.lstrip())) :] for one in lines[number + 1 : end])]
        stop = 0 if _BLOCK.match(body[0]) else _first(body, 1, lambda one: not one.strip() or bool(_BLOCK.match(one)))
        words = " ".join(map(str.strip, body[:stop]))
        if stop and is_term:
            before = found[term].removesuffix(_DEFINED)
            before = f"{before}, " if found[term] != before else f"{before.strip().rstrip(' :')}: "
            found[term:] = ["", f"{before}{words}{_DEFINED}"]
            term += 1
        else:
            found += ["", words]
        rest = body[stop:] if any(map(str.strip, body[stop:])) else []
        found += ["", *rest, ""] if rest else []
        number, term = end, -1 if rest else len(found) - 1
    return [line.replace(_DEFINED, "\n") for line in found]


def _first(lines: Sequence[str], start: int, is_end: Callable[[str], bool]) -> int:
    return next((number for number in range(start, len(lines)) if is_end(lines[number])), len(lines))
