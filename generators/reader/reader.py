"""The embedded generator: answers with a short span of the evidence, and abstains when nothing fits."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace

from generators.reader.question import GENERIC, Asked, Kind, analyze
from generators.reader.spans import DATE, NAME, QUOTED, UNITS, YEAR, Field, Number, Span, fields, head, numbers, strip
from retriever.lexical import STOP_WORDS, Lexicon, Synonyms, load_synonyms, tokenize, words
from retriever.types import Evidence, Generation, GenerationRequest

NEUTRAL = frozenset(
    tokenize("total name title overall number description noun conventional short form average type note year rate")
)
"""Words that a label may have beyond the question's."""
SYNONYM = 0.85
"""What a synonym counts against the question's own word."""
MENTION = 0.35
"""What a word in a value counts against the same word in its label."""
IMPLIED = 0.75
"""What a unit counts for the quantity that it measures."""
_MEASURES = {"area": "area", "length": "length", "mass": "mass", "time": "ag", "count": "popul", "share": "percentag"}
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
class Answer:
    """A candidate answer: its text, where it stands, and how well it fits."""

    text: str
    span: Span
    score: float


class ExtractiveReader:
    """Answers with a span of the evidence; a `Generator` without weights.

    Args:
        threshold: Score below which it abstains; a good answer scores 1.2 to 1.8.
        synonyms: Phrase -> phrases that may stand for it; the shipped table when left out.
    """

    name = "extractive-reader"

    def __init__(self, threshold: float = 0.8, synonyms: Synonyms | None = None) -> None:
        self.threshold = threshold
        self._lexicon = Lexicon(load_synonyms() if synonyms is None else synonyms)

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer for each request."""
        return [self.read(request.question, request.evidence) for request in requests]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer in one piece, unless it abstains, and then the whole."""
        generation = self.read(request.question, request.evidence)
        if generation.answer is not None:
            yield generation.answer
        yield generation

    def read(self, question: str, evidence: Evidence | None) -> Generation:
        """Returns the best span of the evidence, or an abstention with its (low) confidence."""
        if evidence is None or not evidence.text.strip():
            return Generation(None, 0.0)
        asked = analyze(question, self._lexicon)
        candidates = [
            replace(answer, score=answer.score - 0.002 * rank)
            for rank, field in enumerate(fields(evidence.text))
            for answer in _answers(evidence, field, asked)
        ]
        best = max(candidates, key=lambda answer: answer.score, default=None)
        if best is None:
            return Generation(None, 0.0)
        confidence = 1 / (1 + math.exp(-5 * (best.score - self.threshold)))
        if best.score < self.threshold:
            return Generation(None, confidence)
        return Generation(best.text, confidence, (best.span.start, best.span.end))


def _answers(evidence: Evidence, field: Field, asked: Asked) -> Iterator[Answer]:
    relevance = _relevance(evidence.text, field, asked)
    if relevance > 0.3:
        candidates = _prose(evidence, field, asked) if field.prose else _labeled(evidence.text, field, asked)
        for answer in candidates:
            yield replace(answer, score=answer.score + relevance)


def _relevance(text: str, field: Field, asked: Asked) -> float:
    """Returns how well labels (or a sentence) cover the question, 0 to 1, plus up to 0.5 if labels say no more."""
    value = frozenset(tokenize(text[field.span.start : field.span.end]))
    measured = {UNITS[number.unit][0] for number in numbers(text, field.span) if number.unit} & _MEASURES.keys()
    labels = [frozenset(tokenize(label)) for label in field.labels]
    path = frozenset().union(*labels)
    covered, whole, used = 0.0, 0.0, set[str]()
    for concept, weight in asked.concepts:
        best = 0.0
        for i, phrase in enumerate(concept.phrases):
            quality = 1.0 if i < concept.literal else SYNONYM
            if path.issuperset(phrase):
                used.update(phrase)
                best = max(best, quality)
            elif (path | value).issuperset(phrase):
                best = max(best, quality * (0.95 if field.prose else MENTION))
        if asked.dimension in measured and (_MEASURES[asked.dimension],) in concept.phrases:
            best = max(best, IMPLIED)  # "covers 446,550 square kilometres" speaks of an area
        covered += weight * best
        whole += weight
    if not whole:
        return 0.0
    return covered / whole + (0.0 if field.prose else 0.5 * _precision(field.labels, used))


