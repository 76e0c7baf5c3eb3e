"""The extractive reader, the generator of the embedded profile: answers with a span of a section.

A trained model scores every span of the evidence, and of the article's next sections, against "no answer" (`model.py`,
`pretraining/reader`). The best one is the answer (`spans.py`), unless the model is
not confident enough.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from generators.reader.closed import in_own_words, is_closed, verdict
from generators.reader.comparisons import Comparison, comparison_of, is_true
from generators.reader.model import WEIGHTS_FILE, SpanModel, Window, windows
from generators.reader.names import asks_description, asks_name, first_sentence
from generators.reader.spans import Span, best_span
from generators.reader.titles import posed, unposed
from generators.things import about_each
from retriever.lexical import is_english
from retriever.models.bm25 import BM25
from retriever.types import Evidence, Generation, GenerationRequest

PRIOR = 16.0
"""Weight of step 3's scores, 0 to 1, against the margins of spans; chosen on Atlas's dev questions."""
SURE = 6.0
"""Margin in nats from which a span is the answer, without a look at other windows and sections."""
PLAIN = 0.87
"""Confidence of a sentence that has all words of a yes-or-no question: on BoolQ, 52 of 60 such answers are right."""
ALIKE = 0.45
"""Least cosine of a yes-or-no question and `label: yes`: of 16 pairs, those that mean the same have .53 to .88."""
_BARE = re.compile(r"(?:yes|no|true|false)\.?", re.IGNORECASE)
_NO_VALUE = re.compile(r"(?<![\w/])n/a(?![\w/])", re.IGNORECASE)
"""What tables have in place of a value; "NA" and "none" may be one."""


_WORDS = BM25()
Request = tuple[str, Sequence[Evidence], Sequence[float]]
"""A question, sections, and how far step 3 ranks each below the first one."""


class Choice(NamedTuple):
    """The best span for a question: the section it is in, the span, and the signs of its confidence."""

    section: int
    span: Span
    signs: tuple[float, ...]


def signs_of(question: str, span: Span) -> tuple[float, ...]:
    """Returns the inputs of the confidence: margin, share, and whether the question is closed."""
    return span.margin, span.share, float(is_closed(question))


def choose(model: SpanModel, requests: Sequence[Request]) -> list[Choice | None]:
    """Chooses the best span for each question, `None` without words to choose from.

    The most promising window of the first section is read first, then its other windows, then the other sections, until
    a span has a margin of at least `SURE`.
    """
    best = dict[int, Choice]()

    def unsure(number: int, position: int = 0) -> bool:
        worth = SURE + PRIOR * requests[number][2][position]
        return number not in best or best[number].span.margin < worth

    asked = [number for number, (_, sections, _) in enumerate(requests) if sections]
    first = {number: _promising(requests[number], _windows(model, requests[number], 0)) for number in asked}
    _read(model, requests, [(number, 0, row) for number in asked for row in first[number][:1]], best)
    _read(model, requests, [(number, 0, row) for number in filter(unsure, asked) for row in first[number][1:]], best)
    others = [
        (number, position, row)
        for number in asked
        for position in range(1, len(requests[number][1]))
        if unsure(number, position)
        for row in _windows(model, requests[number], position)
    ]
    _read(model, requests, others, best)
    return [best.get(number) for number in range(len(requests))]


def _windows(model: SpanModel, request: Request, position: int) -> list[Window]:
    """Returns the windows of one of a request's sections."""
    question, section = request[0], request[1][position]
    title = f"{section.entity_title}: {section.section_title}" if section.section_title else section.entity_title
    return windows(model.tokenizer, question, title, section.text)


def _promising(request: Request, found: list[Window]) -> list[Window]:
    """Returns the windows of a request's first section by how well their words match the question."""
    if len(found) < 2:
        return found
    question, [section, *_], _ = request
    [scores] = _WORDS.score([question], [[section.text[row.places[0][0] : row.places[-1][1]] for row in found]])
    return [found[i] for i in sorted(range(len(found)), key=lambda i: -scores[i])]


def _read(
    model: SpanModel, requests: Sequence[Request], rows: Sequence[tuple[int, int, Window]], best: dict[int, Choice]
) -> None:
    """Reads windows, each with the numbers of its request and section, and updates the best choice by request."""
    scores = model.scores([window for _, _, window in rows])
    for (number, position, window), scored in zip(rows, scores, strict=True):
        question, sections, behind = requests[number]
        section = sections[position]
        titles = section.entity_title, section.section_title
        span = best_span(window, scored, question, section.text, *titles, model.likeness)
        if span is None:
            continue
        old = best.get(number)
        if old is None or span.margin + PRIOR * behind[position] > old.span.margin + PRIOR * behind[old.section]:
            best[number] = Choice(position, span, signs_of(question, span))


