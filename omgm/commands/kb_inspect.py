"""Show some entities of a knowledge base as they are read, with counts and problems; build nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import add_json, add_reading, existing, images_of, print_json, reading_of
from omgm.commands.numbers import natural, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("kb", type=Path, metavar="FILE", help="the knowledge base, a file or a folder")
    parser.add_argument("--images", type=Path, metavar="DIR", help="its images; by default in or next to it")
    add_reading(parser)
    parser.add_argument("--count", type=positive, default=10, metavar="N", help="entities to show (%(default)s)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of their choice (%(default)s)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write an HTML page with their images")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Reads the knowledge base and prints its contents and problems.

    Raises:
        SystemExit: With status 1 if there is no entity.
    """
    kb, images = existing(args.kb, "FILE"), images_of(args)

    from indexes.knowledge.inspection import html_page, inspect_knowledge_base, text_lines
    from indexes.lines import to_row
    from retriever.files import write_whole

    given = reading_of(args)
    result = inspect_knowledge_base(
        kb, images, format=given["kb_format"], names=given["names"], count=args.count, seed=args.seed
    )
    if args.html is not None:
        write_whole(args.html, html_page(result))
    if args.json:
        shown = [
            {"image_found": one.image, "image_problem": one.problem, **to_row(one.entity)} for one in result.specimens
        ]
        print_json(result.counts() | {"examples": shown})
    else:
        for line in text_lines(result):
            print(line)
        if args.html is not None:
            print(f"with images: {args.html}")
    if not result.entities:
        raise SystemExit(1)
