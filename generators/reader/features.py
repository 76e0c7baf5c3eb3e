"""Candidate spans of the evidence and their features, as one matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from generators.reader.doubts import doubts
from generators.reader.links import links
from generators.reader.question import AnalyzedQuestion
from generators.reader.tokens import PARTICLES, UNITS, Flags, Tokens, is_color, word_set
from retriever.lexical import STOP_WORDS
from retriever.types import FloatArray, IntArray

Columns = list[NDArray[np.float32] | NDArray[np.float64] | Flags]
LONGEST = 12
"""Maximum length of a candidate, in tokens."""
SENTENCES = 6
"""Number of sentences that are searched: those that share most with the question."""
_NEITHER_END = word_set("a an the and or but nor is are was were be been that who which as")
_NEVER_FIRST = _NEITHER_END | word_set("has have had ' \u2019 it its")
_NEVER_LAST = _NEITHER_END | word_set("of in on at by for from to with")
_FIRST_SIGNS = frozenset("$£€#+.<>~-")
_WALLS = frozenset(";:()\n[]")


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate spans.

    Attributes:
        first: First token of each candidate, [n].
        last: Last token of each candidate, [n].
        features: Features of each candidate, [n, features].
        overview: Features of the question and the evidence as a whole, [numbers].
        links: The subset of `features` that link a span to words of the question, [n, links].
        doubts: Evidence against the sentence of each candidate, [n, doubts]; used only for the confidence.
    """

    first: IntArray
    last: IntArray
    features: FloatArray
    overview: FloatArray
    links: FloatArray
    doubts: FloatArray


@dataclass(frozen=True, eq=False)
class _Matched:
    """Matches of the question's words in the evidence.

    Attributes:
        weight: Share of the question that each token matches.
        asked: The number of the question's word that each token matches, or -1.
        words: Number of words in the question.
        found: The question's words that occur in the evidence.
        sentences: Share of the question that each sentence covers.
        clauses: Share of the question that each clause covers.
    """

    weight: FloatArray
    asked: IntArray
    words: int
    found: frozenset[str]
    sentences: FloatArray
    clauses: FloatArray


def candidates(
    tokens: Tokens, question: AnalyzedQuestion, rarity: Mapping[str, float], title: frozenset[str]
) -> Candidates:
    """Returns the candidate answers in the evidence; none if the evidence has no words.

    Args:
        tokens: The evidence.
        question: The question.
        rarity: Stem -> inverse document frequency; "" for any other word.
        title: Stems of the entity's title; a span that repeats it is rarely an answer.
    """
    matched = _match(tokens, question)
    first, last = _spans(tokens, matched.sentences)
    flags, spans = _flags(tokens), _Spans(tokens, first, last)
    columns = _inside(spans, flags) + _cuts(spans, flags) + _near(spans, flags, matched)
    columns += _focus(spans, question) + _rest(spans, flags, matched, rarity, title)
    linked = links(tokens, question, matched.asked, matched.sentences, first, last)
    features = np.concatenate([np.stack([np.asarray(column, np.float32) for column in columns], 1), linked], 1)
    doubted = doubts(tokens, question, title)[tokens.sentence[first]]
    return Candidates(first, last, features, _overview(tokens, question, matched), linked, doubted)


def _match(tokens: Tokens, question: AnalyzedQuestion) -> _Matched:
    """Matches the question's words by stem, or with less weight by their first five letters."""
    order = {word: i for i, word in enumerate(question.words)}
    beginnings = {word[:5]: word for word in order if len(word) >= 5}
    words, shares = list[str](), list[float]()
    for stem in tokens.stems:
        word = stem if stem in order else beginnings.get(stem[:5], "")  # which has no beginning of fewer letters
        words.append(word)
        shares.append(question.words[word] * (1.0 if word == stem else 0.6) if word else 0.0)
    total = sum(question.words.values()) or 1.0
    weight = np.array(shares, np.float32) / np.float32(total)
    asked = np.array([order.get(word, -1) for word in words], np.int64)
    covers = [_coverage(group, asked, weight) for group in (tokens.sentence, tokens.clause)]
    return _Matched(weight, asked, max(len(order), 1), frozenset(words) - {""}, *covers)


