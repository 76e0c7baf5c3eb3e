"""Exports a Hugging Face dataset, or Parquet files, to the plain format: a question file and a folder of images."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from evaluation.datasets.plain import answers_in, plain_question
from evaluation.datasets.plain_rows import renamed
from evaluation.datasets.rows import Row
from indexes.arrow_rows import labeled_rows, parquet_files, rows_of_parquet
from indexes.extras import optional
from indexes.progress import progress_bar
from retriever.files import as_line, replace_with, write_whole
from retriever.images import encoded, load_image, open_image

FIELDS = ("id", "image", "question", "answers", "entity", "section", "type", "split", "category")
QUESTIONS, IMAGES = "questions.jsonl", "images"
_KEPT_FORMATS = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp"}


def export(folder: Path, out: Path, split: str | None = None) -> int:
    """Writes the images to `out/images/`, then `out/questions.jsonl`, and returns the number of questions.

    Args:
        folder: A dataset written by `Dataset.save_to_disk`, a Parquet file or a folder of such files, with the columns
            that `plain_question` names or common synonyms. The column `image` holds images or their names. A row
            without an id gets its number as its id. Other columns are ignored.
        out: The folder to write to.
        split: The split of a `DatasetDict`.

    Raises:
        ValueError: An extra is not installed, the folder is not a dataset, or a row is invalid; the message names the
            row and field.
    """
    (out / IMAGES).mkdir(parents=True, exist_ok=True)
    bar = progress_bar(_rows(folder, split), desc="questions", unit="question")
    named = (
        (where, {"id": number, **_with_image_name(row, out / IMAGES, where)}) for number, (where, row) in enumerate(bar)
    )
    ids = set[str]()
    replace_with(out / QUESTIONS, lambda partial: _write(partial, named, ids))
    return len(ids)


def _rows(folder: Path, split: str | None) -> Iterator[tuple[str, Row]]:
    """Yields the rows with their places; labels have their names, and images are not decoded."""
    if folder.is_file() or any(folder.glob("*.parquet")):
        yield from rows_of_parquet(*_files(folder, split))
        return
    datasets = optional("datasets", "hf")
    try:
        data = datasets.load_from_disk(str(folder))
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: not a dataset that save_to_disk wrote ({error})") from error
    if isinstance(data, datasets.DatasetDict):
        _check_split(folder, split, data)
        data = data[split]
    rows = labeled_rows(data.with_format("arrow").iter(4), data.features.arrow_schema)
    yield from ((f"{folder}: row {number}", row) for number, row in enumerate(rows))


def _files(path: Path, split: str | None) -> list[Path]:
    """Returns the Parquet files of a split, which their names begin with: `test-00000-of-00002.parquet`."""
    files = parquet_files(path) if path.is_dir() else [path]
    of_split = {file: re.sub(r"[-_]?\d+(-of-\d+)?$", "", file.stem) for file in files}
    if len(splits := dict.fromkeys(of_split.values())) > 1:
        _check_split(path, split, splits)
        files = [file for file in files if of_split[file] == split]
    return files


def _check_split(folder: Path, split: str | None, splits: Collection[str]) -> None:
    if split not in splits:
        raise ValueError(f"{folder}: has the splits {', '.join(splits)}; pass one of them as --split, got {split!r}")


def _write(path: Path, rows: Iterable[tuple[str, Row]], seen: set[str]) -> None:
    with path.open("wb") as file:
        for where, row in rows:
            question = plain_question(row, where)
            if question.id in seen:
                raise ValueError(f"{where}: field id: {question.id!r} is also in an earlier row")
            seen.add(question.id)
            file.write(as_line(row))


def _with_image_name(row: Row, folder: Path, where: str) -> Row:
    """Returns a row with the name of its image file; writes the file if the row holds the image itself."""
    row = renamed(row)
    kept = {name: row[name] for name in FIELDS if row.get(name) is not None}
    if "answers" in kept:
        kept["answers"] = answers_in(kept["answers"]) or kept["answers"]
    if isinstance(kept.get("image"), dict):
        data, path = kept["image"].get("bytes"), kept["image"].get("path")
        if not data and not path:
            raise ValueError(f"{where}: field image has neither bytes nor a path")
        kept["image"] = _write_image(data or Path(path).read_bytes(), folder, where)
    return kept


def _write_image(data: bytes, folder: Path, where: str) -> str:
    """Writes an image unless it exists; returns its name, a hash: images shared by questions are stored once."""
    name = hashlib.sha256(data).hexdigest()[:32]
    with open_image(data, f"{where}: field image") as image:
        extension = _KEPT_FORMATS.get(image.format or "")
    if extension is None:  # find_query_image does not look for this format
        data, extension = encoded(load_image(data, where)), ".png"
    if not (folder / f"{name}{extension}").exists():
        write_whole(folder / f"{name}{extension}", data)
    return name
