r"""Reduces a trained span model to what the repository keeps, and fits its confidence and threshold.

    python -m pretraining.reader.weights --run run/checkpoint.safetensors --validation examples/prose.jsonl \
        examples/facts.jsonl --out generators/reader/weights.safetensors

The changes of each matrix are kept in int8, the rest as it is. The confidence is a logistic
regression on the model's own answers to validation questions, a part of which it must decline.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from generators.reader import BASE
from generators.reader.model import SCALE, SpanModel
from generators.reader.reader import choose, signs_of
from pretraining.reader.prose import prose_questions
from pretraining.reader.questions import SpanQuestion, normalize, overlap
from pretraining.reader.train import read_examples, read_weights
from retriever.files import replacing
from retriever.models.base_bert import load_bert
from retriever.types import Evidence

VALIDATED = 850
"""About how many of a file's questions are used."""
UNANSWERABLE = 1 / 3
"""Share of questions without an answer for which the threshold is chosen: that of SQuAD 2.0's training set."""
RIGHT = 0.5
"""Lowest F1 of an answer that counts as right."""


class Trial(NamedTuple):
    """The model's answer to a question: the signs of its confidence, whether there is an answer, its F1 and EM."""

    signs: tuple[float, ...]
    answerable: bool
    f1: float
    exact: bool


def reduced(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the changes of the base model by trainings, matrices as int8 with a scale per row, and the head.

    Of several checkpoints, the mean is taken.
    """
    base = load_bert(BASE)[0].state_dict()
    kept = dict[str, Tensor]()
    first, *others = map(read_weights, paths)
    for name in [name for name in first if name.startswith(("encoder.", "head."))]:
        tensor = torch.stack([first[name], *(other[name] for other in others)]).mean(0)
        own = name.removeprefix("encoder.")
        if name.startswith("encoder.") and tensor.dim() == 2:
            change = tensor - base[own]
            scale = change.abs().amax(1).clamp_min(1e-12) / 127
            kept |= {own: (change / scale[:, None]).round().to(torch.int8), own + SCALE: scale}
        else:
            kept[own] = tensor
    return kept


def trials(model: SpanModel, questions: Sequence[SpanQuestion]) -> list[Trial]:
    """Returns a trial of each question whose text has words."""
    found = []
    for begin in range(0, len(questions), 64):
        part = questions[begin : begin + 64]
        asked = [(q.question, [Evidence("", q.article, "", q.passage)], [0.0]) for q in part]
        for question, choice in zip(part, choose(model, asked), strict=True):
            if choice is not None:
                answer = normalize(question.passage[choice.span.start : choice.span.end])
                references = [normalize(each.text) for each in question.answers]
                f1 = max((overlap(answer, reference) for reference in references), default=0.0)
                signs = signs_of(question.question, choice.span)
                found.append(Trial(signs, bool(references), f1, answer in references))
    return found


def fit(found: Sequence[Trial]) -> np.ndarray:
    """Fits a logistic regression with a small ridge by Newton's method; returns weights, the bias last."""
    signs = np.array([trial.signs for trial in found])
    right = np.array([trial.f1 >= RIGHT for trial in found], float)
    mean, scale = signs.mean(0), signs.std(0) + 1e-3
    inputs = np.hstack([(signs - mean) / scale, np.ones((len(signs), 1))])
    weights, ridge = np.zeros(inputs.shape[1]), np.full(inputs.shape[1], 1.0)
    for _ in range(20):
        guess = 1 / (1 + np.exp(-inputs @ weights))
        hessian = (inputs * (guess * (1 - guess))[:, None]).T @ inputs + np.diag(ridge)
        weights += np.linalg.solve(hessian, inputs.T @ (right - guess) - ridge * weights)
    slopes = weights[:-1] / scale
    return np.append(slopes, weights[-1] - slopes @ mean)


def best_threshold(confidence: np.ndarray, found: Sequence[Trial]) -> float:
    """Returns the threshold, in hundredths, with the best score if `UNANSWERABLE` of the questions had no answer.

    An answerable question scores its F1, 0 if declined; an unanswerable one scores 1 if it is declined.
    """
    answerable = np.array([trial.answerable for trial in found])
    f1 = np.array([trial.f1 for trial in found])

    def score(hundredths: int) -> float:
        said = confidence >= hundredths / 100
        declined = float((~said)[~answerable].mean()) if not answerable.all() else 0.0
        return (1 - UNANSWERABLE) * float((f1 * said)[answerable].mean()) + UNANSWERABLE * declined

    return max(range(100), key=score) / 100


def probabilities(weights: np.ndarray, found: Sequence[Trial]) -> np.ndarray:
    """Returns the confidence of each trial."""
    signs = np.array([[*trial.signs, 1.0] for trial in found])
    return np.asarray(1 / (1 + np.exp(-signs @ weights)))


def report(name: str, confidence: np.ndarray, threshold: float, found: Sequence[Trial]) -> str:
    """Returns scores as the field counts them: EM and F1 of answerable questions, and shares of abstentions."""
    answerable = np.array([trial.answerable for trial in found])
    said, f1 = confidence >= threshold, np.array([trial.f1 for trial in found])
    exact = np.array([trial.exact for trial in found])
    parts = [f"{name}: {answerable.sum()} answerable"]
    for label, shown in (("always", np.ones(len(found), bool)), (f"at {threshold}", said)):
        parts.append(f"{label}: EM {(exact & shown)[answerable].mean():.3f} F1 {(f1 * shown)[answerable].mean():.3f}")
    silent = (~said)[answerable].mean(), (~said)[~answerable].mean()
    parts.append(f"abstained: {silent[0]:.3f}, of {(~answerable).sum()} unanswerable {silent[1]:.3f}")
    return ", ".join(parts)


def main() -> None:
    """Writes the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, nargs="+", required=True, help="checkpoints, of which the mean is taken")
    parser.add_argument("--validation", type=Path, nargs="+", required=True, help="prose, then lists of facts")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    kept = reduced(args.run)
    kept |= {"confidence": torch.tensor([1.0, 0.0, 0.0, 0.0]), "threshold": torch.tensor(0.0)}
    _write(kept, args.out)
    model = SpanModel.load(args.out)
    found = {path.name: trials(model, _validation(path)) for path in args.validation}
    everything = [trial for each in found.values() for trial in each]
    weights = fit(everything)
    threshold = best_threshold(probabilities(weights, everything), everything)
    kept |= {"confidence": torch.tensor(weights, dtype=torch.float32), "threshold": torch.tensor(threshold)}
    _write(kept, args.out)
    for name, each in found.items():
        print(report(name, probabilities(weights, each), threshold, each))
    print(f"confidence {np.round(weights, 3).tolist()}, threshold {threshold}, {args.out.stat().st_size / 1e6:.2f} MB")


def _validation(path: Path) -> list[SpanQuestion]:
    """Reads validation questions; if all have answers, half as many are added that must be declined."""
    questions = read_examples(path)
    questions = questions[:: max(len(questions) // VALIDATED, 1)]
    if all(question.answers for question in questions):
        questions = list(prose_questions(questions, random.Random(5)))
    return questions


def _write(tensors: dict[str, Tensor], path: Path) -> None:
    with replacing(path) as temporary:
        save_file({name: tensors[name].contiguous() for name in sorted(tensors)}, temporary)


if __name__ == "__main__":
    main()