def _coverage(group: IntArray, asked: IntArray, weight: FloatArray) -> FloatArray:
    """Returns the share of the question that each group of tokens covers, counting repeated words once."""
    table = np.zeros((int(group.max(initial=0)) + 1, int(asked.max(initial=0)) + 1), np.float32)
    hit = asked >= 0
    np.maximum.at(table, (group[hit], asked[hit]), weight[hit])
    return np.asarray(table.sum(1), np.float32)


def _spans(tokens: Tokens, cover: FloatArray) -> tuple[IntArray, IntArray]:
    """Returns the first and last tokens of the candidates, which cross no sentence, parenthesis or label."""
    lower, count = tokens.lower, len(tokens.lower)
    chosen = np.zeros(len(cover), np.bool_)
    chosen[np.argsort(-cover, kind="stable")[:SENTENCES]] = True
    word = np.array([bool(stem) for stem in tokens.stems], np.bool_)
    can_start = (word | _are(tokens, _FIRST_SIGNS)) & ~_are(tokens, _NEVER_FIRST) & chosen[tokens.sentence]
    can_start &= ~tokens.label
    can_end = word & ~_are(tokens, _NEVER_LAST) | _are(tokens, frozenset("%"))
    walls = np.cumsum([low[0] in _WALLS for low in lower])
    labels = np.cumsum(np.diff(tokens.label.astype(np.int64), prepend=0) != 0)
    starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for length in range(min(LONGEST, count)):
        same = np.ones(count - length, np.bool_)
        for part in (walls, labels, tokens.sentence):
            same &= part[: count - length] == part[length:]
        starts.append(np.flatnonzero(can_start[: count - length] & can_end[length:] & same))
        ends.append(starts[-1] + length)
    return np.concatenate(starts), np.concatenate(ends)


def _are(tokens: Tokens, words: frozenset[str]) -> Flags:
    return np.array([low in words for low in tokens.lower], np.bool_)


@lru_cache(maxsize=1024)
def _flags(tokens: Tokens) -> dict[str, FloatArray]:
    """Returns the token features that do not depend on the question, by name, each float32 [T]."""
    word = np.array([bool(stem) for stem in tokens.stems], np.bool_)
    stop = np.array([stem in STOP_WORDS for stem in tokens.stems], np.bool_)
    verb = np.array([low.endswith(("ed", "ing")) and low.islower() for low in tokens.lower], np.bool_)
    flags = {
        "content": word & ~stop,
        "stop": word & stop,
        "capital": tokens.capital,
        "number": tokens.number,
        "year": np.array([each == "<year>" for each in tokens.classes], np.bool_),
        "month": np.array([each == "<month>" for each in tokens.classes], np.bool_),
        "unit": _are(tokens, UNITS),
        "color": np.array([is_color(low) for low in tokens.lower], np.bool_),
        "comma": _are(tokens, frozenset(",")),
        "and": _are(tokens, frozenset(("and", "or", "&"))),
        "sign": _are(tokens, frozenset("$£€%")),
        "verb": verb & ~tokens.capital,
        "function": _are(tokens, _NEVER_LAST),
    }
    return {name: flag.astype(np.float32) for name, flag in flags.items()}


