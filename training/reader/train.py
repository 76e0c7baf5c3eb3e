"""Trains the span model of the extractive reader: a base model's upper layers and a head of starts and ends.

    python -m training.reader.train --examples examples.jsonl --steps 2000 --out run

The examples are written by `training.reader.examples`. A killed training resumes at its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from generators.reader import BASE
from generators.reader.model import SCALE
from generators.reader.windows import windows
from retriever.files import replacing
from retriever.models.bert import load_bert
from retriever.models.precision import autocast, fastest_dtype
from training.reader.questions import SpanAnswer, SpanQuestion

BATCH = 16
FROZEN = 2
"""Lower layers that stay as published."""
SAVED = 100
"""Steps between checkpoints."""
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


class SpanHead(nn.Linear):
    """Scores of each token as an answer's start and end."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden, 2)


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


def rate(step: int, steps: int, warmup: int) -> float:
    """Returns the share of the peak learning rate at a step: a linear warm-up, then linear decay to 0."""
    return (step + 1) / warmup if step < warmup else max(0.0, (steps - step) / max(steps - warmup, 1))


class Trainer:
    """The model in training, with an optimizer whose state is kept in safetensors.

    Args:
        encoder: The base model without its pooler.
        head: The span head.
        steps: Number of steps.
        peak: Highest learning rate.
    """

    def __init__(self, encoder: nn.Module, head: SpanHead, steps: int, peak: float) -> None:
        self.encoder, self.head, self.steps, self.peak = encoder, head, steps, peak
        self.precision = fastest_dtype("cpu")
        self.parameters = {f"encoder.{n}": p for n, p in encoder.named_parameters() if _trained(n)}
        self.parameters |= {f"head.{n}": p for n, p in head.named_parameters()}
        for name, parameter in encoder.named_parameters():
            parameter.requires_grad_(_trained(name))
        decayed = [p for p in self.parameters.values() if p.dim() > 1]
        others = [p for p in self.parameters.values() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=peak, fused=True)

    def step(self, number: int, rows: Sequence[Encoded]) -> float:
        """Trains on a batch; returns its loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * rate(number, self.steps, max(self.steps // 16, 1))
        ids, types, mask, first, last = batch_of(rows)
        allowed = (types == 1) & (mask == 1)
        allowed[:, 0] = True
        with autocast("cpu", self.precision):
            hidden = self.encoder(ids, mask == 1, types)
            logits = self.head(hidden)
        loss = loss_of(logits, allowed, first, last)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(list(self.parameters.values()), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def save(self, path: Path, step: int) -> None:
        """Writes weights and optimizer after a number of steps."""
        tensors = {name: p.detach().contiguous() for name, p in self.parameters.items()}
        for name, parameter in self.parameters.items():
            state = self.optimizer.state[parameter]
            tensors |= {f"first.{name}": state["exp_avg"], f"second.{name}": state["exp_avg_sq"]}
        tensors["step"] = torch.tensor(step)
        with replacing(path) as temporary:
            save_file(tensors, temporary)

    def start_from(self, path: Path) -> None:
        """Takes the weights of a checkpoint, or the changes that `training.reader.weights` wrote.

        Raises:
            ValueError: The file lacks a parameter.
        """
        tensors = load_file(path)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                kept = name if name in tensors else name.removeprefix("encoder.")
                if kept not in tensors:
                    raise ValueError(f"{path}: {name} is missing; give a checkpoint or weights of the reader")
                if kept + SCALE in tensors:
                    parameter.add_(tensors[kept].float() * tensors[kept + SCALE][:, None])
                else:
                    parameter.copy_(tensors[kept])

    def resume(self, path: Path) -> int:
        """Reads weights and optimizer that `save` wrote; returns the number of steps made."""
        self.start_from(path)
        tensors = load_file(path)
        for name, parameter in self.parameters.items():
            self.optimizer.state[parameter] = {
                "step": tensors["step"].float(),
                "exp_avg": tensors[f"first.{name}"],
                "exp_avg_sq": tensors[f"second.{name}"],
            }
        return int(tensors["step"])


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
    trainer = Trainer(encoder.eval(), SpanHead(encoder.config.hidden_size), args.steps, args.rate)
    args.out.mkdir(parents=True, exist_ok=True)
    path, done = args.out / "checkpoint.safetensors", 0
    if path.exists():
        done = trainer.resume(path)
    elif args.init:
        trainer.start_from(args.init)
    rng = random.Random(args.seed)
    rows = [row for q in read_examples(args.examples) if (row := encode(tokenizer, q, args.length, rng))]
    print(f"{len(rows)} examples, {sum(len(row.ids) for row in rows) / len(rows):.0f} tokens each", flush=True)
    order, started, mean = batches(rows, random.Random(args.seed)), time.monotonic(), 0.0
    for number in range(args.steps):
        group = next(order)
        if number < done:
            continue
        loss = trainer.step(number, group)
        mean = loss if number == done else 0.98 * mean + 0.02 * loss
        if number % 20 == 0:
            print(f"{number}\t{mean:.3f}\t{time.monotonic() - started:.0f} s", flush=True)
        if (number + 1) % SAVED == 0 or number + 1 == args.steps:
            trainer.save(path, number + 1)


if __name__ == "__main__":
    main()
