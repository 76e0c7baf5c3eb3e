"""Ask the questions of a data set and measure every step and the answers."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import (
    add_json,
    add_profile,
    add_questions,
    describe,
    existing,
    load_questions,
    positive,
    print_json,
    profile_of,
)

if TYPE_CHECKING:
    from evaluation.datasets import Question


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_inputs(parser)
    parser.add_argument("--no-answers", action="store_true", help="measure retrieval alone")
    parser.add_argument("--bem", type=Path, metavar="DIR", help="E-VQA's learned judge of answers (docs/metrics.md)")
    parser.add_argument("--batch-size", type=positive, default=16, metavar="N", help="queries at a time (%(default)s)")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Adds what `evaluate` and `sweep` share."""
    add_profile(parser)
    parser.add_argument("--index", type=Path, required=True, metavar="INDEX", help="what build-index wrote")
    add_questions(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where figures and records go")
    parser.add_argument("--only-split", metavar="NAME", help="only the questions of this split of the file")
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N questions")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluates, writes the ablation table, prints the main figures."""
    if args.bem is not None and args.no_answers:
        raise ValueError("--bem: judges answers, and --no-answers asks for none; leave one of them out")
    profile = profile_of(args)
    questions = chosen(args)

    from evaluation.ablation import as_markdown, step_table
    from evaluation.bem import load_bem
    from evaluation.records import read_lines
    from evaluation.run import LINES, evaluate
    from omgm.parts import build_generator, open_retriever
    from retriever.files import write_whole

    bem = None if args.bem is None else load_bem(existing(args.bem, "--bem"))
    retriever = open_retriever(profile, args.index)
    index = retriever.index
    metrics = evaluate(
        retriever,
        None if args.no_answers else build_generator(profile),
        questions,
        args.query_images,
        args.out,
        dataset=args.dataset,
        profile_name=profile.name,
        settings=profile.model_dump(mode="json"),
        index_info=describe(index),
        batch_size=args.batch_size,
        bem=bem,
        bem_fingerprint=None if bem is None else bem_fingerprint(args.bem),
        entity_picture=lambda entity: None if (row := index.row_of(entity)) is None else index.image_path(row),
    )
    rows = step_table(read_lines(args.out / LINES))
    table = as_markdown(rows)
    write_whole(args.out / "ablation.json", json.dumps(rows, indent=2).encode() + b"\n")
    write_whole(args.out / "ablation.md", table.encode())
    if args.json:
        print_json(metrics)
    else:
        print(f"{summary(metrics)}\n\n{table}\n{args.out / 'report.html'}")


def chosen(args: argparse.Namespace) -> list[Question]:
    """Returns the questions that the arguments choose.

    Raises:
        ValueError: The file has no question of the split.
    """
    questions = load_questions(args)
    if args.only_split is not None:
        splits = sorted({question.data_split for question in questions})
        questions = [question for question in questions if question.data_split == args.only_split]
        if not questions:
            raise ValueError(f"--only-split: no question is of {args.only_split!r}; the file has {', '.join(splits)}")
    return questions[: args.limit]


def summary(metrics: Mapping[str, Any]) -> str:
    """Returns the main figures of a run as lines."""
    lines = [f"{metrics['dataset']}, profile {metrics['profile']}: {metrics['n_queries']} questions"]
    if metrics["n_failed"]:
        lines[0] += f", {metrics['n_failed']} failed"
    for step in ("step1", "step2"):
        lines.append(_row(step, [(f"recall@{k}", metrics[step].get(f"recall@{k}")) for k in (1, 5, 10, 20)]))
    lines.append(_row("step3", [("section recall@1", metrics["step3"].get("section_recall@1"))]))
    if metrics.get("answer"):
        lines.append(_row("answer", [(metrics["answer"].get("metric", "accuracy"), metrics["answer"].get("accuracy"))]))
    if "note" in metrics["answer"]:
        lines.append(f"{'':8}{metrics['answer']['note']}")
    latency = metrics["latency_ms"]
    times = [f"{key.replace('_', ' ')} {latency[key]:.0f} ms" for key in latency if _is_time(key, latency[key])]
    return "\n".join([*lines, "time    " + "  ".join(times)])


def bem_fingerprint(folder: Path) -> str:
    """Returns a hash of what a BEM folder holds (16 hex digits): ONNX and the vocabulary too."""
    from retriever.files import sha256_of

    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".json", ".onnx", ".safetensors", ".txt")):
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    return digest.hexdigest()[:16]


def _row(name: str, figures: Sequence[tuple[str, float | None]]) -> str:
    return f"{name:8}" + "  ".join(f"{label} {'-' if v is None else f'{v:.3f}'}" for label, v in figures)


def _is_time(key: str, value: object) -> bool:
    return key.endswith(("_p50", "_p95")) and isinstance(value, float)
