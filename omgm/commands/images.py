"""Download the images of a knowledge base: `omgm images fetch`. Run it again to resume."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

from omgm.commands.common import (
    add_allow_private,
    add_json,
    add_knowledge_base,
    add_max_bad,
    add_reading,
    existing,
    print_json,
    reading_of,
)
from omgm.commands.numbers import above_zero, natural, positive
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("action", choices=["fetch"], help="fetch: download what is missing")
    add_knowledge_base(parser)
    add_reading(parser)
    add_max_bad(parser, listed="")
    parser.add_argument("--all", action="store_true", help="all images of an entity, not only the main image")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--contact", metavar="C", help="your e-mail address or web page, sent to the hosts")
    who.add_argument("--user-agent", metavar="UA", help="a complete user agent, instead of ours with --contact")
    parser.add_argument("--per-host", type=positive, metavar="N", help="concurrent requests to one host (2)")
    parser.add_argument("--per-second", type=above_zero, metavar="N", help="requests per second to one host (10)")
    parser.add_argument("--megabits", type=above_zero, metavar="N", help="Mbit/s from one host (25)")
    parser.add_argument("--retries", type=natural, metavar="N", help="retries after a temporary failure (4)")
    parser.add_argument("--timeout", type=above_zero, metavar="S", help="seconds that a host may stay silent (20)")
    parser.add_argument("--max-bytes", type=positive, metavar="N", help="largest download in bytes (33554432)")
    parser.add_argument(
        "--max-side", type=positive, metavar="N", help="longest side of stored images, in pixels (1024)"
    )
    parser.add_argument("--thumbnails", action="store_true", help="request scaled images from Wikimedia")
    parser.add_argument("--retry", action="store_true", help="retry all earlier failures")
    parser.add_argument("--ignore-robots", action="store_true", help="ignore robots.txt")
    add_allow_private(parser, "images")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Downloads the images and prints how many are there and why others are missing."""
    kb = existing(args.kb, "--kb")
    if args.images.exists() and not args.images.is_dir():
        raise ValueError(f"--images: {args.images} is not a folder")

    from PIL import Image

    from indexes.formats import OWN_IMAGES, guess_format, read_knowledge_base
    from indexes.formats.skipped import MAX_BAD, SkippedEntries
    from indexes.sources import open_images
    from omgm.downloads.images.fetch import fetch_images
    from omgm.downloads.images.plan import remote_images
    from omgm.downloads.images.settings import DownloadSettings, user_agent

    reading = reading_of(args)
    format = reading["kb_format"] or guess_format(kb)
    given = {
        "per_host": args.per_host,
        "per_second": args.per_second,
        "megabits": args.megabits,
        "retries": args.retries,
        "silence_s": args.timeout,
        "max_bytes": args.max_bytes,
        "max_side": args.max_side,
    }
    settings = DownloadSettings(
        user_agent=args.user_agent or user_agent(args.contact),
        allow_private=frozenset(host.lower() for host in args.allow_private),
        robots=not args.ignore_robots,
        thumbnails=args.thumbnails,
        **{key: value for key, value in given.items() if value is not None},
    )
    warnings.simplefilter("error", Image.DecompressionBombWarning)  # counted as too many pixels, not printed
    skipped = SkippedEntries(reading.get("max_bad", MAX_BAD))
    entities = read_knowledge_base(kb, format, names=reading["names"], skipped=skipped)
    if format in OWN_IMAGES and (own := open_images(None, kb, format)) is not None:
        entities = remote_images(entities, own, args.all)
    report = fetch_images(entities, args.images, settings, every=args.all, retry=args.retry)
    if args.json:
        print_json(report)
    else:
        print("\n".join(_lines(report, args.images)))


def _lines(report: dict[str, Any], images: Path) -> list[str]:
    counts, entities, now = report["images"], report["entities"], report["this_run"]
    lines = [
        f"{images}: {counts['there']} of {counts['named']} images are there, {now['fetched']} fetched now "
        f"({now['bytes'] / 1e6:.1f} MB in {now['seconds']} s), {counted(counts['duplicates'], 'duplicate')}",
        f"{entities['main_image_there']} of {entities['all']} entities have their main image; the others are found by "
        "their text",
    ]
    for name, reason in report["missing"].items():
        hosts = ", ".join(f"{host or 'no host'} {count}" for host, count in list(reason["hosts"].items())[:3])
        again = "; the next run retries" if reason["asked_again_by_next_run"] else ""
        lines.append(f"missing, {name}: {reason['images']} ({hosts}): {reason['meaning']}{again}")
    if counts["missing"]:
        lines.append(f"every missing image: {images / '.omgm' / 'missing.jsonl'}")
    return lines
