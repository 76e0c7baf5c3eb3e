"""Times what comparing a run with its inputs costs: `evaluate` with many questions, `train-encoder` with many images.

python -m benchmarks.inputs --folder DIR [--questions 100000] [--images 20000]

Writes small images (or takes those that an earlier call wrote) and compares them twice: first every file is read, then
the digests are known. As shares of a run, divide by its time: for example 10 ms a question on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from evaluation.datasets import Question
from evaluation.run import claim
from retriever.identity import Items, agree, files_as_items

BYTES = 20_000
"""Size of an image; what is in it does not matter, because it is not decoded."""


def seconds(do: Callable[[], object]) -> float:
    """Returns how long a call takes, rounded to milliseconds."""
    started = time.perf_counter()
    do()
    return round(time.perf_counter() - started, 3)


def written(folder: Path, count: int) -> list[Path]:
    """Returns the paths of that many files, which it writes unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for path in paths:
        if not path.exists():
            path.write_bytes(os.urandom(BYTES))
    return paths


def main() -> None:
    """Prints the times as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where to write images, digests and notes")
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--images", type=int, default=20_000)
    args = parser.parse_args()
    shutil.rmtree(args.folder / "cache", ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = str(args.folder / "cache")
    paths = written(args.folder / "images", args.images)
    time.sleep(1.1)  # files that have just been written are not noted
    asked = [
        Question(str(n), "What is the capital of this country?", paths[n % len(paths)].stem, ("Tokyo",), ("jp",), 0)
        for n in range(args.questions)
    ]

    def evaluate() -> None:
        claim(args.folder / "run", {"settings": {}}, asked, args.folder / "images")

    def train() -> None:
        named = [(path.stem, path) for path in paths]
        labels = Items(((name, ["jp"]) for name, _ in named), "image", "another entity")
        agree(args.folder / "training" / "inputs.json", {"labels": labels, "images": files_as_items(named, "image")})

    kinds = {"train-encoder": train, "evaluate": evaluate}
    times = {f"{name}, {when}": seconds(do) for name, do in kinds.items() for when in ("first", "again")}
    print(json.dumps({"questions": args.questions, "images": args.images, "seconds": times}, indent=2))


if __name__ == "__main__":
    main()
