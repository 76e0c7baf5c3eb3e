"""Compare codecs of section tokens: size, error and recall of each, and the smallest that is good enough."""

from __future__ import annotations

import argparse

from omgm.commands.common import add_action, describe, print_json, profile_of, query_images_of
from omgm.commands.evaluate import add_inputs, selected_questions
from omgm.commands.numbers import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `measure` with its arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "Measure codecs from one index of float16 tokens, and write codecs.md and codecs.json."
    measure = add_action(actions, "measure", about)
    add_inputs(measure)
    measure.add_argument(
        "--codecs",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="float16, int8, int4, bit1, each optionally with a poolN+ prefix (by default a selection)",
    )
    measure.add_argument(
        "--loss", type=float, default=0.5, metavar="POINTS", help="largest acceptable loss (%(default)s)"
    )
    measure.add_argument("--batch-size", type=positive, default=16, metavar="N", help="queries per batch (%(default)s)")


def run(args: argparse.Namespace) -> None:
    """Measures codecs, writes the table and prints it."""
    profile = profile_of(args)
    questions = selected_questions(args)
    images = query_images_of(args)

    from evaluation.codecs import CODECS, as_markdown, measure_codecs
    from evaluation.commit import commit
    from omgm.opening import open_retriever
    from retriever.files import write_json, write_whole

    retriever = open_retriever(profile, args.index)
    measured = measure_codecs(
        retriever, questions, images, codecs=args.codecs or CODECS, loss=args.loss, batch_size=args.batch_size
    )
    report = {"dataset": args.dataset, "profile": profile.name, **measured, "settings": profile.model_dump(mode="json")}
    report |= {"index": describe(retriever.index), "commit": commit()}
    table = as_markdown(measured)
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "codecs.json", report)
    write_whole(args.out / "codecs.md", table.encode())
    if args.json:
        print_json(report)
    else:
        print(f"{table}\nSet it as fusion.tokens and build the index again.")
