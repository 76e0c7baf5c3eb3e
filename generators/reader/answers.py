"""Candidate answers within one field of the evidence, scored by how well they fit the kind of answer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from generators.reader.fields import Field
from generators.reader.question import GENERIC, AnalyzedQuestion, AnswerKind
from generators.reader.spans import DATE, NAME, QUOTED, UNITS, YEAR, Number, Span, head, numbers, strip
from retriever.lexical import STOP_WORDS, tokenize, words
from retriever.types import Evidence

_COPULA = re.compile(
    r"(?:\b(?:is|are|was|were|became|remains)\b(?:\s+(?:called|named|known as|titled|entitled|estimated at|about|"
    r"described as|put at|that of|given as|quoted in|made in))?"
    r"|\b(?:called|named|titled|entitled|known as)\b|,\s+(?=[A-ZÀ-Þ\"“]))\s*(?:the\s+|an?\s+)?"
)
_PHRASE_END = re.compile(
    r"\.(?!\d)|[;:()]|,(?!\d{3})|\s+(?:and|which|that|with|in|at|on|since|where|who|whose|while|but|after|from|located|under|as|"
    r"because|when|until|it|its|by|near)\b|$"
)
_TO = re.compile(r"\s*(?:-|\u2013|to)\s*")
_OBJECT = re.compile(r"\s+(?:on|of|by|from|in|at|to|as)\s+(?:the\s+|an?\s+)?")
_ENUMERATION = re.compile(rf"(?:{NAME.pattern})(?:(?:, and |, | and | or )(?:the )?(?:{NAME.pattern}))+")
_NEGATED = re.compile(r"\b(?:no|not|never|none|neither|without)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """A candidate answer.

    Attributes:
        text: The answer as it is given; a converted figure differs from the evidence.
        span: The characters of the evidence it was read from.
        score: How well it fits; higher is better.
    """

    text: str
    span: Span
    score: float


def labeled_answers(evidence: Evidence, field: Field, question: AnalyzedQuestion) -> Iterator[AnswerSpan]:
    """Yields the answers that a labeled value holds."""
    text = evidence.text
    label = " ".join(field.labels)
    year = 0.0
    if question.year and (years := YEAR.findall(label)):
        year = 0.3 if question.year in years else -0.3
    if question.kind is AnswerKind.NUMBER:
        for number in _best_numbers(text, field.span, question):
            yield replace(number, score=number.score + year)
        return
    if question.kind in (AnswerKind.DATE, AnswerKind.YEAR):
        pattern = DATE if question.kind is AnswerKind.DATE else YEAR
        if match := pattern.search(text, field.span.start, field.span.end):
            yield AnswerSpan(match[0], Span(*match.span()), 0.3 + year)
        return
    if question.kind is AnswerKind.YES_NO:
        if match := re.compile(r"yes|no", re.I).match(text, field.span.start, field.span.end):
            yield AnswerSpan(match[0].lower(), Span(*match.span()), 0.3)
        return
    span = _extreme(text, field, question) if question.extreme else field.span
    if question.kind is AnswerKind.LIST:
        end = re.compile(r";\s*note|\s+note:|\n|$").search(text, span.start, span.end)
        span = strip(text, Span(span.start, end.start() if end else span.end), " ;.")
    else:
        span = head(text, span)
    answer = text[span.start : span.end]
    if answer:
        figure = re.match(r"[-\u2212<~$]?\d", answer) is not None and question.kind is AnswerKind.NAME
        length = len(answer.split())
        yield AnswerSpan(answer, span, 0.3 + year - 0.4 * figure - 0.02 * max(length - 10, 0))


def _extreme(text: str, field: Field, question: AnalyzedQuestion) -> Span:
    """Returns the item of "A - 3 km; B - 5 km" with the largest (or smallest) figure."""
    items, begin = [], field.span.start
    for match in re.finditer(r";\s*|$", text[field.span.start : field.span.end]):
        item = Span(begin, field.span.start + match.start())
        begin = field.span.start + match.end()
        if figures := numbers(text, item):
            items.append((question.extreme * figures[-1].value, -item.start, item))
    return max(items)[2] if len(items) > 1 else field.span


def _best_numbers(text: str, span: Span, question: AnalyzedQuestion) -> Iterator[AnswerSpan]:
    """Yields the numbers of a span, scored by unit, year and position."""
    found = numbers(text, span)
    for order, number in enumerate(found):
        dimension, size, _ = UNITS[number.unit] if number.unit else ("", 1.0, "")
        wanted, wanted_size, _ = UNITS[question.unit] if question.unit else (question.dimension, size, "")
        score = 0.3 - 0.06 * min(order, 4) - 0.25 * number.enclosed
        if wanted and dimension:
            score += 0.25 if wanted == dimension else -0.4
        if question.year:
            year = number.year or ""
            score += 0.3 if year == question.year else -0.15 if year else 0.0
        if not number.unit and YEAR.fullmatch(text[number.span.start : number.span.end]):
            score -= 0.5
        factor = size / wanted_size if dimension == wanted and question.unit else 1.0
        place = number.span if question.bare else number.full
        answer = _figure(text, number, question, factor)
        if (
            order + 1 < len(found)
            and _TO.fullmatch(text[number.full.end : found[order + 1].span.start])
            and factor == 1
        ):
            last = found[order + 1].span if question.bare else found[order + 1].full  # "34 to 38.5 cm"
            place = Span(place.start, last.end)
            answer = text[place.start : place.end]
        yield AnswerSpan(answer, place, score)


def _figure(text: str, number: Number, question: AnalyzedQuestion, factor: float) -> str:
    """Returns a number as the question wants it: converted, bare, or with its unit."""
    if not math.isclose(factor, 1.0):
        return f"{number.value * factor:.6g}"
    if not question.bare:
        return text[number.full.start : number.full.end]
    multiplier = re.compile(r"\s?(?:thousand|million|billion|trillion)\b").match(text, number.span.end)
    return text[number.span.start : multiplier.end() if multiplier else number.span.end]


def prose_answers(evidence: Evidence, field: Field, question: AnalyzedQuestion) -> Iterator[AnswerSpan]:
    """Yields the answers that a sentence holds, those close to what the question names first in score."""
    text, span = evidence.text, field.span
    anchors = _anchors(text, span, question)
    if not anchors:
        return

    def near(candidate: Span) -> float:
        distance = min(max(candidate.start - end, start - candidate.end, 0) for start, end in anchors)
        return 0.3 * math.exp(-distance / 30)

    if question.kind is AnswerKind.NUMBER:
        for answer in _best_numbers(text, span, question):
            yield replace(answer, score=answer.score + near(answer.span))
    elif question.kind in (AnswerKind.DATE, AnswerKind.YEAR):
        for match in (DATE if question.kind is AnswerKind.DATE else YEAR).finditer(text, span.start, span.end):
            yield AnswerSpan(match[0], Span(*match.span()), 0.2 + near(Span(*match.span())))
    elif question.kind is AnswerKind.YES_NO:
        sentence = text[span.start : span.end]
        yield AnswerSpan("no" if _NEGATED.search(sentence) else "yes", span, 0.0)
    else:
        for match in QUOTED.finditer(text, span.start, span.end):
            yield AnswerSpan(match[1], Span(*match.span(1)), 0.25 + near(Span(*match.span())))
        for candidate, bonus in _phrases(text, span, anchors, question):
            phrase = text[candidate.start : candidate.end]
            if phrase and not _repeats(phrase, question):
                if set(tokenize(phrase)) <= set(tokenize(evidence.entity_title)):
                    bonus -= 0.2
                if question.kind is AnswerKind.NAME:
                    bonus += 0.1 if re.match(r"[A-ZÀ-Þ.]", phrase) else -0.3 * bool(re.search(r"\d", phrase))
                yield AnswerSpan(phrase, candidate, bonus + near(candidate) - 0.01 * len(phrase.split()))


def _anchors(text: str, span: Span, question: AnalyzedQuestion) -> list[Span]:
    """Returns the spans of a sentence that name what the question is about."""
    most = max((weight for _, weight in question.concepts), default=1.0)
    main = [concept for concept, weight in question.concepts if weight == most]
    wanted = {word for concept in main for phrase in concept.phrases for word in phrase}
    found = [Span(*match.span()) for match in re.compile(r"[^\W\d_]+").finditer(text, span.start, span.end)]
    measures = [
        number.full for number in numbers(text, span) if number.unit and UNITS[number.unit][0] == question.dimension
    ]
    return [place for place in found if wanted.intersection(words(text[place.start : place.end]))] + measures


def _phrases(text: str, span: Span, anchors: list[Span], question: AnalyzedQuestion) -> Iterator[tuple[Span, float]]:
    """Yields the names of a sentence and the phrases after "... is" beside an anchor, each with a bonus."""
    after = max((anchor.end for anchor in anchors), default=span.start)
    for anchor in anchors:
        copula = _COPULA.search(text, anchor.end, min(anchor.end + 60, span.end))
        if copula:
            end = _PHRASE_END.search(text, copula.end(), span.end)
            stop = end.start() if end and question.kind is not AnswerKind.LIST else span.end
            closest = 0.1 if anchor.end == after else 0.0
            yield strip(text, Span(copula.end(), stop), ' ,.;"“”'), 0.15 + closest
        elif follows := _OBJECT.match(text, anchor.end, span.end):  # "feeds on insects"
            end = _PHRASE_END.search(text, follows.end(), span.end)
            yield strip(text, Span(follows.end(), end.start() if end else span.end), " ,.;"), 0.05
    for copula in _COPULA.finditer(text, span.start, span.end):  # "is a constitutional monarchy": the anchor answers
        end = _PHRASE_END.search(text, copula.end(), span.end)
        stop = end.start() if end else span.end
        inside = [anchor for anchor in anchors if copula.end() <= anchor.start < stop]
        if inside and not question.words.intersection(words(text[inside[-1].start : inside[-1].end])):
            yield strip(text, Span(copula.end(), stop), " ,.;"), 0.3
    if question.kind is AnswerKind.LIST:
        for match in _ENUMERATION.finditer(text, span.start, span.end):
            yield Span(*match.span()), 0.3
    for match in NAME.finditer(text, span.start, span.end):
        opening = re.match(r"[^\W\d_]+\s*", match[0])
        skip = opening.end() if opening and words(opening[0])[0] in STOP_WORDS else 0  # "The Zambezi"
        place = Span(match.start() + skip, match.end())
        apposed = text[max(place.start - 2, 0) : place.start] == ", " and any(a.end == place.start - 2 for a in anchors)
        if match[0][0] in ".+":  # an internet domain, a telephone code
            yield place, 0.45
        else:
            yield strip(text, place, " ,.;"), 0.35 if apposed else 0.15


def _repeats(answer: str, question: AnalyzedQuestion) -> bool:
    content = set(tokenize(answer)) - GENERIC
    known = {word for concept, _ in question.concepts for phrase in concept.phrases for word in phrase} | question.words
    return not answer.startswith(("+", ".")) and content <= known
