"""Values behind labels ("Maker: Hobson & Co."): answers are whole items, and the meaning of labels decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from generators.reader.kinds import UNIT
from retriever.types import FloatArray

Likeness = Callable[[str, Sequence[str]], FloatArray]
"""Returns the cosines of a question's meaning with those of lines, float32 [lines]."""
MEANING, UNLIKE, MOST = 24.0, 0.2, 6.0
"""Nats per cosine beyond `UNLIKE` that a labeled value gains, at most `MOST`."""
WORST = -8.0
"""Nats beyond "no answer" below which no gain makes a value the answer."""
LONGEST, WORDS, FIGURED_WORDS, LISTED_WORDS = 300, 6, 3, 4
"""Characters of a line, words of an item, of one whose figures are chosen, and of each in a list; more is prose."""
_LABEL = re.compile(r"[ \t*\u2022-]*[^\n:=|]{1,60}?(?:\s?[:=|]\s+|\s-\s+)(?=\S)")
_BETWEEN = re.compile(
    r"(?P<list>[,;]\s+)|(?P<figure>\s(?=\(?(?:1\d|20)\d\d\b)"
    rf"|\s(?=\d[\d.,]*\s?{UNIT}(?!\w)))|:\s|\s=\s|\s?[()\[\]|]\s?|\s[-/\u2013\u2014]\s|(?<=[\w)]{{3}})[.!?](?:\s|$)",
    re.IGNORECASE,
)
_MEASURE = re.compile(rf"\d\W*(?:%|\u00b0|{UNIT})$", re.IGNORECASE)


def gains(question: str, text: str, scores: FloatArray, likeness: Likeness) -> FloatArray:
    """Scores the lines `label: value` of a text by their similarity to a question, in nats, float32 [lines].

    Only lines that can become the answer are compared.

    Args:
        question: The question.
        text: The text.
        scores: Each line's best span beyond "no answer", in nats, [lines]; -inf without one.
        likeness: Compares meanings.
    """
    lines, gained = text.split("\n"), np.zeros(len(scores), np.float32)
    near = [i for i in np.flatnonzero(scores >= WORST) if len(lines[i]) <= LONGEST and _LABEL.match(lines[i])]
    if len(near) > 1 or (near and scores[near[0]] < MOST):  # else nothing would change
        gained[near] = np.clip(MEANING * (likeness(question, [lines[i] for i in near]) - UNLIKE), 0, MOST)
    return gained


def whole_item(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a span of a labeled value with the rest of its item or, if it has several, of its list.

    An item ends at list separators, brackets, and before figures that follow a name. A measure stays as it is, and so
    does a part of prose.

    Example:
        >>> text = "Seen: Hall 12 upstairs, Late 2022 (rear)"
        >>> [text[slice(*whole_item(text, *place))] for place in ((6, 10), (29, 33))]
        ['Hall 12 upstairs', 'Late 2022']
    """
    begin, stop = text.rfind("\n", 0, start) + 1, (text + "\n").find("\n", end)
    label = _LABEL.match(text, begin, stop) if stop - begin <= LONGEST else None
    if label is None or start < label.end() or _MEASURE.search(text[start:end]):
        return start, end
    marks = list(_BETWEEN.finditer(text, label.end(), stop))
    inside = [mark for mark in marks if start < mark.start() < end and not mark["figure"]]
    if not all(mark["list"] for mark in inside):
        return start, end
    before = [mark for mark in marks if mark.end() <= start and not mark["figure"]]
    behind = [mark for mark in marks if mark.start() >= end and not (mark["figure"] and text[start].islower())]
    begun = not before or text[before[-1].start()] == ":"
    if inside or (begun and behind and text[behind[0].start()] == ";"):
        first = max([label.end(), *(mark.end() for mark in before if not mark["list"])])
        items = re.split(r"[,;]\s", text[first:stop])
        plain = re.search(r"\d", text[start:end]) or not re.search(r"\d", text[end:stop])  # no "Unity Day; 1 May"
        if plain and all(mark["list"] for mark in behind) and all(len(item.split()) <= LISTED_WORDS for item in items):
            return first, first + len(text[first:stop].rstrip(" ,;."))
    first, last = before[-1].end() if before else label.end(), behind[0].start() if behind else stop
    most = FIGURED_WORDS if re.search(r"\d", text[start:end]) else WORDS
    return (first, last) if len(text[first:last].split()) <= most else (start, end)
