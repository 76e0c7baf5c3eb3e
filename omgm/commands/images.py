"""Download the pictures of a knowledge base: `omgm images fetch`; started again, it goes on where it was stopped."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

from omgm.commands.common import add_json, add_knowledge_base, existing, positive, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("action", choices=["fetch"], help="fetch: download what is not there")
    add_knowledge_base(parser)
    parser.add_argument("--kb-format", metavar="NAME", help="its format; by default found from the file")
    parser.add_argument("--all", action="store_true", help="all pictures of an entity, not the main image alone")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--contact", metavar="C", help="your e-mail address or page: hosts want to know whom to ask")
    who.add_argument("--user-agent", metavar="UA", help="the whole user agent, instead of ours with --contact")
    parser.add_argument("--per-host", type=positive, metavar="N", help="requests at once to one host (2)")
    parser.add_argument("--per-second", type=_above_zero, metavar="N", help="requests a second to one host (10)")
    parser.add_argument("--megabits", type=_above_zero, metavar="N", help="Mbit/s from one host (25)")
    parser.add_argument("--retries", type=_not_negative, metavar="N", help="further tries after a passing failure (4)")
    parser.add_argument("--timeout", type=_above_zero, metavar="S", help="seconds that a host may stay silent (20)")
    parser.add_argument("--max-bytes", type=positive, metavar="N", help="larger downloads are cut off (33554432)")
    parser.add_argument("--max-side", type=positive, metavar="N", help="longer side of what is kept, in pixels (1024)")
    parser.add_argument("--thumbnails", action="store_true", help="ask Wikimedia for its own scaled pictures")
    parser.add_argument("--retry", action="store_true", help="ask again for all that failed in earlier runs")
    parser.add_argument("--ignore-robots", action="store_true", help="do not read robots.txt")
    parser.add_argument(
        "--allow-private",
        action="append",
        default=[],
        metavar="HOST",
        help="a host (name or name:port) that may be on a private network; may be repeated",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Downloads, and says what is there, what is missing, and why."""
    kb = existing(args.kb, "--kb")
    if args.images.exists() and not args.images.is_dir():
        raise ValueError(f"--images: {args.images} is not a folder")

    from PIL import Image

    from indexes.formats import OWN_PICTURES, guess_format, read_knowledge_base
    from omgm.downloads.images.fetch import fetch_images
    from omgm.downloads.images.settings import DownloadSettings, user_agent

    format = args.kb_format or guess_format(kb)
    if format in OWN_PICTURES:
        raise ValueError(
            f"--kb: {kb}: a knowledge base of format {format} holds its pictures; there is nothing to fetch"
        )
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
    entities = read_knowledge_base(kb, format)
    report = fetch_images(entities, args.images, settings, every=args.all, retry=args.retry)
    if args.json:
        print_json(report)
    else:
        print("\n".join(_lines(report, args.images)))


def _lines(report: dict[str, Any], images: Path) -> list[str]:
    pictures, entities, now = report["pictures"], report["entities"], report["this_run"]
    lines = [
        f"{images}: {pictures['there']} of {pictures['named']} pictures are there, {now['fetched']} fetched now "
        f"({now['bytes'] / 1e6:.1f} MB in {now['seconds']} s), {pictures['duplicates']} the same as another",
        f"{entities['main_image_there']} of {entities['all']} entities have their main image; the others are found by "
        "their text",
    ]
    for name, reason in report["missing"].items():
        hosts = ", ".join(f"{host or 'no host'} {count}" for host, count in list(reason["hosts"].items())[:3])
        again = "; the next run asks again" if reason["asked_again_by_next_run"] else ""
        lines.append(f"missing, {name}: {reason['pictures']} ({hosts}): {reason['meaning']}{again}")
    if pictures["missing"]:
        lines.append(f"every missing picture: {images / '.omgm' / 'missing.jsonl'}")
    return lines


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} where at least 0 is due")
    return number


def _above_zero(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} where a number above 0 is due")
    return number