def _precision(labels: Sequence[str], used: set[str]) -> float:
    """Returns how much of the labels the question asked for; of "Manufacturer and volume" the better half counts."""
    matched = spare = 0.0
    for depth, label in enumerate(labels):
        parts = [
            frozenset(tokenize(part)) for part in re.split(r"\s+(?:and|or)\s+|/|,", re.sub(r"\([^)]*\)", "", label))
        ]
        part = max(parts, key=lambda words: len(words & used) / (len(words) or 1))
        matched += len(part & used)
        spare += len(part - used - NEUTRAL) * (1.0 if depth == len(labels) - 1 else 0.7)
    return matched / (matched + spare) if matched else 0.0


def _labeled(text: str, field: Field, asked: Asked) -> Iterator[Answer]:
    label = " ".join(field.labels)
    year = 0.0
    if asked.year and (years := YEAR.findall(label)):
        year = 0.3 if asked.year in years else -0.3
    if asked.kind is Kind.NUMBER:
        for number in _best_numbers(text, field.span, asked):
            yield replace(number, score=number.score + year)
        return
    if asked.kind in (Kind.DATE, Kind.YEAR):
        pattern = DATE if asked.kind is Kind.DATE else YEAR
        if match := pattern.search(text, field.span.start, field.span.end):
            yield Answer(match[0], Span(*match.span()), 0.3 + year)
        return
    if asked.kind is Kind.YES_NO:
        if match := re.compile(r"yes|no", re.I).match(text, field.span.start, field.span.end):
            yield Answer(match[0].lower(), Span(*match.span()), 0.3)
        return
    span = _extreme(text, field, asked) if asked.extreme else field.span
    if asked.kind is Kind.LIST:
        end = re.compile(r";\s*note|\s+note:|\n|$").search(text, span.start, span.end)
        span = strip(text, Span(span.start, end.start() if end else span.end), " ;.")
    else:
        span = head(text, span)
    answer = text[span.start : span.end]
    if answer:
        figure = re.match(r"[-\u2212<~$]?\d", answer) is not None and asked.kind is Kind.NAME
        length = len(answer.split())
        yield Answer(answer, span, 0.3 + year - 0.4 * figure - 0.02 * max(length - 10, 0))


def _extreme(text: str, field: Field, asked: Asked) -> Span:
    """Returns the item of "A - 3 km; B - 5 km" with the largest (or smallest) figure."""
    items, begin = [], field.span.start
    for match in re.finditer(r";\s*|$", text[field.span.start : field.span.end]):
        item = Span(begin, field.span.start + match.start())
        begin = field.span.start + match.end()
        if figures := numbers(text, item):
            items.append((asked.extreme * figures[-1].value, -item.start, item))
    return max(items)[2] if len(items) > 1 else field.span


def _best_numbers(text: str, span: Span, asked: Asked) -> Iterator[Answer]:
    found = numbers(text, span)
    for order, number in enumerate(found):
        dimension, size, _ = UNITS[number.unit] if number.unit else ("", 1.0, "")
        wanted, wanted_size, _ = UNITS[asked.unit] if asked.unit else (asked.dimension, size, "")
        score = 0.3 - 0.06 * min(order, 4) - 0.25 * number.enclosed
        if wanted and dimension:
            score += 0.25 if wanted == dimension else -0.4
        if asked.year:
            year = number.year or ""
            score += 0.3 if year == asked.year else -0.15 if year else 0.0
        if not number.unit and YEAR.fullmatch(text[number.span.start : number.span.end]):
            score -= 0.5
        factor = size / wanted_size if dimension == wanted and asked.unit else 1.0
        place = number.span if asked.bare else number.full
        answer = _figure(text, number, asked, factor)
        if (
            order + 1 < len(found)
            and _TO.fullmatch(text[number.full.end : found[order + 1].span.start])
            and factor == 1
        ):
            last = found[order + 1].span if asked.bare else found[order + 1].full  # "34 to 38.5 cm"
            place = Span(place.start, last.end)
            answer = text[place.start : place.end]
        yield Answer(answer, place, score)


def _figure(text: str, number: Number, asked: Asked, factor: float) -> str:
    if not math.isclose(factor, 1.0):
        return f"{number.value * factor:.6g}"
    if not asked.bare:
        return text[number.full.start : number.full.end]
    multiplier = re.compile(r"\s?(?:thousand|million|billion|trillion)\b").match(text, number.span.end)
    return text[number.span.start : multiplier.end() if multiplier else number.span.end]


