"""The extractive reader, the generator of the embedded profile: answers with a short span of the evidence.

Every span of up to twelve words is a candidate (`features.py`). A small trained model scores them (`model.py`,
`training/reader`), a few rules constrain numbers and colors (`rules.py`), and the best one is the answer unless the
model is not confident enough.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

from generators.reader.features import candidates
from generators.reader.model import WEIGHTS_FILE, SpanModel, outcome
from generators.reader.question import analyze, limitation
from generators.reader.rules import adjustments, whole_quantity
from generators.reader.tokens import stems_of, tokenize_text
from retriever.types import Evidence, FloatArray, Generation, GenerationRequest


class Choice(NamedTuple):
    """The best span of a text (in characters), and the inputs for estimating its confidence."""

    start: int
    end: int
    signs: FloatArray


def choose(model: SpanModel, question: str, text: str, title: str) -> Choice | None:
    """Chooses the best span of a text as the answer to a question.

    Args:
        model: Scores the spans.
        question: The question.
        text: The evidence.
        title: Title of the article.

    Returns:
        The choice, or `None` if the text has no candidates, or if no span can answer this kind of question.
    """
    tokens = tokenize_text(text)
    asked = analyze(question, model.rarity, frozenset(tokens.stems))
    found = candidates(tokens, asked, model.rarity, stems_of(title))
    if not len(found.first) or not asked.words or asked.kind == "yes/no":
        return None
    scores, null = model.scores(tokens, asked, found)
    scores = scores + adjustments(tokens, asked, found)
    best = int(scores.argmax())
    first, last = whole_quantity(tokens, int(found.first[best]), int(found.last[best]))
    start, end = int(tokens.starts[first]), int(tokens.ends[last])
    return Choice(start, end, outcome(scores, null, best, found))


class ExtractiveReader:
    """A `Generator` that answers with a span of the evidence and needs no language model.

    Args:
        threshold: Confidence below which it abstains; by default the one stored with the weights.
        weights: The model's weights.
    """

    name = "extractive-reader"

    def __init__(self, threshold: float | None = None, weights: Path = WEIGHTS_FILE) -> None:
        self._model = SpanModel.load(weights)
        self.threshold = self._model.threshold if threshold is None else threshold

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
        """Returns the best span of the evidence, or an abstention; its confidence is the probability of being right."""
        if evidence is None:
            return Generation(None, 0.0)
        limited = limitation(question)
        choice = None if limited else choose(self._model, question, evidence.text, evidence.entity_title)
        if choice is None:
            return Generation(None, 0.0, limitation=limited)
        confidence = self._model.confidence(choice.signs)
        if confidence < self.threshold:
            return Generation(None, confidence)
        return Generation(evidence.text[choice.start : choice.end], confidence, (choice.start, choice.end))
