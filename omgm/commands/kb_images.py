"""Download the images of a knowledge base or of questions; run it again to resume."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import (
    add_json,
    add_max_bad,
    add_query_map,
    add_reading,
    existing,
    question_names,
    reading_of,
    report,
)
from omgm.commands.numbers import above_zero, natural, positive
from retriever.wording import counted

if TYPE_CHECKING:
    from retriever.types import Entity


_WITH_IMAGES = ("zim", "huggingface", "parquet", "epub")  # files that contain images
_OF_ARTICLES = "entities have their main image; the others are found by their text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--kb", type=Path, metavar="FILE", help="the knowledge base")
    what.add_argument("--queries", type=Path, metavar="FILE", help="questions whose images are URLs, as of Dyn-VQA")
    parser.add_argument("--dataset", default="dynvqa", metavar="NAME", help="that of --queries (%(default)s)")
    add_query_map(parser)
    parser.add_argument("--images", type=Path, required=True, metavar="DIR", help="the folder for the images")
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
    parser.add_argument(
        "--mirror",
        default="",
        metavar="URL",
        help="fetch from here: takes the place of scheme and host, or {url} in it that of the whole URL",
    )
    parser.add_argument("--retry", action="store_true", help="retry all earlier failures")
    parser.add_argument("--ignore-robots", action="store_true", help="ignore robots.txt")
    parser.add_argument(
        "--allow-private",
        action="append",
        default=[],
        metavar="HOST",
        help="a host (name or name:port) of images that may be on a private network; may be repeated",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Downloads the images and prints how many are there and why others are missing."""
    if args.images.exists() and not args.images.is_dir():
        raise ValueError(f"--images: {args.images} is not a folder")

    from PIL import Image

    from omgm.downloads.images.fetch import fetch_images
    from omgm.downloads.images.settings import DownloadSettings, user_agent

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
        mirror=args.mirror,
        **{key: value for key, value in given.items() if value is not None},
    )
    warnings.simplefilter("error", Image.DecompressionBombWarning)  # counted as too many pixels, not printed
    entities = _of_questions(args) if args.kb is None else _of_articles(args)
    found = fetch_images(entities, args.images, settings, every=args.all, retry=args.retry)
    what = _OF_ARTICLES if args.kb else "images of questions"
    report(args, found, "\n".join(_lines(found, args.images, what)))


def _of_articles(args: argparse.Namespace) -> Iterator[Entity]:
    from indexes.knowledge.bad_entries import SkippedEntries
    from indexes.knowledge.knowledge_base import guess_format
    from indexes.knowledge.reading import read_knowledge_base
    from indexes.knowledge.sources import open_images
    from indexes.limits import MAX_BAD
    from omgm.downloads.images.plan import remote_images

    kb, reading = existing(args.kb, "--kb"), reading_of(args)
    format = reading["kb_format"] or guess_format(kb)
    skipped = SkippedEntries(reading.get("max_bad", MAX_BAD))
    entities = read_knowledge_base(kb, format, names=reading["names"], skipped=skipped)
    if (kb.is_dir() or format in _WITH_IMAGES) and (own := open_images(None, kb, format)) is not None:
        return remote_images(entities, own, args.all)
    return iter(entities)


def _of_questions(args: argparse.Namespace) -> Iterator[Entity]:
    """Yields an entity in place of each image of the questions.

    Raises:
        ValueError: The questions do not name their images by URLs.
    """
    from evaluation.datasets import load
    from retriever.types import Entity

    questions = load(args.dataset, existing(args.queries, "--queries"), question_names(args))
    ids = dict.fromkeys(question.image_id for question in questions)
    if not any("://" in id for id in ids):
        raise ValueError(f"--queries: the images of {args.dataset} are no URLs, such as {next(iter(ids), '')!r}")
    return (Entity(id, id, (), image=id) for id in ids)


def _lines(found: dict[str, Any], images: Path, what: str) -> list[str]:
    counts, entities, now = found["images"], found["entities"], found["this_run"]
    lines = [
        f"{images}: {counts['there']} of {counts['named']} images are there, {now['fetched']} fetched now "
        f"({now['bytes'] / 1e6:.1f} MB in {now['seconds']} s), {counted(counts['duplicates'], 'duplicate')}",
        f"{entities['main_image_there']} of {entities['all']} {what}",
    ]
    for name, reason in found["missing"].items():
        hosts = ", ".join(f"{host or 'no host'} {count}" for host, count in list(reason["hosts"].items())[:3])
        again = "; the next run retries" if reason["asked_again_by_next_run"] else ""
        lines.append(f"missing, {name}: {reason['images']} ({hosts}): {reason['meaning']}{again}")
    if counts["missing"]:
        lines.append(f"every missing image: {images / '.omgm' / 'missing.jsonl'}")
    return lines
