"""Spans of a section as answers: whole words of one sentence, and whole items of labeled values."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from generators.reader.kinds import core, kind_of_answer
from generators.reader.model import Window
from generators.reader.values import Likeness, gains, whole_item
from retriever.deixis import without_deixis
from retriever.lexical import best_label, implied, labels_of, rarity, tokenize
from retriever.types import FloatArray

LONGEST = 48
"""Maximum length of an answer in tokens."""
LABELED = 3.0
"""Nats that a value gains whose label has exactly the question's words."""
AGREED = 0.5
"""What such a label adds to the gain by its meaning, as a share."""
BINOMIAL = 12.0
"""Nats that a value in the form of a species' name gains if the question asks for a Latin name."""
_SPECIES = re.compile(r"\b(?:latin|binomial|scientific\w*|botanical|zoological)\b", re.IGNORECASE)
_BINOMIAL = re.compile(r"(?<=[:=|] )[A-Z][a-z]+ (?:[x\u00d7] )?[a-z-]{3,}(?= *(?:$|[\n(,;.|]))")
_SENTENCE_END = re.compile(
    r"""\n|(?:(?<![A-Z])[a-z]{3}|\d|[)\]"\u201d])[.!?]["\u201d')\]]*\s+(?=["\u201c'(\[]*[A-Z])"""
)
"""Ends of lines and sentences, which no answer crosses; the period of a short word may be that of an abbreviation."""
_TRIED = 64
"""Best spans of a window that are looked at for one that is allowed."""
_WORD = re.compile(r"(?:[^\W_]|(?<=\d)[.,:/](?=\d)|(?<=\w)[-'\u2019.&_@](?=\w))+")
_BEFORE, _AFTER = "$€£¥#+\u00b1~<>\u2264\u2265\u2212-", "%\u00b0\u2033\u2032\"'€£$\u00b2\u00b3"
"""Signs that belong to the word after or before them if they touch it."""
_OTHER_END = re.compile(r"\s?[-\u2013\u2014]\s?\d+(?!\w)")
"""The other end of a range."""


class Span(NamedTuple):
    """An answer in a section.

    Attributes:
        start: Its first character.
        end: Its last character, exclusive.
        margin: Its score beyond that of "no answer", in nats.
        share: The logarithm of its probability among the window's spans.
    """

    start: int
    end: int
    margin: float
    share: float


def best_span(
    window: Window,
    scores: FloatArray,
    question: str,
    text: str,
    title: str,
    heading: str = "",
    likeness: Likeness | None = None,
) -> Span | None:
    """Returns the best span of a window, `None` if no words are in it.

    Args:
        window: The window.
        scores: Scores of its tokens as starts and ends, float32 [T, 2].
        question: The question.
        text: The section.
        title: The article's title, which is no answer; empty if the text begins with it as a line (`titles.posed`).
        heading: The section's title.
        likeness: Compares the meaning of the question with that of labeled values; without it, only words count.
    """
    null = float(scores[0].sum())
    first, last = _bounds(text)
    lines, sentences = _ends(text)
    places = np.array([start for start, _ in window.places], np.int64)
    can_start = np.array([start in first for start, _ in window.places], bool)
    can_end = np.array([end in last for _, end in window.places], bool)
    sentence = np.searchsorted(sentences, places, side="right")
    length = np.arange(len(places)) - np.arange(len(places))[:, None]
    allowed = can_start[:, None] & can_end & (sentence[:, None] == sentence) & (length >= 0) & (length < LONGEST)
    starts, ends = np.nonzero(allowed)
    if not len(starts):
        return None
    nats = scores[window.begin + starts, 0] + scores[window.begin + ends, 1]
    line = np.searchsorted(lines, places, side="right")
    matches, values = _label_matches(text, question)
    behind = places >= values[line]
    nats += np.where(behind, LABELED * matches[line], 0)[starts]
    if _SPECIES.search(question):
        nats += (BINOMIAL * np.isin(places, [name.start() for name in _BINOMIAL.finditer(text)]))[starts]
    if likeness is not None:
        best = np.full(len(lines) + 1, -np.inf, np.float32)
        np.maximum.at(best, line[starts], np.where(behind[starts], nats - null, -np.inf))
        gained = gains(question, text, best, likeness) * (1 + AGREED * np.maximum(matches, 0))
        nats += (gained[line] * behind)[starts]
    total = np.logaddexp(np.logaddexp.reduce(nats), null)
    named = _folded(title)
    fits = kind_of_answer(question, f"{title} {heading}", 0 if title else text.find("\n"))
    for place in np.argsort(-nats, kind="stable")[:_TRIED]:
        if not np.isfinite(nats[place]):
            break
        i, j = starts[place], ends[place]
        start, end = whole_item(text, *trimmed(text, window.places[i][0], window.places[j][1]))
        end = core(text, start, end, question)
        if _folded(text[start:end]) != named and fits(text, start, end):
            return Span(start, end, float(nats[place]) - null, float(nats[place] - total))
    return None


