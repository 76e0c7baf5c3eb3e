"""Compare codecs of section tokens, from an index of float16 tokens: size, error and recall of each."""

from __future__ import annotations

import argparse

from omgm.commands.common import describe, profile_of, query_images_of, report
from omgm.commands.evaluate import add_inputs, selected_questions
from omgm.commands.numbers import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_inputs(parser)
    parser.add_argument(
        "--codecs",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="float16, int8, int4, bit1, each optionally with a poolN+ prefix (by default a selection)",
    )
    parser.add_argument(
        "--loss", type=float, default=0.5, metavar="POINTS", help="largest acceptable loss (%(default)s)"
    )
    parser.add_argument("--batch-size", type=positive, default=16, metavar="N", help="queries per batch (%(default)s)")


def run(args: argparse.Namespace) -> None:
    """Measures codecs, writes the table and prints it."""
    profile = profile_of(args)
    questions = selected_questions(args)
    images = query_images_of(args)

    from evaluation.codecs import CODECS, as_markdown, measure_codecs
    from evaluation.commit import commit
    from omgm.opening import open_retriever
    from retriever.files import write_json, write_whole

    retriever = open_retriever(profile, args.index, verify=True)
    measured = measure_codecs(
        retriever, questions, images, codecs=args.codecs or CODECS, loss=args.loss, batch_size=args.batch_size
    )
    found = {"dataset": args.dataset, "profile": profile.name, **measured, "settings": profile.model_dump(mode="json")}
    found |= {"index": describe(retriever.index), "commit": commit()}
    table = as_markdown(measured)
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "codecs.json", found)
    write_whole(args.out / "codecs.md", table.encode())
    report(args, found, f"{table}\nSet it as fusion.tokens and build the index again.")
