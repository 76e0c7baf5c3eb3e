"""Measures live updates of a running service: milliseconds until a change is acknowledged, and until it is found.

    python benchmarks/updates.py --changes 50 --out updates.json

It builds an index of drawn images with the profile's models, serves it on a free port, puts new articles one by one
(`update_ms`: the request, including an image upload) and asks for each immediately (`found_ms`: from the start of the
request until the response of `/retrieve` that names it).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from PIL import Image

from benchmarks.started import service
from omgm.client import Client
from omgm.indexing import build
from omgm.profile import load_profile
from retriever.files import write_json, write_whole


def drawn(seed: int) -> Image.Image:
    """Returns an image of twelve colored rectangles."""
    random = np.random.default_rng(seed)
    pixels = np.full((240, 320, 3), random.integers(0, 256, 3), np.uint8)
    for _ in range(12):
        (top, left), (height, width) = random.integers(0, 200, 2), random.integers(30, 120, 2)
        pixels[top : top + height, left : left + width] = random.integers(0, 256, 3)
    return Image.fromarray(pixels)


def article(number: int) -> dict[str, Any]:
    """Returns an article of four sections."""
    text = f"Design {number} has twelve rectangles. It was drawn in {1500 + number % 500} and is known for its colors. "
    return {"title": f"Design {number}", "sections": [{"title": f"Part {i}", "text": text * 5} for i in range(4)]}


def measure(numbers: range, put: Callable[[int], object], find: Callable[[int], bool]) -> dict[str, float | int]:
    """Makes changes one by one and asks for each immediately.

    Args:
        numbers: The articles.
        put: Changes the index; returns when the change is acknowledged.
        find: Asks for the article and returns whether it was found.

    Returns:
        Percentiles in ms of the change alone (`update`) and of change and query together (`found`), and the number of
        articles that were `not_found`.
    """
    updates, found, lost = list[float](), list[float](), 0
    for number in numbers:
        started = time.perf_counter()
        put(number)
        updates.append((time.perf_counter() - started) * 1000)
        lost += not find(number)
        found.append((time.perf_counter() - started) * 1000)
    times = {"update": updates, "found": found}
    report = {
        f"{what}_ms_p{percent}": round(float(np.percentile(taken, percent)), 1)
        for what, taken in times.items()
        for percent in (50, 95)
    }
    return report | {"not_found": lost}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the benchmark and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="embedded", metavar="P", help="(%(default)s)")
    parser.add_argument("--entities", type=int, default=200, metavar="N", help="in the index (%(default)s)")
    parser.add_argument("--changes", type=int, default=50, metavar="N", help="articles to put (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the report as JSON")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "images").mkdir()
        lines = []
        for number in range(args.entities):
            drawn(number).save(folder / "images" / f"{number}.png")
            lines.append(json.dumps({"id": f"base-{number}", "image": f"{number}.png", **article(number)}) + "\n")
        write_whole(folder / "kb.jsonl", "".join(lines).encode())
        index = folder / "index"
        build(load_profile(args.profile), folder / "kb.jsonl", index, images=folder / "images", progress=False)
        with service(args.profile, index) as (_, (host, port)), Client(f"http://{host}:{port}") as client:

            def find(number: int) -> bool:
                best = client.retrieve(drawn(number), "When was it drawn?")
                return f"new-{number}" in {candidate.entity_id for candidate in best.candidates}

            times = measure(
                range(args.entities, args.entities + args.changes),
                lambda number: client.put_entity(f"new-{number}", article(number), drawn(number)),
                find,
            )
    report: dict[str, Any] = {"profile": args.profile, "entities": args.entities, "changes": args.changes} | times
    if args.out is not None:
        write_json(args.out, report)
    print(json.dumps(report, indent=2))
    return report


if __name__ == "__main__":
    main()
