"""Rules for what the training data hardly cover: ranges, quantities and shades stay whole, the kind of answer fits."""

from __future__ import annotations

import numpy as np

from generators.reader.features import Candidates
from generators.reader.question import AnalyzedQuestion
from generators.reader.tokens import UNITS, Flags, Tokens, is_color
from retriever.types import FloatArray

_JOINS = frozenset(("to", "or", "-", "\u2013", "\u2014"))
_PARTS = {
    **dict.fromkeys(("ft", "foot", "feet"), ("in", "inch", "inches")),
    **dict.fromkeys(("st", "stone"), ("lb", "lbs", "pound", "pounds")),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds"), ("oz", "ounce", "ounces")),
    **dict.fromkeys(("h", "hour", "hours"), ("min", "minute", "minutes")),
    **dict.fromkeys(("min", "minute", "minutes"), ("s", "second", "seconds")),
    **dict.fromkeys(("year", "years"), ("month", "months")),
}
"""Units, each with the names of its parts."""
_SHADES = frozenset(("dark", "light", "bright", "pale", "deep", "dull", "vivid"))
_NUMERIC = frozenset(("how many", "how high", "how long", "how old", "how much"))
CLAUSE = 2.0
"""Bonus of a number whose clause contains all of the question's words."""


def adjustments(tokens: Tokens, question: AnalyzedQuestion, found: Candidates) -> FloatArray:
    """Returns a bonus for each candidate's score, float32 [candidates]; -inf rules a candidate out."""
    color = np.array([is_color(low) for low in tokens.lower], np.bool_)
    number = _count(tokens.number, found) > 0
    allowed = ~_cuts_range(tokens, found) & ~_cuts_initial(tokens, found)
    bonus = np.zeros(len(allowed), np.float32)
    if question.focus_stem in ("color", "colour"):
        shade = np.array([low in _SHADES for low in tokens.lower], np.bool_)
        shade[:-1] &= color[1:]
        allowed = _narrowed(allowed, (color | shade)[found.first] & color[found.last])
        allowed = _narrowed(allowed, ~shade[np.maximum(found.first - 1, 0)] | (found.first == 0))
    elif question.kind == "why":
        allowed = _narrowed(allowed, ~number)
    elif question.kind in _NUMERIC:
        allowed = _narrowed(allowed, number)
        if question.kind == "how old":
            allowed = _narrowed(allowed, _count(_dated(tokens), found) == 0)
        if question.kind != "how many":  # which names the unit itself
            allowed = _narrowed(allowed, ~_cuts_unit(tokens, found))
        bonus += CLAUSE * _clause_cover(tokens, question)[tokens.clause[found.first]] * number
    return np.where(allowed, bonus, -np.inf).astype(np.float32)


def whole_quantity(tokens: Tokens, first: int, last: int) -> tuple[int, int]:
    """Returns the first and last token of an answer with all parts of a quantity: "6 ft 1 in" for "6 ft"."""
    for start in range(max(0, first - 3), min(last + 1, len(tokens.lower) - 3)):
        unit, part = tokens.lower[start + 1], tokens.lower[start + 3]
        if tokens.number[start] and tokens.number[start + 2] and part in _PARTS.get(unit, ()):
            first, last = min(first, start), max(last, start + 3)
    return first, last


def _narrowed(allowed: Flags, wanted: Flags) -> Flags:
    """Returns the allowed candidates that are wanted, or all allowed ones if there are none."""
    both = allowed & wanted
    return both if both.any() else allowed


def _count(flags: Flags, found: Candidates) -> np.ndarray:
    total = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(total[found.last + 1] - total[found.first])


def _dated(tokens: Tokens) -> Flags:
    return np.array([word in ("<year>", "<month>") for word in tokens.classes], np.bool_)


def _cuts_range(tokens: Tokens, found: Candidates) -> Flags:
    """Marks the candidates that have only one end of a range: "six" of "four to six"."""
    number, size = tokens.number, len(tokens.lower)
    joins = np.array([low in _JOINS for low in tokens.lower], np.bool_)
    joins[1:-1] &= number[:-2] & number[2:]
    if size:
        joins[0] = joins[-1] = False
    outside_left = joins[np.maximum(found.first - 1, 0)] & (found.first > 0)
    outside_right = joins[np.minimum(found.last + 1, size - 1)] & (found.last < size - 1)
    return np.asarray(outside_left | outside_right, np.bool_)


def _cuts_initial(tokens: Tokens, found: Candidates) -> Flags:
    """Returns which candidates are an initial, or the rest of its name: "J" or "Paul Getty" of "J. Paul Getty"."""
    initial = np.array([len(low) == 1 and low.isalpha() for low in tokens.lower], np.bool_) & tokens.capital
    named = np.zeros(len(initial), np.bool_)  # an initial, a dot and a name
    named[:-2] = initial[:-2] & np.array([low == "." for low in tokens.lower[1:-1]], np.bool_) & tokens.capital[2:]
    after = named[np.maximum(found.first - 2, 0)] & (found.first > 1)
    return np.asarray(((found.first == found.last) & named[found.first]) | after, np.bool_)


def _cuts_unit(tokens: Tokens, found: Candidates) -> Flags:
    """Marks the candidates that end with a number whose unit follows."""
    after = np.minimum(found.last + 1, len(tokens.lower) - 1)
    unit = np.array([low in UNITS for low in tokens.lower], np.bool_)
    return np.asarray(tokens.number[found.last] & unit[after], np.bool_)


def _clause_cover(tokens: Tokens, question: AnalyzedQuestion) -> FloatArray:
    """Returns the weighted share of the question's words in each clause, float32 [clauses]."""
    clauses: dict[int, set[str]] = {}
    for stem, clause in zip(tokens.stems, tokens.clause.tolist(), strict=True):
        clauses.setdefault(clause, set()).add(stem)
    total = sum(question.words.values()) or 1.0
    cover = np.zeros(int(tokens.clause.max(initial=0)) + 1, np.float32)
    for clause, stems in clauses.items():
        cover[clause] = sum(weight for word, weight in question.words.items() if word in stems) / total
    return cover