class _Spans:
    """The candidates with their neighboring tokens."""

    def __init__(self, tokens: Tokens, first: IntArray, last: IntArray) -> None:
        self.tokens, self.first, self.last, self.length = tokens, first, last, last - first + 1
        self.count = count = len(tokens.lower)
        self.before, self.after = np.maximum(first - 1, 0), np.minimum(last + 1, count - 1)
        self.before2, self.after2 = np.maximum(first - 2, 0), np.minimum(last + 2, count - 1)
        self.sentence, self.clause = tokens.sentence[first], tokens.clause[first]
        self.has_before = (first > 0) & (tokens.sentence[self.before] == self.sentence)
        self.has_after = (last < count - 1) & (tokens.sentence[self.after] == tokens.sentence[last])

    def sum(self, values: FloatArray | Flags, start: IntArray | None = None, end: IntArray | None = None) -> FloatArray:
        """Sums the values of the tokens from `start` up to, but not including, `end`; by default those of each span."""
        total = np.concatenate([[0], np.cumsum(values, dtype=np.float64)])
        first, stop = self.first if start is None else start, self.last + 1 if end is None else end
        return np.asarray(total[stop] - total[first], np.float32)


def _inside(spans: _Spans, flags: dict[str, FloatArray]) -> Columns:
    length = spans.length
    columns: Columns = [length == 1, length == 2, length == 3]
    columns += [(length >= 4) & (length <= 5), (length >= 6) & (length <= 8), np.log(length) / 2]
    for flag in flags.values():
        inside = spans.sum(flag)
        columns += [inside > 0, inside / length]
    for name in ("capital", "number", "year", "month", "unit", "content", "verb"):
        columns += [flags[name][spans.first], flags[name][spans.last]]
    return columns


def _cuts(spans: _Spans, flags: dict[str, FloatArray]) -> Columns:
    """Returns features of spans that cut a name, a figure with its unit, or a date in two."""
    tokens, first, last, before, after = spans.tokens, spans.first, spans.last, spans.before, spans.after
    name, number, particle = tokens.capital, tokens.number, _are(tokens, PARTICLES)
    unit, month, comma = flags["unit"] > 0, flags["month"] > 0, flags["comma"] > 0
    content = (flags["content"] > 0) & ~name
    left: Columns = [name[before] & name[first], name[spans.before2] & particle[before] & name[first]]
    right: Columns = [
        name[after] & name[last],
        particle[after] & name[spans.after2] & name[last],
        comma[after] & name[spans.after2] & name[last],
    ]
    columns = [spans.has_before & column for column in left] + [spans.has_after & column for column in right]
    columns += [
        spans.has_before & number[before] & (number[first] | unit[first]),
        spans.has_after & number[last] & (number[after] | unit[after] | month[after]),
        spans.has_before & month[before] & number[first],
        spans.has_after & month[last] & number[after],
        spans.has_before & content[before],
        spans.has_after & content[after],
        spans.has_before & comma[before],
        spans.has_after & comma[after],
        ~spans.has_before,
        ~spans.has_after,
    ]
    return columns


def _near(spans: _Spans, flags: dict[str, FloatArray], matched: _Matched) -> Columns:
    """Returns features of how close the question's words are: in sentence and clauses, beside and in the span."""
    weight, sentences, clauses, count = matched.weight, matched.sentences, matched.clauses, spans.count
    sentence, clause, last_clause = spans.sentence, spans.clause, spans.tokens.clause[spans.last]
    cover, repeated, best = sentences[sentence], spans.sum(weight), sentences.max()
    following = np.minimum(sentence + 1, len(sentences) - 1)
    columns: Columns = [cover, cover - best, cover == best, clauses[clause]]
    columns += [np.maximum(clauses[clause], clauses[last_clause])]
    columns += [clauses[np.maximum(clause - 1, 0)] * (last_clause > 0)]
    columns += [clauses[np.minimum(last_clause + 1, len(clauses) - 1)], last_clause != clause]
    columns += [sentences[np.maximum(sentence - 1, 0)] * (sentence > 0), sentences[following] * (following > sentence)]
    columns += [repeated, repeated / np.maximum(cover, 1e-3), weight[spans.first] > 0, weight[spans.last] > 0]
    columns += [spans.sum(weight > 0) / np.maximum(spans.sum(flags["content"]), 1), sentence / 5, sentence == 0]
    for reach in (2, 4, 8, 16):
        columns += [spans.sum(weight, np.maximum(spans.first - reach, 0), spans.first)]
        columns += [spans.sum(weight, spans.last + 1, np.minimum(spans.last + 1 + reach, count))]
    places = np.concatenate([[-1000], np.flatnonzero(weight > 0), [count + 1000]])
    left = places[np.searchsorted(places, spans.first, "left") - 1]
    right = places[np.searchsorted(places, spans.last, "right")]
    for place, distance in ((left, spans.first - left), (right, right - spans.last)):
        at = np.clip(place, 0, max(count - 1, 0))
        here = (place >= 0) & (place < count) & (spans.tokens.sentence[at] == sentence)
        columns += [np.where(here, np.exp(-(distance - 1) / 4.0), 0.0), here & (distance == 1), here & (distance == 2)]
        columns += [here * weight[at], here * (matched.asked[at] + 1) / matched.words]
        columns += [here & (matched.asked[at] == matched.words - 1), here & (spans.tokens.clause[at] == clause)]
        columns += [here * flags["capital"][at]]
    return columns


