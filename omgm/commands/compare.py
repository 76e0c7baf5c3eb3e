"""Put runs side by side, with intervals and the significance of their differences."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from omgm.commands.common import add_json, existing, positive, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="what evaluate wrote; the first is what the others compare to"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the table, and beside it FILE.json")
    parser.add_argument("--resamples", type=positive, default=10_000, metavar="N", help="of bootstrap and test (10000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of both (%(default)s)")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Compares, writes, prints."""
    from evaluation.compare import as_markdown, compare
    from retriever.files import write_whole

    if args.out is not None and args.out.suffix != ".md":
        raise ValueError(f"--out: {args.out} has to end with .md; the JSON goes beside it")
    comparison = compare([existing(run, "RUN") for run in args.runs], resamples=args.resamples, seed=args.seed)
    table = as_markdown(comparison)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(args.out, table.encode())
        written = json.dumps(comparison, indent=2, ensure_ascii=False).encode() + b"\n"
        write_whole(args.out.with_suffix(".json"), written)
    if args.json:
        print_json(comparison)
    else:
        print(table, end="")
