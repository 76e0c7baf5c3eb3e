"""Write the demo data set "flags of the world": `python -m demo.build --out artifacts/demo`.

Everything is drawn and written from this folder's own data, the same bytes for the same seed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

from demo.articles import articles
from demo.draw import draw
from demo.flags import Flag, load_flags
from demo.photo import photograph
from demo.questions import COLUMNS, Row, Split, infoseek_rows, questions

WIDTH = 320
PHOTO_SIZE = (320, 256)
MARKER = "complete.json"
TRAIN: Split = "train"
FILES: dict[Split, str] = {"train": "train.csv", "val": "validation.csv", "test": "test.csv"}


def write_demo(folder: Path, seed: int = 0, questions_per_country: int = 4) -> None:
    """Returns when `folder` holds the demo: knowledge base, drawings, photographs and questions in three splits.

    It holds `kb_wiki.json`, `images/flag/<code>.png`, `queries/<code>_<n>.jpg`, `train.csv`, `validation.csv`,
    `test.csv`, and the test split once more as `infoseek_test.jsonl`, `infoseek_test_withkb.jsonl` and
    `infoseek_test_qtype.jsonl`. A folder that is complete and was written with the same seed, count and code stays as
    it is.

    Args:
        folder: Made where it does not exist.
        seed: Decides on photographs, kinds and wordings of questions.
        questions_per_country: Each has its own photograph; one goes to validation, one to test, the others to training.

    Raises:
        ValueError: Fewer than 3 questions per country: a split would be empty.
    """
    if questions_per_country < 3:
        raise ValueError(f"questions_per_country: {questions_per_country}: needs 3 or more, so that each split has one")
    wanted = {"seed": seed, "questions_per_country": questions_per_country, "source": _source_hash()}
    marker = folder / MARKER
    if marker.exists() and json.loads(marker.read_text(encoding="utf-8")) == wanted:
        return
    marker.unlink(missing_ok=True)

    flags = load_flags()
    splits: list[Split] = [*(TRAIN,) * (questions_per_country - 2), "val", "test"]
    rows = questions(random.Random(seed), questions_per_country, splits)
    _write(folder / "kb_wiki.json", json.dumps(articles(), ensure_ascii=False, indent=1).encode())
    for split, name in FILES.items():
        write_rows(folder / name, [row for row in rows if row["encyclopedic_vqa_split"] == split])
    test = [row for row in rows if row["encyclopedic_vqa_split"] == "test"]
    for name, lines in zip(("", "_withkb", "_qtype"), infoseek_rows(test), strict=True):
        _write_lines(folder / f"infoseek_test{name}.jsonl", lines)
    _write_pictures(folder, flags, rows, seed)
    _write(marker, json.dumps(wanted).encode())


def _write_pictures(folder: Path, flags: dict[str, Flag], rows: list[Row], seed: int) -> None:
    codes = dict.fromkeys(row["dataset_category_id"] for row in rows)
    pictures = {code: draw(flags[code], round(WIDTH / flags[code].ratio)) for code in codes}
    for code, picture in pictures.items():
        _write_image(folder / "images" / "flag" / f"{code}.png", picture.resize((WIDTH, picture.height)))
    for row in tqdm(rows, desc="photographs", unit="picture"):
        name = row["dataset_image_ids"]
        photo = photograph(pictures[row["dataset_category_id"]], random.Random(f"{seed} {name}"), PHOTO_SIZE)
        _write_image(folder / "queries" / f"{name}.jpg", photo)


def _source_hash() -> str:
    """A hash of this folder's code and data: what decides, besides the arguments, on the demo's contents."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.iterdir()):
        if path.suffix in (".py", ".toml", ".csv"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)


def _write_image(path: Path, image: Image.Image) -> None:
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "PNG" if path.suffix == ".png" else "JPEG", quality=88)
    _write(path, buffer.getvalue())


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes questions as E-VQA's CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _write(path, text.getvalue().encode())


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def main(argv: list[str] | None = None) -> None:
    """Returns when the command line's folder holds the demo."""
    parser = argparse.ArgumentParser(prog="python -m demo.build", description="write the data set 'flags of the world'")
    parser.add_argument("--out", type=Path, default=Path("artifacts/demo"), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--questions-per-country", type=int, default=4, metavar="N", help="3 or more")
    arguments = parser.parse_args(argv)
    write_demo(arguments.out, arguments.seed, arguments.questions_per_country)
    print(f"the demo is in {arguments.out}")


if __name__ == "__main__":
    main()
