"""The extractive reader, the generator of the embedded profile: answers with a short span of the evidence.

The evidence is split into fields (`fields.py`), the question is analyzed (`question.py`), every relevant field yields
candidate answers (`answers.py`), and the best one is the answer unless it scores below the threshold.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from generators.reader.answers import AnswerSpan, labeled_answers, prose_answers
from generators.reader.fields import Field, fields
from generators.reader.question import AnalyzedQuestion, analyze
from generators.reader.spans import UNITS, numbers
from retriever.lexical import Lexicon, Synonyms, load_synonyms, tokenize
from retriever.types import Evidence, Generation, GenerationRequest

NEUTRAL = frozenset(
    tokenize("total name title overall number description noun conventional short form average type note year rate")
)
"""Words of a label that cost nothing when the question lacks them."""
SYNONYM = 0.85
"""Weight of a synonym relative to the question's own word."""
MENTION = 0.35
"""Weight of a word in a field's value relative to the same word in its label."""
IN_SENTENCE = 0.95
"""Weight of a word in a sentence relative to the same word in a label."""
IMPLIED = 0.75
"""Weight of a unit that implies the dimension asked for ("446,550 square kilometres": an area)."""
LEAST_RELEVANCE = 0.3
"""Fields below it yield no candidates."""
RANK_PENALTY = 0.002
"""Subtracted per field, so the earlier of two equal answers wins."""
_MEASURES = {"area": "area", "length": "length", "mass": "mass", "time": "ag", "count": "popul", "share": "percentag"}


class ExtractiveReader:
    """Answers with a span of the evidence; a `Generator` without weights.

    Args:
        threshold: Score below which it abstains; good answers score 1.2 to 1.8.
        synonyms: Phrase -> phrases that may replace it in a text; the shipped table by default.
    """

    name = "extractive-reader"

    def __init__(self, threshold: float = 0.8, synonyms: Synonyms | None = None) -> None:
        self.threshold = threshold
        self._lexicon = Lexicon(load_synonyms() if synonyms is None else synonyms)

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request."""
        return [self.read(request.question, request.evidence) for request in requests]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer in one piece unless it abstains, then the whole `Generation`."""
        generation = self.read(request.question, request.evidence)
        if generation.answer is not None:
            yield generation.answer
        yield generation

    def read(self, question: str, evidence: Evidence | None) -> Generation:
        """Returns the best span of the evidence, or an abstention with its (low) confidence."""
        if evidence is None or not evidence.text.strip():
            return Generation(None, 0.0)
        analyzed = analyze(question, self._lexicon)
        candidates = [
            replace(answer, score=answer.score - RANK_PENALTY * rank)
            for rank, field in enumerate(fields(evidence.text))
            for answer in _answers(evidence, field, analyzed)
        ]
        best = max(candidates, key=lambda answer: answer.score, default=None)
        if best is None:
            return Generation(None, 0.0)
        confidence = 1 / (1 + math.exp(-5 * (best.score - self.threshold)))
        if best.score < self.threshold:
            return Generation(None, confidence)
        return Generation(best.text, confidence, (best.span.start, best.span.end))


def _answers(evidence: Evidence, field: Field, question: AnalyzedQuestion) -> Iterator[AnswerSpan]:
    """Yields the candidate answers of a field, the field's relevance included in their scores."""
    relevance = _relevance(evidence.text, field, question)
    if relevance > LEAST_RELEVANCE:
        candidates = prose_answers if field.prose else labeled_answers
        for answer in candidates(evidence, field, question):
            yield replace(answer, score=answer.score + relevance)


def _relevance(text: str, field: Field, question: AnalyzedQuestion) -> float:
    """Scores how much of the question a field covers, 0 to 1, plus up to 0.5 if its labels say nothing else."""
    value = frozenset(tokenize(text[field.span.start : field.span.end]))
    measured = {UNITS[number.unit][0] for number in numbers(text, field.span) if number.unit} & _MEASURES.keys()
    labels = [frozenset(tokenize(label)) for label in field.labels]
    path = frozenset().union(*labels)
    covered, whole, used = 0.0, 0.0, set[str]()
    for concept, weight in question.concepts:
        best = 0.0
        for i, phrase in enumerate(concept.phrases):
            quality = 1.0 if i < concept.literal else SYNONYM
            if path.issuperset(phrase):
                used.update(phrase)
                best = max(best, quality)
            elif (path | value).issuperset(phrase):
                best = max(best, quality * (IN_SENTENCE if field.prose else MENTION))
        if question.dimension in measured and (_MEASURES[question.dimension],) in concept.phrases:
            best = max(best, IMPLIED)
        covered += weight * best
        whole += weight
    if not whole:
        return 0.0
    return covered / whole + (0.0 if field.prose else 0.5 * _precision(field.labels, used))


def _precision(labels: Sequence[str], used: set[str]) -> float:
    """Returns the share of the labels' words that the question used; of "Manufacturer and volume", the better half."""
    matched = spare = 0.0
    for depth, label in enumerate(labels):
        parts = [
            frozenset(tokenize(part)) for part in re.split(r"\s+(?:and|or)\s+|/|,", re.sub(r"\([^)]*\)", "", label))
        ]
        part = max(parts, key=lambda words: len(words & used) / (len(words) or 1))
        matched += len(part & used)
        spare += len(part - used - NEUTRAL) * (1.0 if depth == len(labels) - 1 else 0.7)
    return matched / (matched + spare) if matched else 0.0
