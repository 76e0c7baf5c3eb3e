"""Statistics that a training collects before it starts, and the weights file that it writes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors.numpy import save_file

from generators.reader.features import candidates
from generators.reader.model import SpanModel, Vocabulary
from generators.reader.question import analyze
from generators.reader.tokens import stems_of, suffix_class, tokenize_text
from retriever.files import replacing
from retriever.types import FloatArray
from training.reader.questions import SpanQuestion

if TYPE_CHECKING:
    from training.reader.network import Network

FREQUENT_CLASS, FREQUENT_FOCUS, FREQUENT_WORD = 15, 6, 5
"""How often an item must occur to be in the vocabulary: a word class, a noun asked for, a stem (in passages)."""
SAMPLE = 400
"""Number of questions from which the features' mean and scale are computed."""


class Numbers(NamedTuple):
    """Vocabulary, word frequencies, and mean and scale of the features; `overview` is the length of an overview."""

    vocabulary: Vocabulary
    rarity: Mapping[str, float]
    mean: FloatArray
    scale: FloatArray
    overview: int


def numbers_of(questions: Sequence[SpanQuestion]) -> Numbers:
    """Counts words in the passages, and computes feature statistics from some of the questions."""
    passages = list(dict.fromkeys(question.passage for question in questions))
    stems, classes = Counter[str](), Counter[str]()
    for passage in passages:
        tokens = tokenize_text(passage)
        stems.update({stem for stem in tokens.stems if stem})
        classes.update(tokens.classes)
    # sorted, because the iteration order of a set of strings differs between processes
    frequent = sorted(word for word, count in stems.items() if count >= FREQUENT_WORD)
    rarity = {word: math.log(len(passages) / stems[word]) for word in frequent}
    rarity[""] = math.log(len(passages) / 2)
    analyzed = [analyze(question.question, rarity) for question in questions]
    focuses = Counter(question.focus for question in analyzed)
    vocabulary = Vocabulary(
        _numbered(classes, FREQUENT_CLASS),
        _numbered(Counter(question.kind for question in analyzed), 1),
        _numbered(focuses, FREQUENT_FOCUS),
    )
    step = max(len(questions) // SAMPLE, 1)
    found = [
        candidates(tokenize_text(question.passage), asked, rarity, stems_of(question.article))
        for question, asked in zip(questions[::step], analyzed[::step], strict=True)
    ]
    features = np.concatenate([each.features[::5] for each in found])
    return Numbers(vocabulary, rarity, features.mean(0), features.std(0) + 1e-3, len(found[0].overview))


def _numbered(counts: Counter[str], least: int) -> dict[str, int]:
    known = {word for word, count in counts.items() if count >= least}
    return {word: i for i, word in enumerate(sorted(known | {suffix_class(word) for word in counts}))}


def model_of(networks: Sequence[Network], numbers: Numbers) -> SpanModel:
    """Returns a model of several networks, as `SpanModel.load` would, but without a confidence."""
    return SpanModel(_arrays(networks, numbers), numbers.vocabulary, numbers.rarity)


def _arrays(networks: Sequence[Network], numbers: Numbers) -> dict[str, np.ndarray]:
    states = [network.state_dict() for network in networks]
    arrays = {
        name.removesuffix(".weight").replace(".bias", "_bias"): np.stack([state[name].numpy() for state in states])
        for name in states[0]
    }
    for name in ("last", "null"):  # one output each
        arrays |= {name: arrays[name][:, 0], f"{name}_bias": arrays[f"{name}_bias"][:, 0]}
    arrays = {name: array.astype(np.float16) for name, array in arrays.items()}
    return arrays | {name: getattr(numbers, name).astype(np.float32) for name in ("mean", "scale")}


def save(
    path: Path,
    networks: Sequence[Network],
    numbers: Numbers,
    confidence: FloatArray,
    bias: float,
    threshold: float,
) -> None:
    """Writes the weights in the format of `SpanModel.load`, the networks in float16."""
    arrays = _arrays(networks, numbers)
    exact = {"rarity": np.array(list(numbers.rarity.values()))}
    exact |= {"confidence": confidence, "confidence_bias": np.array([bias]), "threshold": np.array([threshold])}
    arrays |= {name: array.astype(np.float32) for name, array in exact.items()}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    names = {"words": list(numbers.rarity)} | {
        key: list(getattr(numbers.vocabulary, key)) for key in ("classes", "kinds", "focuses")
    }
    # a single entry, because safetensors writes several in any order
    with replacing(path) as temporary:
        save_file(arrays, temporary, {"vocabulary": json.dumps(names, ensure_ascii=False)})
