"""Trains the span model of the extractive reader: a base model's upper layers and a head of starts and ends.

    python -m pretraining.reader.train --examples examples.jsonl --steps 2000 --out run

The examples are written by `pretraining.reader.examples`. A killed training resumes at its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from generators.reader import BASE
from generators.reader.model import SCALE, windows
from pretraining.reader.questions import SpanAnswer, SpanQuestion
from retriever.digests import digests_of
from retriever.models.base_bert import load_bert
from retriever.models.precision import autocast, fastest_dtype
from training.config import Optimization, Schedule
from training.loop import train

BATCH = 16
FROZEN = 2
"""Lower layers that stay as published."""
SAVED = 100
"""Steps between checkpoints."""
WARMUP = 1 / 16
"""Share of the steps in which the learning rate rises; then it falls in a straight line to zero."""
POOL = 40
"""Batches whose questions are sorted by length together, which saves padding."""


class Encoded(NamedTuple):
    """A window with the positions of the answer's first and last token, both 0 ([CLS]) if it has none."""

    ids: list[int]
    types: list[int]
    first: int
    last: int


def encode(tokenizer: Tokenizer, question: SpanQuestion, length: int, rng: random.Random) -> Encoded | None:
    """Returns the window of a question's first answer, or one of its text's windows; `None` without tokens."""
    found = windows(tokenizer, question.question, question.article, question.passage, length)
    if not found:
        return None
    if not question.answers:
        window = rng.choice(found)
        return Encoded(window.ids, window.types, 0, 0)
    spans = [place for answer in question.answers if (place := place_of(answer, question.passage))]
    if not spans:
        return None
    start, end = spans[0]
    places = []
    for window in found:
        inside = [i for i, (a, b) in enumerate(window.places) if a < end and b > start]
        whole = inside and window.places[inside[0]][0] <= start and window.places[inside[-1]][1] >= end
        if whole:
            places.append(Encoded(window.ids, window.types, window.begin + inside[0], window.begin + inside[-1]))
    return rng.choice(places) if places else None


def place_of(answer: SpanAnswer, text: str) -> tuple[int, int] | None:
    """Returns the first and last character of an answer, exclusive; `None` if the text does not have it."""
    if answer.start is not None:
        return answer.start, answer.start + len(answer.text)
    found = re.search(rf"(?<!\w){re.escape(answer.text)}(?!\w)", text)
    return found.span() if found else None


def loss_of(logits: Tensor, mask: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Returns the mean cross entropy of starts and ends.

    Args:
        logits: Scores [B, T, 2].
        mask: True for tokens that may begin or end an answer, and for [CLS], [B, T].
        first: Position of each answer's first token [B].
        last: Position of its last token [B].
    """
    logits = logits.float().masked_fill(~mask[..., None], -1e4)
    return (nn.functional.cross_entropy(logits[..., 0], first) + nn.functional.cross_entropy(logits[..., 1], last)) / 2


def batch_of(rows: Sequence[Encoded]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns ids, types and attention mask, each [B, T], and positions of starts and ends, each [B]."""
    width = max(len(row.ids) for row in rows)
    ids, types, mask = (torch.zeros(len(rows), width, dtype=torch.long) for _ in range(3))
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = torch.tensor(row.ids)
        types[i, : len(row.ids)] = torch.tensor(row.types)
        mask[i, : len(row.ids)] = 1
    return ids, types, mask, torch.tensor([row.first for row in rows]), torch.tensor([row.last for row in rows])


def batches(rows: Sequence[Encoded], rng: random.Random) -> Iterator[list[Encoded]]:
    """Yields batches in random order, without end."""
    while True:
        order = rng.sample(range(len(rows)), len(rows))
        for begin in range(0, len(order), BATCH * POOL):
            pool = sorted(order[begin : begin + BATCH * POOL], key=lambda i: len(rows[i].ids))
            groups = [pool[i : i + BATCH] for i in range(0, len(pool), BATCH)]
            rng.shuffle(groups)
            yield from ([rows[i] for i in group] for group in groups)


def start_from(model: nn.Module, path: Path) -> None:
    """Takes the weights of a checkpoint, or the changes that `pretraining.reader.weights` wrote.

    Raises:
        ValueError: The file lacks a parameter.
    """
    tensors = read_weights(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            kept = name if name in tensors else name.removeprefix("encoder.")
            if not parameter.requires_grad:
                continue
            if kept not in tensors:
                raise ValueError(f"{path}: {name} is missing; give a checkpoint or weights of the reader")
            if kept + SCALE in tensors:
                parameter.add_(tensors[kept].float() * tensors[kept + SCALE][:, None])
            else:
                parameter.copy_(tensors[kept])


def read_weights(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a file; those of a checkpoint's model by their names in the model."""
    return {name.removeprefix("model."): tensor for name, tensor in load_file(path).items()}


def _trained(name: str) -> bool:
    """Returns whether a parameter of the encoder is trained."""
    parts = name.split(".")
    return parts[0] == "encoder" and int(parts[2]) >= FROZEN


def read_examples(path: Path) -> list[SpanQuestion]:
    """Reads the examples, each a line of JSON."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        SpanQuestion(row["question"], row["text"], row["title"], tuple(SpanAnswer(*each) for each in row["answers"]))
        for row in rows
    ]


def main() -> None:
    """Trains the model.

    Raises:
        ValueError: A checkpoint of another training is in the way.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--init", type=Path, help="checkpoint, or the reader's weights, to start from")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rate", type=float, default=1.5e-4)
    parser.add_argument("--length", type=int, default=224)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    encoder, tokenizer = load_bert(BASE)
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(_trained(name))
    head = nn.Linear(encoder.config.hidden_size, 2)  # scores of each token as an answer's start and end
    model = nn.ModuleDict({"encoder": encoder, "head": head})
    init = None
    if args.init:
        start_from(model, args.init)
        init = next(digests_of([args.init])).hex()
    rng = random.Random(args.seed)
    rows = [row for q in read_examples(args.examples) if (row := encode(tokenizer, q, args.length, rng))]
    print(f"{len(rows)} examples, {sum(len(row.ids) for row in rows) / len(rows):.0f} tokens each", flush=True)
    order, precision = enumerate(batches(rows, random.Random(args.seed))), fastest_dtype("cpu")

    def loss_at(step: int, part: int) -> Tensor:
        ids, types, mask, first, last = batch_of(next(group for number, group in order if number == step))
        allowed = (types == 1) & (mask == 1)
        allowed[:, 0] = True
        with autocast("cpu", precision):
            logits = head(encoder(ids, mask == 1, types))
        return loss_of(logits, allowed, first, last)

    train(
        model,
        loss_at,
        out=args.out,
        optimization=Optimization(
            steps=args.steps,
            learning_rate=args.rate,
            seed=args.seed,
            schedule=Schedule(warmup=WARMUP, cooldown=1 - WARMUP),
            weight_decay=0.01,
            betas=(0.9, 0.999),
        ),
        validate_every=SAVED,
        save_every=SAVED,
        settings={"examples": len(rows), "length": args.length, "init": init},
    )


if __name__ == "__main__":
    main()
