"""Find alpha and beta on one split: a table, a picture and a profile that has them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from omgm.commands.common import describe, existing, print_json, profile_of
from omgm.commands.evaluate import add_inputs, chosen

GRID = "0:1:0.05"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_inputs(parser)
    for name in ("alphas", "betas"):
        parser.add_argument(
            f"--{name}", type=grid, default=grid(GRID), metavar="GRID", help=f"0.1,0.5,0.9 or FROM:TO:STEP ({GRID})"
        )
    parser.add_argument(
        "--report-queries", type=Path, metavar="FILE", help="another split to report on, never tuned on"
    )


def grid(text: str) -> list[float]:
    """Returns the numbers of `a,b,c` or of `from:to:step`, both ends included."""
    try:
        if ":" not in text:
            numbers = [float(part) for part in text.split(",")]
        else:
            start, stop, step = map(float, text.split(":"))
            numbers = [round(start + i * step, 6) for i in range(round((stop - start) / step) + 1)]
    except (ValueError, ZeroDivisionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 0.1,0.5 nor 0:1:0.05") from error
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} leaves 0 to 1")
    return numbers


def run(args: argparse.Namespace) -> None:
    """Evaluates retrieval once a split, then fuses its scores anew for each value."""
    profile = profile_of(args)
    questions = {"tune": chosen(args)}
    if args.report_queries is not None:
        held_out = argparse.Namespace(**vars(args) | {"queries": existing(args.report_queries, "--report-queries")})
        questions["report"] = chosen(held_out)

    from evaluation.records import read_lines
    from evaluation.run import LINES, evaluate
    from evaluation.sweep import sweep
    from omgm.parts import open_retriever
    from omgm.profile import parse_overrides, write_profile

    retriever = open_retriever(profile, args.index)
    index = retriever.index
    for split, asked in questions.items():
        evaluate(
            retriever,
            None,
            asked,
            args.query_images,
            args.out / split,
            dataset=args.dataset,
            profile_name=profile.name,
            settings=profile.model_dump(mode="json"),
            index_info=describe(index),
        )
    report = "report" in questions
    table = sweep(
        read_lines(args.out / "tune" / LINES),
        args.alphas,
        args.betas,
        tune_split=str(args.queries),
        report=read_lines(args.out / "report" / LINES) if report else None,
        report_split=str(args.report_queries) if report else None,
        out=args.out,
    )
    best = {"fusion.alpha": table["alpha"], "sections.beta": table["beta"]}
    tuned = write_profile(args.out, args.profile, parse_overrides(args.overrides) | best)
    if args.json:
        print_json(table)
        return
    _print(table["by_alpha"], "alpha", "recall@1")
    _print(table["by_beta"], "beta", "section_recall@1")
    print(f"alpha {table['alpha']:g}, beta {table['beta']:g}; the next command takes --profile {tuned}")
    if report:
        print("  ".join(f"{key} {value}" for key, value in table["reported"].items()))


def _print(rows: Sequence[dict[str, float | None]], key: str, measure: str) -> None:
    print(f"{key:>6}  {measure}")
    for row in rows:
        value = row[measure]
        print(f"{row[key]:6.2f}  {'-' if value is None else f'{value:.3f}'}")
