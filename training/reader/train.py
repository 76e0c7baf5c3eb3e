r"""Trains the extractive reader's model on questions with their passages.

    python -m training.reader.train --squad dev-v2.0.json xquad.en.json --evqa questions.csv --tokens val \
        --out weights.safetensors

A question is unanswerable if SQuAD says so, or with another paragraph of its article. Articles of share 0
(`training.reader.questions.share_of`) are left out, so that `benchmarks/reader.py --blind` can measure on them. The
confidence is fitted on articles that a network was not trained on. The same files and seed give the same weights.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from training.reader.confidence import Trials, astray, best_passage, by_article, fit, misplaced, report, trials
from training.reader.examples import Batch, Example, examples, joined, part_of
from training.reader.network import Network
from training.reader.questions import SpanQuestion, read_evqa, read_squad, read_tokens, share_of
from training.reader.weights import Numbers, model_of, numbers_of, save

HELD_OUT = 4000
"""Questions of each held-out fold used to fit the confidence."""
FOLDS = 2
"""Number of folds of the articles that are held out in turn to fit the confidence."""
POINTING = 0.5
"""Share of the questions that keep the article's title."""


def read(squad: Sequence[Path]) -> list[SpanQuestion]:
    """Reads questions about articles, without the blind test set."""
    found, seen = list[SpanQuestion](), dict[str, int]()
    for number, path in enumerate(squad):  # XQuAD repeats articles of SQuAD
        kept = [question for question in read_squad(path) if seen.setdefault(question.article, number) == number]
        found += [question for question in kept if share_of(question.article)]
    return found


def varied(questions: Sequence[SpanQuestion], seed: int) -> list[SpanQuestion]:
    """Makes some questions point at the image, and adds some with a paragraph that does not answer them."""
    rng = random.Random(seed)
    found = [pointing(question, rng) for question in questions]
    passages: dict[str, list[str]] = {}
    for question in found:
        passages.setdefault(question.article, []).append(question.passage)
    for question in [question for question in found if question.answers]:
        other = rng.choice(passages[question.article])
        if rng.random() < 0.5 and not any(answer.text in other for answer in question.answers):
            found.append(question._replace(passage=other, answers=()))
    return found


def pointing(question: SpanQuestion, rng: random.Random) -> SpanQuestion:
    """Replaces the article's title in about half of the questions with "this", as in questions about an image."""
    title = re.compile(rf"\b(?:the )?{re.escape(question.article)}\b(?:'s)?", re.IGNORECASE)
    return question if rng.random() < POINTING else question._replace(question=title.sub("this", question.question))


def train(data: Sequence[Example], numbers: Numbers, seed: int, epochs: int) -> Network:
    """Trains one network to tell the correct span from all others, and answerable questions from unanswerable ones."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = Network(numbers)
    right = [example for example in data if example.quality.max(initial=0) > 0.5]
    none = [example for example in data if not example.answerable]
    size, extra = 16, 4
    steps = epochs * (len(right) // size)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps + 1)
    network.train()
    for _ in range(epochs):
        order = rng.permutation(len(right))
        for step in range(len(right) // size):
            chosen = [right[i] for i in order[step * size : (step + 1) * size]]
            chosen += [none[i] for i in rng.integers(len(none), size=extra)] if none else []
            loss = _loss(network, joined(chosen, rng))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return network.eval()


def _loss(network: Network, batch: Batch) -> torch.Tensor:
    scores, null = network(batch)
    shifted = scores + batch.stands_for.log()  # a drawn candidate stands for those that were not drawn
    everything = _logsumexp(shifted, batch.question, len(null))
    credit = torch.where(batch.quality >= 0.98, 1.0, torch.where(batch.quality > 0.5, 0.25 * batch.quality**2, 0.0))
    right = _logsumexp(scores + (credit + 1e-9).log(), batch.question, len(null))
    answered = torch.nn.functional.binary_cross_entropy_with_logits(everything - null, batch.answerable)
    return ((everything - right) * batch.answerable).sum() / batch.answerable.sum() + 0.5 * answered


def _logsumexp(values: torch.Tensor, group: torch.Tensor, groups: int) -> torch.Tensor:
    top = torch.full((groups,), -1e9).scatter_reduce(0, group, values.detach(), "amax")
    return top + torch.zeros(groups).index_add(0, group, (values - top[group]).exp()).log()


def main() -> None:
    """Trains, fits the confidence, and writes the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", type=Path, nargs="+", required=True, help="files in SQuAD's format")
    parser.add_argument("--evqa", type=Path, nargs="*", default=[], help="files with E-VQA's columns and evidence")
    parser.add_argument("--tokens", type=Path, nargs="*", default=[], help="files of tokens, without their endings")
    parser.add_argument("--out", type=Path, required=True, help="weights to write (.safetensors)")
    parser.add_argument("--networks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    named = read(args.squad)
    articles = varied(named, args.seed)
    records = [question for path in args.evqa for question in read_evqa(path)]
    more = records + [question for path in args.tokens for question in read_tokens(path)]
    numbers = numbers_of(articles + more)
    data = list(examples(articles + more, numbers, np.random.default_rng(args.seed)))
    print(f"{len(data)} questions, {time.perf_counter() - start:.0f} s", flush=True)
    found = Trials([], [], [], [])
    for fold in range(FOLDS):
        kept = [e for e in data if not e.article or e.part % FOLDS != fold]
        network = train(kept, numbers, args.seed + fold, max(args.epochs // 2, 1))
        _add_trials(found, network, numbers, [left_out(each, fold) for each in (articles, records, named)], args.seed)
        print(f"part {fold} left out, {time.perf_counter() - start:.0f} s", flush=True)
    weights, bias, threshold = fit(found)
    print(report(found, weights, bias), flush=True)
    networks = [train(data, numbers, args.seed + i, args.epochs) for i in range(args.networks)]
    save(args.out, networks, numbers, weights, bias, threshold)
    print(f"{args.out}: {args.out.stat().st_size / 1024:.0f} KiB, {time.perf_counter() - start:.0f} s")


def left_out(questions: Sequence[SpanQuestion], fold: int) -> list[SpanQuestion]:
    """Returns the questions about articles that a fold's network was not trained on."""
    return [question for question in questions if part_of(question.article) % FOLDS == fold]


def _add_trials(
    found: Trials, network: Network, numbers: Numbers, questions: Sequence[Sequence[SpanQuestion]], seed: int
) -> None:
    """Adds trials of a network.

    Args:
        found: Where to add them.
        network: Trained on other articles.
        numbers: Its vocabulary.
        questions: Questions about articles, of which `HELD_OUT` are drawn; records, asked about the passage that BM25
            finds and about one without an answer; and questions to ask about other articles, in their original wording,
            because "this" would point at the other article.
        seed: Seed for drawing questions and articles.
    """
    articles, records, named = questions
    model, rng = model_of([network], numbers), random.Random(seed)
    drawn = rng.sample(articles, min(HELD_OUT, len(articles)))
    found.answerable.extend(trials(model, (question for question in drawn if question.answers)))
    found.unanswerable.extend(trials(model, (question for question in drawn if not question.answers)))
    passages = by_article([*named, *records])
    found.records.extend(trials(model, (best_passage(question, passages[question.article]) for question in records)))
    found.unanswerable.extend(trials(model, misplaced(records, passages, rng)))
    found.strays.extend(trials(model, astray(named, passages, rng)))


if __name__ == "__main__":
    main()