def _focus(spans: _Spans, question: AnalyzedQuestion) -> Columns:
    """Returns features of where the noun is that the question asks for: "in the city of ..." for "which city"."""
    wanted = question.focus_stem
    focus = np.array([bool(wanted) and stem == wanted for stem in spans.tokens.stems], np.bool_)
    return [
        spans.has_before & (focus[spans.before] | focus[spans.before2]),
        spans.has_after & focus[spans.after],
        focus[spans.last],
        focus[spans.last] & (spans.length > 1),
        spans.sum(focus) > 0,
        np.full(len(spans.first), bool(focus.any())),
    ]


def _rest(
    spans: _Spans, flags: dict[str, FloatArray], matched: _Matched, rarity: Mapping[str, float], title: frozenset[str]
) -> Columns:
    """Returns features of rarity, repetition of the title, and the label of a labeled value."""
    tokens, clause = spans.tokens, spans.clause
    other = rarity.get("", 1.0)
    rare = np.array([rarity.get(stem, other) if stem else 0.0 for stem in tokens.stems], np.float32)
    titled = spans.sum(np.array([stem in title for stem in tokens.stems], np.float32) * flags["content"])
    contents = np.maximum(spans.sum(flags["content"]), 1)

    def per_clause(values: FloatArray | Flags) -> NDArray[np.float64]:
        counts = np.bincount(tokens.clause, tokens.label * values, minlength=len(matched.clauses))
        return np.asarray(counts[clause], np.float64)

    labels, cover = per_clause(tokens.label), per_clause(matched.weight)
    opens = spans.has_before & _are(tokens, frozenset(":"))[spans.before]
    return [
        titled / contents,
        titled == contents,
        spans.sum(rare) / spans.length / 8,
        np.minimum(labels, 1),
        per_clause(matched.weight > 0) / np.maximum(labels, 1),
        cover,
        opens,
        opens * cover,
        spans.has_after & _are(tokens, frozenset(";\n"))[spans.after],
    ]


def _overview(tokens: Tokens, question: AnalyzedQuestion, matched: _Matched) -> FloatArray:
    best = np.sort(matched.sentences)[::-1]
    missing = [weight for word, weight in question.words.items() if word not in matched.found]
    unnamed = len(question.exact - matched.found)
    numbers = [best[0], best[1] if len(best) > 1 else 0.0, sum(missing) / (sum(question.words.values()) or 1.0)]
    numbers += [max(missing, default=0.0) / 8, matched.words / 10, len(missing) / matched.words]
    focus = float(question.focus_stem in matched.found) if question.focus_stem else 0.5
    numbers += [np.log1p(len(tokens.lower)) / 6, focus]
    numbers += [len(question.exact) / 3, unnamed / 3, float(unnamed > 0)]
    return np.array(numbers, np.float32)
