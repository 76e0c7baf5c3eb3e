"""Questions about the text on an image itself, told by their meaning: "What does it say?", "Which brand is it?"."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np

from retriever.types import FloatArray, Reading

EXAMPLES = Path(__file__).with_suffix(".toml")
"""Questions for the text, for a name that stands on the image, and others, mostly such as resemble these."""
_KINDS: tuple[Reading, ...] = get_args(Reading)
_RIDGE = 0.1
"""How little a single example counts; chosen, as is the power below, by leaving out one example at a time."""


class TextQuestions:
    """Tells what a question asks for of the text on an image, by a kernel ridge regression on examples.

    Args:
        encode: Returns the normalized vectors of questions; those of the examples are computed on first use.
    """

    def __init__(self, encode: Callable[[Sequence[str]], FloatArray]) -> None:
        self._encode = encode

    def kinds(self, questions: Sequence[str]) -> list[Reading | None]:
        """Returns the kind of reading that each question asks for, `None` if it asks for none."""
        examples, weights = self._fit
        scores = _kernel(self._encode(questions), examples) @ weights
        return [_KINDS[own.argmax()] if own.max() > 0 else None for own in scores]

    @cached_property
    def _fit(self) -> tuple[FloatArray, FloatArray]:
        """The vectors of the examples, and the weight of each for every kind."""
        examples: dict[str, list[str]] = tomllib.loads(EXAMPLES.read_text(encoding="utf-8"))
        vectors = self._encode([text for texts in examples.values() for text in texts])
        labels = [[1.0 if kind == one else -1.0 for one in _KINDS] for kind, texts in examples.items() for _ in texts]
        ridge = _RIDGE * np.eye(len(labels), dtype=np.float32)
        weights = np.linalg.solve(_kernel(vectors, vectors) + ridge, np.array(labels, np.float32))
        return vectors, weights.astype(np.float32)


def _kernel(vectors: FloatArray, examples: FloatArray) -> FloatArray:
    """Returns how alike vectors [N, D] are to examples [M, D], from 0 to 1, [N, M]; near ones count for most."""
    return np.asarray(((1 + vectors @ examples.T) / 2) ** 3, np.float32)
