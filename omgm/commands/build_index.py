"""Build the index of a knowledge base; killed and restarted, it resumes."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_json,
    add_kb_format,
    add_knowledge_base,
    add_profile,
    describe,
    existing,
    images_of,
    print_json,
    profile_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_images=True)
    add_kb_format(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="INDEX", help="the index's folder")
    parser.add_argument("--name", help="the index's name; by default the file's")
    parser.add_argument("--overwrite", action="store_true", help="replace another index")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Builds the index and prints what it holds and which images it could not use."""
    profile = profile_of(args)
    kb = existing(args.kb, "--kb")
    images = images_of(args)

    from indexes.report import problem_lines, read_report
    from omgm import parts

    index = parts.build(
        profile,
        kb,
        args.out,
        images=images,
        kb_format=args.kb_format,
        name=args.name,
        overwrite=args.overwrite,
    )
    report = read_report(index.folder)
    if args.json:
        print_json(describe(index) | {f"images_{problem}": len(entries) for problem, entries in report.items()})
        return
    counts = index.manifest.counts
    print(
        f"{args.out}: {counts.entities} entities, {counts.with_image} with an image, {counts.sections} sections, "
        f"{counts.token_sections} with tokens"
    )
    if index.manifest.search is not None:
        print(f"entity index: {index.manifest.search}")
    for line in problem_lines(report):
        print(line)
    if any(report.values()):
        print(f"each with its reason: {index.folder / 'report.json'}")
