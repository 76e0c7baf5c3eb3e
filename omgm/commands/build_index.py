"""Build the index of a knowledge base; killed and restarted, it resumes."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_json,
    add_knowledge_base,
    add_max_bad,
    add_profile,
    add_reading,
    describe,
    existing,
    images_of,
    print_json,
    profile_of,
    reading_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_images=True)
    add_reading(parser)
    add_max_bad(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="INDEX", help="the index's folder")
    parser.add_argument("--name", help="the index's name; by default the file's")
    parser.add_argument("--overwrite", action="store_true", help="replace another index")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Builds the index and prints what it holds and what it could not use."""
    profile = profile_of(args)
    kb = existing(args.kb, "--kb")
    images = images_of(args)

    from indexes.report import counts_of, problem_lines, read_report
    from omgm import parts

    index = parts.build(
        profile,
        kb,
        args.out,
        images=images,
        name=args.name,
        overwrite=args.overwrite,
        **reading_of(args),
    )
    report = read_report(index.folder)
    if args.json:
        print_json(describe(index) | counts_of(report))
        return
    counts = index.manifest.counts
    print(
        f"{args.out}: {counts.entities} entities, {counts.with_image} with an image, {counts.sections} sections, "
        f"{counts.token_sections} with tokens"
    )
    lines = problem_lines(report)
    for line in lines:
        print(line)
    if lines:
        print(f"each with its reason: {index.folder / 'report.json'}")
