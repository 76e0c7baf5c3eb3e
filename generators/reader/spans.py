"""Spans of a section as answers: whole words of one sentence; quantities keep their units, signs and both ends."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from generators.reader.kinds import MONTH, NUMBER, SCALE, UNIT, core, kind_of_answer
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
NAMED, BINOMIAL = 2.0, 12.0
"""Nats that a number gains before what the question counts, and a name behind the question's verb and "by"; that a
value in the form of a species' name gains if the question asks for a Latin name."""
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
_AMOUNT = NUMBER
_PART = rf"\s\d[\d.,]*\s?{UNIT}(?!\w)"
_MORE = re.compile(rf"(?:\s?-?(?:%|\u00b0\s?[CF]?|{UNIT})(?!\w))+(?:{_PART})?", re.IGNORECASE)
_SCALES = re.compile(rf"(?:\s{SCALE}(?!\w))+", re.IGNORECASE)
_ANOTHER_PART = re.compile(_PART, re.IGNORECASE)
_MONTH_AFTER = re.compile(rf"\s{MONTH}(?:\s\d{{4}})?(?!\w)", re.IGNORECASE)
_ENDS_IN_MONTH = re.compile(rf"(?<!\w){MONTH}$", re.IGNORECASE)
_YEAR_AFTER = re.compile(r"(?:\s\d{1,2},)?\s(?:1\d|20)\d\d(?!\w)")
_LAST_NUMBER = re.compile(r",? (?:and|or) \d[\d.]*(?![\d,])")
_ENDS_IN_DAY = re.compile(r"(?<![\d.,])\d{1,2}$")
_ENDS_IN_AMOUNT = re.compile(rf"(?<!\w){_AMOUNT}$", re.IGNORECASE)
_ENDS_IN_UNIT = re.compile(rf"(?<!\w)\d[\d.,]*\s?{UNIT}$", re.IGNORECASE)
_HOW_MANY = re.compile(r"\bhow many\b", re.IGNORECASE)
_WORDS = re.compile(r"[^\W_]+")
_COUNTED = re.compile(r"\bhow many (\w{3,})", re.IGNORECASE)
_HEDGE = r"(?:(?:more|less|fewer) than|at least|up to|over|under|about|around|some|nearly|almost|approximately)"
_WHO = re.compile(r"\b(?:who|whom)\b", re.IGNORECASE)
_TO = r"\s?(?:-|\u2013|\u2014|to|or)\s?"
_RANGE_AFTER = re.compile(rf"{_TO}{_AMOUNT}(?!\w)", re.IGNORECASE)
_RANGE_BEFORE = re.compile(rf"(?<!\w){_AMOUNT}{_TO}$", re.IGNORECASE)


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
        question: The question; "how many" names the unit itself.
        text: The section.
        title: The article's title, which is no answer.
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
    gaining, gain = _named_places(text, question)
    nats += (gain * np.isin(places, gaining))[starts]
    if likeness is not None:
        best = np.full(len(lines) + 1, -np.inf, np.float32)
        np.maximum.at(best, line[starts], np.where(behind[starts], nats - null, -np.inf))
        gained = gains(question, text, best, likeness) * (1 + AGREED * np.maximum(matches, 0))
        nats += (gained[line] * behind)[starts]
    total = np.logaddexp(np.logaddexp.reduce(nats), null)
    named, counted = _folded(title), bool(_HOW_MANY.search(question))
    fits = kind_of_answer(question, f"{title} {heading}")
    for place in np.argsort(-nats, kind="stable")[:_TRIED]:
        if not np.isfinite(nats[place]):
            break
        i, j = starts[place], ends[place]
        start, end = whole(text, window.places[i][0], window.places[j][1], counted)
        if not counted:
            start, end = whole_item(text, start, end)
        end = _without_echo(text, start, end, question)
        start, end = core(text, start, end, question)
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
        labels = list(labels_of(_spelled_out(line, asked)))
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
def _named_places(text: str, question: str) -> tuple[list[int], float]:
    """Returns where numbers stand before what a question counts ("two tracks"), or names behind its verb and "by".

    Or values in the form of a species' name, if that is asked for; and what they gain, in nats.
    """
    if _SPECIES.search(question):
        return [found.start() for found in _BINOMIAL.finditer(text)], BINOMIAL
    if counted := _COUNTED.search(question):
        thing = rf"(?<![\w.,])((?:{_HEDGE}\s)?)({_AMOUNT})(?:\s[^\W\d]+){{0,2}}?\s{re.escape(_stem(counted[1]))}\w*"
        return [found.start(part) for found in re.finditer(thing, text, re.IGNORECASE) for part in (1, 2)], NAMED
    if _WHO.search(question):
        verbs = "|".join(re.escape(word) for word in _WORDS.findall(question) if len(word) > 3)
        behind = re.finditer(rf"\b(?:{verbs}) by (?:the )?", text, re.IGNORECASE) if verbs else ()
        return [found.end() for found in behind], NAMED
    return [], NAMED


