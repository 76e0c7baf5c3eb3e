"""Words and meaning as step 3's reranker: BM25, and the cosine of the question with each section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from retriever.deixis import without_deixis
from retriever.image_cache import ImageCache
from retriever.lexical import is_english
from retriever.models.bm25 import BM25
from retriever.protocols import SectionEncoder, TextReranker
from retriever.texts import only_repeats_titles
from retriever.types import FloatArray

_CACHED = 1 << 16
"""Passages whose vectors are kept in memory: of those that no index holds."""
_QUESTIONS = 1 << 22
"""Bytes of the vectors of questions that are kept: some 2,700 of the embedded profile."""


class HybridReranker:
    """Scores `(1 - weight) * words + weight * cosine` (implements `retriever.protocols.VectorReranker`).

    The cosine is that of the question and the best window of a section. Vectors of sections come from an index, or are
    computed, which takes some milliseconds per section. Of a question that the encoder does not read, only the words
    count. A section that only repeats the titles, which is near to every question about
    them, has the lowest score.

    Args:
        encoder: Encodes questions and sections.
        weight: Weight of the cosine, 0 to 1.
        words: Scores the words of sections, in 0 to 1; by default BM25, which counts less where it knows fewer words of
            the question.
        reads: Tells whether the encoder reads a question's language; by default, it reads English.
    """

    def __init__(
        self,
        encoder: SectionEncoder,
        weight: float,
        words: TextReranker | None = None,
        reads: Callable[[str], bool] = is_english,
    ) -> None:
        self.encoder, self.weight, self.reads = encoder, weight, reads
        self.words = words or BM25(whole_question=True)
        self._questions = ImageCache(_QUESTIONS)
        self._vectors = lru_cache(_CACHED)(lambda passage: encoder.encode_passages([passage])[0])

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Scores each question's passages; returns float32 [len(passages[i])] per question.

        Raises:
            ValueError: The numbers of questions and of lists of passages differ.
        """
        vectors = [[self._vectors(passage) for passage in texts] for texts in passages]
        return self.score_vectors(questions, passages, self.encode(questions), vectors)

    def encode(self, questions: Sequence[str]) -> FloatArray:
        """Returns the vectors of questions without the words that only point at the image, float32 [N, dimension].

        Many people ask the same: vectors of recent questions are kept.
        """
        texts = [without_deixis(question) for question in questions]
        vectors = {text: self._questions.get("question", text) for text in texts}
        new = [text for text, vector in vectors.items() if vector is None]
        if new or not texts:
            encoded = self.encoder.encode_questions(new)
            for text, vector in zip(new, encoded, strict=True):
                vectors[text] = vector.copy()  # a row would hold the memory of the whole batch
                self._questions.put("question", text, vectors[text], vector.nbytes)
            if len(new) == len(texts):
                return encoded
        return np.stack([vectors[text] for text in texts])

    def score_vectors(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
        asked: FloatArray,
        vectors: Sequence[Sequence[NDArray[np.int8]]],
    ) -> list[FloatArray]:
        """Scores as `score` does, with known vectors.

        Args:
            questions: The questions.
            passages: The passages of each question.
            asked: The vectors of the questions, as `encode` returns them.
            vectors: For each passage of each question, its windows [windows, dimension].
        """
        scores = self.words.score(questions, passages)
        return [
            np.where(
                [only_repeats_titles(text) for text in texts],
                np.float32(-self.weight),
                (1 - self.weight) * words + self.weight * best_cosines(vector, own) if self.reads(question) else words,
            )
            for question, texts, words, vector, own in zip(questions, passages, scores, asked, vectors, strict=True)
        ]


def best_cosines(question: FloatArray, sections: Sequence[NDArray[np.int8]]) -> FloatArray:
    """Returns the highest cosine of a normalized vector [D] with the windows [windows, D] of each section, float32.

    A section without windows has the cosine of -1.
    """
    if not sections:
        return np.empty(0, np.float32)
    windows = np.concatenate(sections).astype(np.float32)
    cosines = windows @ question / np.maximum(np.linalg.norm(windows, axis=1), 1e-12)
    best = np.full(len(sections), -1, np.float32)
    np.maximum.at(best, np.repeat(np.arange(len(sections)), [len(own) for own in sections]), cosines)
    return best