@lru_cache(maxsize=64)
def _label_matches(text: str, question: str) -> tuple[FloatArray, NDArray[np.int64]]:
    """Returns how well the label of each line matches the question, 0 to 1, and where the first label ends, [lines]."""
    asked = without_deixis(question)
    own = tokenize(asked)
    known = [*own, *implied(asked)]
    matches, ends, place, wholes = list[float](), list[int](), 0, list[frozenset[str]]()
    meant = [word for word in implied(asked) if word not in own]
    for line in text.split("\n"):
        labels = list(labels_of(line))
        matches.append(best_label(labels, known, own, rarity))
        wholes.append(frozenset().union(*labels))
        end = re.search(r"[:=|]\s|\s-\s", line)
        ends.append(place + (end.end() if end else 0))
        place += len(line) + 1
    meaning = next((word for word in meant if any(word in label for label in wholes)), "")
    for number, label in enumerate(wholes):  # "Elevation" is not asked for if there is a "Height"
        if meaning not in label and not label.isdisjoint(meant) and label.isdisjoint(own):
            matches[number] = -np.inf
    return np.array(matches, np.float32), np.array(ends)


@lru_cache(maxsize=64)  # a text is read window by window
def _ends(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the first character behind the end of each line, and of each line or sentence, ascending."""
    lines = [found.end() for found in re.finditer("\n", text)]
    return np.array(lines, np.int64), np.array([found.end() for found in _SENTENCE_END.finditer(text)], np.int64)


@lru_cache(maxsize=64)
def _bounds(text: str) -> tuple[frozenset[int], frozenset[int]]:
    """Returns where answers may begin and end: at words, and at the signs that touch them."""
    first, last = set[int](), set[int]()
    for word in _WORD.finditer(text):
        start, end = word.span()
        first.add(start)
        last.add(end)
        while start and text[start - 1] in _BEFORE + "(\u201c\"'":
            start -= 1
            first.add(start)
        while end < len(text) and text[end] in _AFTER + ")\u201d.!?":
            end += 1
            last.add(end)
    return frozenset(first), frozenset(last)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a span without punctuation around it, or a bracket or quotation mark whose counterpart is outside.

    Example:
        >>> text = "It is a tower (332.9 m)."
        >>> text[slice(*trimmed(text, 6, 22))], text[slice(*trimmed(text, 8, 22))]
        ('a tower (332.9 m)', 'tower (332.9 m)')
    """
    start += len(text[start:end]) - len(text[start:end].lstrip(" ,;:.|\n"))
    end = start + len(text[start:end].rstrip(" ,;:|\n"))
    if text[start:end].isdigit() and (other := _OTHER_END.match(text, end)):
        end = other.end()
    for opened, closed in ("()", "[]", "\u201c\u201d", '""'):
        inner = text[start:end]
        more = inner.count(opened) - inner.count(closed) if opened != closed else inner.count(opened) % 2
        if more > 0 and text[end : end + 1] == closed:
            end += 1
        elif more > 0 and inner.startswith(opened):
            start += 1
        elif more > 0 and opened != closed:
            end = start + len(inner[: inner.rindex(opened)].rstrip())
        elif more and inner.endswith(closed) and not re.search(r'\d"$', inner):
            end -= 1
    if re.search(r"(?:^|\s)\w[\w'-]*\.$", text[start:end]) and text[end - 2].islower():
        end -= 1  # the sentence's period
    return start, end


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+|\b(?:the|an?)\b", "", text.casefold())