def _stem(word: str) -> str:
    """Returns a noun without the end of its plural."""
    return re.sub(r"(?<=\w\w\w)(?:ies|es|s)$", "", word)


def _spelled_out(line: str, question: str) -> str:
    """Returns a line whose abbreviations are written as in a question: "Max. speed"."""
    words = _WORDS.findall(question)

    def word(found: re.Match[str]) -> str:
        return next((one for one in words if one.casefold().startswith(found[1].casefold())), found[0])

    return re.sub(r"\b([^\W\d_]{2,5})\.(?=\s)", word, line) if "." in line else line


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


def whole(text: str, start: int, end: int, counted: bool = False) -> tuple[int, int]:
    """Returns a span with the rest of a quantity, and without punctuation around it.

    Args:
        text: The text.
        start: First character of the span.
        end: Last character, exclusive.
        counted: Whether the question names what is counted, so that no unit is added.

    Example:
        >>> text = "about $4.2 million (2020), or 3 to 5 ft"
        >>> [text[slice(*whole(text, *place))] for place in ((7, 10), (30, 31))]
        ['$4.2 million', '3 to 5 ft']
    """
    start += len(text[start:end]) - len(text[start:end].lstrip(" ,;:.|\n"))
    end = start + len(text[start:end].rstrip(" ,;:|\n"))
    line_end = text.find("\n", end)
    line = text.rfind("\n", 0, start) + 1, len(text) if line_end < 0 else line_end  # a quantity does not cross its end
    found = _RANGE_BEFORE.search(text, max(line[0], start - 24), start)
    if found and re.match(rf"{_AMOUNT}(?!\w)", text[start:end], re.IGNORECASE):
        start = found.start()
    while start and text[start - 1] in _BEFORE and (start < 2 or not text[start - 2].isalnum()):
        start -= 1
    if _ENDS_IN_AMOUNT.search(text, max(0, end - 24), end):
        if found := _RANGE_AFTER.match(text, end, line[1]):
            end = found.end()
        if _ENDS_IN_DAY.search(text, start, end) and (found := _MONTH_AFTER.match(text, end, line[1])):
            return _balanced(text, start, found.end())
        if re.search(r"\d, \d[\d.]*$", text[start:end]) and (found := _LAST_NUMBER.match(text, end, line[1])):
            end = found.end()
        if found := (_SCALES if counted else _MORE).match(text, end, line[1]):
            end = found.end()
        while end < len(text) and text[end] in _AFTER and text[end - 1].isdigit():
            end += 1
    else:
        for ends, rest in ((_ENDS_IN_MONTH, _YEAR_AFTER), (_ENDS_IN_UNIT, _ANOTHER_PART)):
            if ends.search(text, max(0, end - 24), end) and (found := rest.match(text, end, line[1])):
                end = found.end()
                break
    return _balanced(text, start, end)


def _without_echo(text: str, start: int, end: int, question: str) -> int:
    """Returns the end of a quantity without its last words if the question has them: "3 m" of "3 m tall"."""
    asked = {word.casefold() for word in _WORDS.findall(question)}
    amount = re.match(rf"\W?{_AMOUNT}(?:{_TO}{_AMOUNT})?(?!\w)", text[start:end], re.IGNORECASE)
    if amount is not None:
        found = list(_WORDS.finditer(text, start + amount.end(), end))
        if _HOW_MANY.search(question) and found and found[0][0].casefold() in asked:  # "2" of "2 adults and 1"
            return start + amount.end()
        while found and found[-1][0].casefold() in asked:
            found.pop()
            end = found[-1].end() if found else start + amount.end()
    return end


def _balanced(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a span without a bracket or quotation mark whose counterpart is outside."""
    for opened, closed in ("()", "[]", "\u201c\u201d"):
        inner = text[start:end]
        if inner.count(opened) > inner.count(closed):
            if end < len(text) and text[end] == closed:
                end += 1
            elif inner.startswith(opened):
                start += 1
            else:
                end = start + len(inner[: inner.rindex(opened)].rstrip())
        elif inner.count(closed) > inner.count(opened):
            end = start + inner.rindex(closed) if inner.endswith(closed) else end
    inner = text[start:end]
    if inner.count('"') == 1 and not re.search(r'\d"$', inner):
        start, end = start + inner.startswith('"'), end - inner.endswith('"')
    if re.search(r"(?:^|\s)\w[\w'-]*\.$", text[start:end]) and text[end - 2].islower():
        end -= 1  # the sentence's period
    return start, end


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+|\b(?:the|an?)\b", "", text.casefold())
