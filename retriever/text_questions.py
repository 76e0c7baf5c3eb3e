"""Questions about the text on an image itself, told by their meaning: "What does it say?", "Which brand is it?"."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np

from retriever.arrays import map_array
from retriever.files import cache_folder, replacing
from retriever.types import FloatArray, Reading

EXAMPLES = Path(__file__).with_suffix(".toml")
"""Questions for the text, for a name that stands on the image, and others, mostly such as resemble these."""
_KINDS: tuple[Reading, ...] = get_args(Reading)
_RIDGE = 0.1
"""How little a single example counts; chosen, as is the power below, by leaving out one example at a time."""


class TextQuestions:
    """Tells what a question asks for of the text on an image, by a kernel ridge regression on examples.

    Args:
        encode: Returns the normalized vectors of questions; those of the examples are computed or read on first use.
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
        vectors = self._vectors([text for texts in examples.values() for text in texts])
        labels = [[1.0 if kind == one else -1.0 for one in _KINDS] for kind, texts in examples.items() for _ in texts]
        ridge = _RIDGE * np.eye(len(labels), dtype=np.float32)
        weights = np.linalg.solve(_kernel(vectors, vectors) + ridge, np.array(labels, np.float32))
        return vectors, weights.astype(np.float32)

    def _vectors(self, texts: Sequence[str]) -> FloatArray:
        """Returns the vectors of the examples: they take a second, so the user's cache folder keeps them if it can."""
        first = self._encode(texts[:1])  # differs between encoders, and where one computes with another precision
        key = hashlib.sha256(first.tobytes() + repr(texts).encode()).hexdigest()
        with suppress(OSError, ValueError):
            return map_array(cache_folder() / f"questions-{key}.npy")
        vectors = self._encode(texts)
        with suppress(OSError):
            path = cache_folder() / f"questions-{key}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, path.with_suffix(f".{os.getpid()}")) as partial, partial.open("wb") as file:
                np.save(file, vectors)
        return vectors


def _kernel(vectors: FloatArray, examples: FloatArray) -> FloatArray:
    """Returns how alike vectors [N, D] are to examples [M, D], from 0 to 1, [N, M]; near ones count for most."""
    return np.asarray(((1 + vectors @ examples.T) / 2) ** 3, np.float32)