class ExtractiveReader:
    """A `Generator` that answers with a span of the evidence and needs no language model server.

    Args:
        threshold: Confidence below which it abstains; by default the one stored with the weights.
        weights: The model's weights.
        apart: Do not load them: `submit` takes requests to another process.

    Attributes:
        submit: See `serving.lanes.BatchedGenerator`.
    """

    name = "extractive-reader"
    submit: Callable[[GenerationRequest], Awaitable[Generation]] | None = None

    def __init__(self, threshold: float | None = None, weights: Path = WEIGHTS_FILE, apart: bool = False) -> None:
        if not apart:
            self._model = SpanModel.load(weights)
            self.threshold = self._model.threshold if threshold is None else threshold

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request."""
        return await about_each(requests, self._generate)

    async def _generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        asked = list(map(posed, requests))
        answers = self.read_all(asked) if self.submit is None else await asyncio.gather(*map(self.submit, asked))
        return list(map(unposed, requests, answers))

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer in one piece unless it abstains, then the whole `Generation`."""
        [generation] = await self.generate([request])
        if generation.answer is not None:
            yield generation.answer
        yield generation

    def read(self, question: str, evidence: Evidence) -> Generation:
        """Returns the answer to one question in one section, or an abstention."""
        [generation] = self.read_all([GenerationRequest(question, None, evidence)])
        return generation

    def read_all(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns the best spans, or abstentions; a confidence is the probability of being right."""
        known = [_named(request) or _plain_verdict(request) for request in requests]
        compared = [
            None if one else comparison_of(request.question) for one, request in zip(known, requests, strict=True)
        ]
        asked = [
            (one.question if one else request.question, _sections(request),
             [0.0, *(other.behind for other in request.others)])
            if not answer and request.evidence is not None and is_english(request.question)
            else (request.question, [], [])
            for request, one, answer in zip(requests, compared, known, strict=True)
        ]  # fmt: skip
        found = choose(self._model, asked)
        return [
            answer or self._answer(request, choice, one)
            for request, one, answer, choice in zip(requests, compared, known, found, strict=True)
        ]

    def _answer(self, request: GenerationRequest, choice: Choice | None, comparison: Comparison | None) -> Generation:
        if choice is None:
            foreign = request.evidence is not None and not is_english(request.question)
            return Generation(None, 0.0, limitation=_FOREIGN if foreign else None)
        confidence = self._model.confidence(choice.signs)
        if confidence < self.threshold:
            return Generation(None, confidence)
        other = request.others[choice.section - 1].evidence if choice.section else None
        evidence = other or request.evidence
        assert evidence is not None
        text, start, end = evidence.text, choice.span.start, choice.span.end
        if any(mark.start() <= start and end <= mark.end() for mark in _NO_VALUE.finditer(text)):
            return Generation(None, confidence)
        answer = text[start:end]
        if _BARE.fullmatch(answer) and not self._is_meant(request.question, text, start):
            return Generation(None, confidence)
        if comparison:
            holds = is_true(comparison, text, start, end)
            answer = answer if holds is None else "Yes" if holds else "No"
        elif is_closed(request.question):
            said = in_own_words(request.question, evidence.entity_title, text, start, end)
            if said is None:
                return Generation(None, confidence)
            answer = said
        return Generation(answer, confidence, (start, end), evidence=other)

    def _is_meant(self, question: str, text: str, start: int) -> bool:
        """Returns whether a question can be answered by yes or no, and the label of such a value means the same."""
        line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
        return is_closed(question) and self._model.likeness(question, [line])[0] >= ALIKE


def _sections(request: GenerationRequest) -> list[Evidence]:
    """Returns the sections that may have the answer, best first."""
    return [*filter(None, [request.evidence]), *(other.evidence for other in request.others)]


def _named(request: GenerationRequest) -> Generation | None:
    """Returns the article's title for a question what the image shows, and its beginning to one about all of it."""
    evidence = request.evidence
    if evidence is None or not evidence.entity_title:
        return None
    title, sections = evidence.entity_title, _sections(request)
    if any(asks_name(request.question, title, one.text) for one in sections):
        section = next((one for one in sections if title in one.text), evidence)
        start = section.text.find(title)
        span = (start, start + len(title)) if start >= 0 else None
        return Generation(title, 1.0, span, evidence=None if section is evidence else section)
    if asks_description(request.question) and (beginning := first_sentence(evidence.text)):
        return Generation(beginning, PLAIN, (0, len(beginning)))
    return None


def _plain_verdict(request: GenerationRequest) -> Generation | None:
    """Returns the answer to a yes-or-no question that a single sentence states; `None` if none does."""
    sections = _sections(request)
    if not sections or not is_closed(request.question) or comparison_of(request.question):
        return None
    texts = [(one.section_title, one.text) for one in sections]
    found = verdict(request.question, sections[0].entity_title, texts) if is_english(request.question) else None
    if found is None:
        return None
    section, span = sections[found.section], (found.start, found.end)
    return Generation(
        found.word or section.text[slice(*span)], PLAIN, span, evidence=section if found.section else None
    )


_FOREIGN = "the extractive reader reads questions in English only"
