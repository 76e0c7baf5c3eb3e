"""Writes the demo's data set, flags and a few dishes: `python -m pretraining.demo.build --out artifacts/demo`.

Everything is made from the data in this folder; the same seed gives the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import random
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from indexes.progress import progress_bar
from omgm.demo import DRAWN, EXAMPLES
from pretraining.demo.articles import articles
from pretraining.demo.dishes import dish_articles, dish_questions, write_photographs
from pretraining.demo.draw import draw
from pretraining.demo.flags import Flag, load_flags
from pretraining.demo.photo import photograph
from pretraining.demo.questions import COLUMNS, Row, Split, infoseek_rows, questions
from retriever.files import write_whole
from retriever.images import encoded

WIDTH = 320
PHOTO_SIZE = (320, 256)
TRAIN: Split = "train"
FILES: dict[Split, str] = {"train": "train.csv", "val": "validation.csv", "test": "test.csv"}
KINDS = ("capital", "area", "flag", "currency", "language", "population")
"""Words that select different kinds of questions as examples."""


def write_demo(folder: Path, seed: int = 0, questions_per_country: int = 4, examples_only: bool = False) -> None:
    """Writes the demo to `folder`: knowledge base, drawings, photographs, and questions in three splits.

    The files are `kb_wiki.json`, `images/flag/<code>.png`, `queries/<code>_<n>.jpg`, `train.csv`, `validation.csv` and
    `test.csv`, and the test split again as `infoseek_test.jsonl`, `infoseek_test_withkb.jsonl` and
    `infoseek_test_qtype.jsonl`. The splits are about flags; every other question of `examples.csv` is about a
    dish (`images/dish/<code>.jpg`, `queries/<code>.jpg`). A folder with all photographs is left unchanged if it was
    written with the same arguments and code.

    Args:
        folder: Created if it does not exist.
        seed: Seed of the photographs and of the kinds and wordings of the questions.
        questions_per_country: Each has its own photograph; one goes to validation, one to test, the others to training.
        examples_only: Whether to take only the photographs of `examples.csv` and the first of each flag: what is
            shipped.

    Raises:
        ValueError: There are fewer than 3 questions per country, so a split would be empty.
    """
    if questions_per_country < 3:
        raise ValueError(f"questions_per_country must be at least 3, one for each split, got {questions_per_country}")
    wanted = {"seed": seed, "questions_per_country": questions_per_country, "source": _source_hash()}
    marker = folder / DRAWN
    if marker.exists() and json.loads(marker.read_text(encoding="utf-8")) == wanted:
        return
    marker.unlink(missing_ok=True)

    flags = load_flags()
    splits: list[Split] = [*(TRAIN,) * (questions_per_country - 2), "val", "test"]
    rows = questions(random.Random(seed), questions_per_country, splits)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(
        folder / "kb_wiki.json", json.dumps(articles() | dish_articles(), ensure_ascii=False, indent=1).encode()
    )
    for split, name in FILES.items():
        write_rows(folder / name, [row for row in rows if row["encyclopedic_vqa_split"] == split])
    test = [row for row in rows if row["encyclopedic_vqa_split"] == "test"]
    for name, lines in zip(("", "_withkb", "_qtype"), infoseek_rows(test), strict=True):
        _write_lines(folder / f"infoseek_test{name}.jsonl", lines)
    examples = _examples(test)
    write_rows(folder / EXAMPLES, examples)
    write_photographs(folder)
    first = [row for row in rows if row["dataset_image_ids"].endswith("_0")]
    _write_images(folder, flags, rows, seed, [*first, *examples] if examples_only else rows)
    if not examples_only:
        write_whole(marker, json.dumps(wanted).encode())


def _examples(test: Sequence[Row]) -> list[Row]:
    """Returns questions to show: about dishes and, in between, of different kinds about flags from all of the split."""
    dishes = dish_questions()
    step = max(len(test) // len(dishes), 1)
    shown = []
    for number, dish in enumerate(dishes):
        part = test[number * step : (number + 1) * step]
        kinds = KINDS[number % len(KINDS) :] + KINDS[: number % len(KINDS)]
        fitting = (row for kind in kinds for row in part if kind in row["question"].lower())
        shown += [dish, *([next(fitting, part[0])] if part else [])]
    return shown


def _write_images(
    folder: Path, flags: dict[str, Flag], rows: Sequence[Row], seed: int, photographed: Sequence[Row]
) -> None:
    for name in ("images/flag", "queries"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    codes = dict.fromkeys(row["dataset_category_id"] for row in rows)
    drawings = {code: draw(flags[code], round(WIDTH / flags[code].ratio)) for code in codes}
    for code, drawing in drawings.items():
        _write_image(folder / "images" / "flag" / f"{code}.png", drawing.resize((WIDTH, drawing.height)))

    shown = [row for row in photographed if row["dataset_category_id"] in drawings]

    def take(row: Row) -> None:
        name = row["dataset_image_ids"]
        photo = photograph(drawings[row["dataset_category_id"]], random.Random(f"{seed} {name}"), PHOTO_SIZE)
        _write_image(folder / "queries" / f"{name}.jpg", photo)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # in each of those below
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(progress_bar(pool.map(take, shown), total=len(shown), desc="photographs", unit="photo"))
    finally:
        torch.set_num_threads(threads)


def _source_hash() -> str:
    """Returns a hash of this folder's code and data, which determine the demo."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.*")):
        if path.suffix in (".py", ".toml", ".csv", ".jpg"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _write_image(path: Path, image: Image.Image) -> None:
    write_whole(path, encoded(image.convert("RGB"), "PNG" if path.suffix == ".png" else "JPEG", quality=88))


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes questions as E-VQA's CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def main(argv: list[str] | None = None) -> None:
    """Writes the demo to the folder given on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pretraining.demo.build",
        description="Write the demo's data set: flags and a few dishes.",
    )
    parser.add_argument("--out", type=Path, default=Path("artifacts/demo"), help="the folder to write (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of photographs and questions (%(default)s)")
    parser.add_argument("--questions-per-country", type=int, default=4, metavar="N", help="at least 3 (%(default)s)")
    arguments = parser.parse_args(argv)
    write_demo(arguments.out, arguments.seed, arguments.questions_per_country)
    print(f"wrote the demo to {arguments.out}")


if __name__ == "__main__":
    main()
