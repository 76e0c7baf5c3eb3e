"""Compare runs, with confidence intervals and significance."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import add_json, existing, print_json
from omgm.commands.numbers import natural, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="output folders of evaluate; the first is the baseline"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the table, and FILE.json next to it")
    parser.add_argument(
        "--resamples", type=positive, default=10_000, metavar="N", help="resamples of bootstrap and test (10000)"
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="seed of both (%(default)s)")
    parser.add_argument("--force", action="store_true", help="compare runs of different protocols too")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Compares runs, writes the comparison and prints it."""
    from evaluation.compare import as_markdown, compare
    from retriever.files import write_json, write_whole

    if args.out is not None and args.out.suffix != ".md":
        raise ValueError(f"--out: {args.out} must end with .md; the JSON goes beside it")
    runs = [existing(run, "RUN") for run in args.runs]
    comparison = compare(runs, resamples=args.resamples, seed=args.seed, force=args.force, force_flag="--force")
    table = as_markdown(comparison)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(args.out, table.encode())
        write_json(args.out.with_suffix(".json"), comparison)
    if args.json:
        print_json(comparison)
    else:
        print(table, end="")
