"""The reader's trained model: small networks that score candidate spans, and a calibrated confidence (numpy)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from safetensors import safe_open

from generators.reader.features import Candidates
from generators.reader.question import AnalyzedQuestion
from generators.reader.tokens import Tokens, suffix_class
from retriever.types import FloatArray, IntArray

WEIGHTS_FILE = Path(__file__).with_name("weights.safetensors")
AROUND = (-3, -2, -1, 0, 0, 1, 2, 3)
"""Tokens whose classes the model sees: the three before a span, its first and last one, the three after it."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The model's vocabulary: word classes, kinds of questions, and nouns that questions ask for."""

    classes: Mapping[str, int]
    kinds: Mapping[str, int]
    focuses: Mapping[str, int]

    def around(self, tokens: Tokens, candidates: Candidates) -> IntArray:
        """Returns the classes around each candidate, [n, 8]."""
        return np.asarray(self.classes_of(tokens)[places(tokens, candidates)], np.int64)

    def classes_of(self, tokens: Tokens) -> IntArray:
        """Returns the class of each token, followed by that of places outside the evidence, [T + 1]."""
        return np.array([self._of(self.classes, word) for word in tokens.classes] + [len(self.classes)], np.int64)

    def asked(self, question: AnalyzedQuestion) -> tuple[int, int, int, int]:
        """Returns the numbers of a question's kind, focus and key words; unknown ones have the last number."""
        first, last = (self._of(self.classes, word) for word in question.key_classes)
        return self.kinds.get(question.kind, len(self.kinds)), self._of(self.focuses, question.focus), first, last

    @staticmethod
    def _of(table: Mapping[str, int], word: str) -> int:
        number = table.get(word)
        return table.get(suffix_class(word), len(table)) if number is None else number


def places(tokens: Tokens, candidates: Candidates) -> IntArray:
    """Returns the positions around each candidate, [n, 8]; positions outside the text become the number of tokens."""
    count = len(tokens.classes)
    columns = []
    for i, shift in enumerate(AROUND):
        place = (candidates.first if i < len(AROUND) // 2 else candidates.last) + shift
        columns.append(np.where((place < 0) | (place >= count), count, place))
    return np.stack(columns, 1)


def outcome(scores: FloatArray, null: float, best: int, candidates: Candidates) -> FloatArray:
    """Returns the inputs for the confidence: the lead of the best candidate, the overview, its links and doubts.

    Args:
        scores: Scores of the candidates, float32 [n].
        null: Score of "no answer".
        best: Position of the best candidate.
        candidates: The candidates.
    """
    top = float(scores[best])
    shares = np.exp(scores - top) / np.exp(scores - top).sum()
    apart = (candidates.first > candidates.last[best]) | (candidates.last < candidates.first[best])
    rival = float(scores[apart].max()) if apart.any() else top - 20
    lead = [np.log(shares[best]), min(top - rival, 20.0), shares[~apart].sum(), top, null]
    lead += [top + np.log(1 / shares[best]) - null]
    found = candidates.overview, candidates.links[best], candidates.doubts[best]
    return np.concatenate([np.array(lead, np.float32), *found])


class SpanModel:
    """Scores candidates by the mean of several networks of two hidden layers.

    Args:
        arrays: The weights by name (see `training/reader.py`).
        vocabulary: Numbers of the classes, kinds and focuses.
        rarity: Stem -> inverse document frequency; "" for any other word.
    """

    def __init__(self, arrays: Mapping[str, FloatArray], vocabulary: Vocabulary, rarity: Mapping[str, float]) -> None:
        self.vocabulary, self.rarity = vocabulary, rarity
        self._arrays = {name: np.asarray(array, np.float32) for name, array in arrays.items()}

    @classmethod
    def load(cls, path: Path = WEIGHTS_FILE) -> SpanModel:
        """Loads weights with their vocabulary."""
        return _load(path)

    def scores(self, tokens: Tokens, question: AnalyzedQuestion, candidates: Candidates) -> tuple[FloatArray, float]:
        """Returns the scores of the candidates, float32 [n], and that of "no answer"."""
        a = self._arrays
        inputs = (candidates.features - a["mean"]) / a["scale"]
        classes, around = self.vocabulary.classes_of(tokens), places(tokens, candidates)
        kind, focus, *keys = self.vocabulary.asked(question)
        total, null = np.zeros(len(inputs), np.float32), 0.0
        for i in range(len(a["classes"])):
            size, width = a["classes"].shape[2], inputs.shape[1]
            first = a["first"][i].T
            hidden = inputs @ first[:width]
            known = a["classes"][i][classes]  # multiplied once per token, not per candidate
            for j in range(len(AROUND)):
                hidden += (known @ first[width + j * size : width + (j + 1) * size])[around[:, j]]
            asked = np.concatenate([a["kinds"][i][kind], a["focuses"][i][focus], *a["classes"][i][keys]])
            hidden += asked @ first[width + len(AROUND) * size :] + a["first_bias"][i]
            hidden = np.maximum(np.maximum(hidden, 0) @ a["second"][i].T + a["second_bias"][i], 0)
            total += hidden @ a["last"][i] + a["last_bias"][i]
            null += float(candidates.overview @ a["null"][i] + a["null_bias"][i])
        return np.asarray(total / len(a["classes"]), np.float32), null / len(a["classes"])

    def confidence(self, signs: FloatArray) -> float:
        """Returns the probability that an answer is right, from the result of `outcome`."""
        a = self._arrays
        return float(1 / (1 + np.exp(-(signs @ a["confidence"] + a["confidence_bias"][0]))))

    @property
    def threshold(self) -> float:
        """The confidence below which the reader should abstain."""
        return float(self._arrays["threshold"][0])


@lru_cache(maxsize=4)
def _load(path: Path) -> SpanModel:
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        names = json.loads(file.metadata()["vocabulary"])
    rarity = dict(zip(names["words"], arrays.pop("rarity").tolist(), strict=True))
    return SpanModel(arrays, Vocabulary(*(_numbered(names[key]) for key in ("classes", "kinds", "focuses"))), rarity)


def _numbered(words: Sequence[str]) -> dict[str, int]:
    return {word: i for i, word in enumerate(words)}