def _prose(evidence: Evidence, field: Field, asked: Asked) -> Iterator[Answer]:
    text, span = evidence.text, field.span
    anchors = _anchors(text, span, asked)
    if not anchors:
        return

    def near(candidate: Span) -> float:
        distance = min(max(candidate.start - end, start - candidate.end, 0) for start, end in anchors)
        return 0.3 * math.exp(-distance / 30)

    if asked.kind is Kind.NUMBER:
        for answer in _best_numbers(text, span, asked):
            yield replace(answer, score=answer.score + near(answer.span))
    elif asked.kind in (Kind.DATE, Kind.YEAR):
        for match in (DATE if asked.kind is Kind.DATE else YEAR).finditer(text, span.start, span.end):
            yield Answer(match[0], Span(*match.span()), 0.2 + near(Span(*match.span())))
    elif asked.kind is Kind.YES_NO:
        sentence = text[span.start : span.end]
        yield Answer("no" if _NEGATED.search(sentence) else "yes", span, 0.0)
    else:
        for match in QUOTED.finditer(text, span.start, span.end):
            yield Answer(match[1], Span(*match.span(1)), 0.25 + near(Span(*match.span())))
        for candidate, bonus in _phrases(text, span, anchors, asked):
            phrase = text[candidate.start : candidate.end]
            if phrase and not _repeats(phrase, asked):
                if set(tokenize(phrase)) <= set(tokenize(evidence.entity_title)):
                    bonus -= 0.2
                if asked.kind is Kind.NAME:
                    bonus += 0.1 if re.match(r"[A-ZÀ-Þ.]", phrase) else -0.3 * bool(re.search(r"\d", phrase))
                yield Answer(phrase, candidate, bonus + near(candidate) - 0.01 * len(phrase.split()))


def _anchors(text: str, span: Span, asked: Asked) -> list[Span]:
    """Returns where a sentence says what the question asks about."""
    most = max((weight for _, weight in asked.concepts), default=1.0)
    main = [concept for concept, weight in asked.concepts if weight == most]
    wanted = {word for concept in main for phrase in concept.phrases for word in phrase}
    found = [Span(*match.span()) for match in re.compile(r"[^\W\d_]+").finditer(text, span.start, span.end)]
    measures = [
        number.full for number in numbers(text, span) if number.unit and UNITS[number.unit][0] == asked.dimension
    ]
    return [place for place in found if wanted.intersection(words(text[place.start : place.end]))] + measures


def _phrases(text: str, span: Span, anchors: list[Span], asked: Asked) -> Iterator[tuple[Span, float]]:
    """Yields names of a sentence, and what follows "... is" right after an anchor, with a bonus each."""
    after = max((anchor.end for anchor in anchors), default=span.start)
    for anchor in anchors:
        copula = _COPULA.search(text, anchor.end, min(anchor.end + 60, span.end))
        if copula:
            end = _PHRASE_END.search(text, copula.end(), span.end)
            stop = end.start() if end and asked.kind is not Kind.LIST else span.end
            closest = 0.1 if anchor.end == after else 0.0
            yield strip(text, Span(copula.end(), stop), ' ,.;"“”'), 0.15 + closest
        elif follows := _OBJECT.match(text, anchor.end, span.end):  # "feeds on insects"
            end = _PHRASE_END.search(text, follows.end(), span.end)
            yield strip(text, Span(follows.end(), end.start() if end else span.end), " ,.;"), 0.05
    for copula in _COPULA.finditer(text, span.start, span.end):  # "is a constitutional monarchy": the anchor answers
        end = _PHRASE_END.search(text, copula.end(), span.end)
        stop = end.start() if end else span.end
        inside = [anchor for anchor in anchors if copula.end() <= anchor.start < stop]
        if inside and not asked.words.intersection(words(text[inside[-1].start : inside[-1].end])):
            yield strip(text, Span(copula.end(), stop), " ,.;"), 0.3
    if asked.kind is Kind.LIST:
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


def _repeats(answer: str, asked: Asked) -> bool:
    content = set(tokenize(answer)) - GENERIC
    known = {word for concept, _ in asked.concepts for phrase in concept.phrases for word in phrase} | asked.words
    return not answer.startswith(("+", ".")) and content <= known
