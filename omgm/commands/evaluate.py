"""Ask the questions of a data set and measure every step and the answers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.commands import evaluate_agent
from omgm.commands.agents import refuse_without_mode
from omgm.commands.common import (
    add_index,
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
    add_inputs(parser, images=False)
    parser.add_argument("--no-answers", action="store_true", help="measure retrieval alone")
    parser.add_argument("--bem", type=Path, metavar="DIR", help="E-VQA's learned judge of answers (docs/metrics.md)")
    parser.add_argument("--batch-size", type=positive, default=16, metavar="N", help="queries per batch (%(default)s)")
    evaluate_agent.add_arguments(parser)


def add_inputs(parser: argparse.ArgumentParser, *, images: bool = True) -> None:
    """Adds the arguments that `evaluate` and `sweep` share; `images` says whether `--query-images` is required."""
    add_profile(parser)
    add_index(parser)
    add_questions(parser, images=images)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where figures and records go")
    parser.add_argument("--only-split", metavar="NAME", help="only the questions of this split of the file")
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N questions")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluates retrieval and the generator, or an agent, and prints the main figures."""
    if args.mode is not None or args.dataset in evaluate_agent.MODES:
        if args.no_answers or args.bem is not None:
            raise ValueError("--no-answers and --bem are not for agents; remove them")
        evaluate_agent.run(args)
        return
    refuse_without_mode(args, evaluate_agent.ALL_OPTIONS)
    if args.query_images is None:
        raise ValueError(f"--query-images is needed: {args.dataset} names its images")
    if args.bem is not None and args.no_answers:
        raise ValueError("--bem judges answers, but --no-answers asks for none; remove one of them")
    profile = profile_of(args)
    questions = selected_questions(args)

    from evaluation.ablation import as_markdown, step_table
    from evaluation.bem import load_bem
    from evaluation.records import RECORDS, read_records
    from evaluation.run import evaluate
    from evaluation.summary import as_text
    from omgm.opening import open_retriever
    from omgm.parts import build_generator
    from retriever.files import write_json, write_whole

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
        entity_image=lambda entity: None if (row := index.row_of(entity)) is None else index.image_path(row),
    )
    rows = step_table(read_records(args.out / RECORDS))
    write_json(args.out / "ablation.json", rows)
    write_whole(args.out / "ablation.md", as_markdown(rows).encode())
    if args.json:
        print_json(metrics)
    else:
        print(f"{as_text(metrics)}\n\n{as_markdown(rows)}\n{args.out / 'report.html'}")


def selected_questions(args: argparse.Namespace) -> list[Question]:
    """Returns the questions that the arguments select.

    Raises:
        ValueError: The file has no questions of the split.
    """
    questions = load_questions(args)
    if args.only_split is not None:
        splits = sorted({question.data_split for question in questions})
        questions = [question for question in questions if question.data_split == args.only_split]
        if not questions:
            raise ValueError(f"--only-split: the file has no split {args.only_split!r}; it has {', '.join(splits)}")
    return questions[: args.limit]
