"""A Hugging Face dataset on disk as the plain form: a question file and a folder with its pictures."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from evaluation.datasets.plain import plain_question
from evaluation.datasets.rows import Row
from indexes.formats.fields import optional
from retriever.files import as_line, replace_with, write_whole
from retriever.images import load_image, open_image

FIELDS = ("id", "image", "question", "answers", "entity", "section", "type", "split", "category")
QUESTIONS, PICTURES = "questions.jsonl", "images"
_KEPT = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp"}


def export(folder: Path, out: Path, split: str | None = None, *, progress: bool = True) -> int:
    """Returns how many questions it wrote: pictures to `out/images/`, then `out/questions.jsonl`, whole or not at all.

    Args:
        folder: What `Dataset.save_to_disk` wrote, with the columns that `plain_question` names. `image` is a column
            of pictures or of their names; columns of other names are left behind.
        out: The folder to write to.
        split: Which part of a `DatasetDict`.
        progress: Show a bar.

    Raises:
        ValueError: `datasets` is not installed, the folder is no such dataset, or a row does not fit; the message names
            row and field.
    """
    data = _opened(folder, split)
    (out / PICTURES).mkdir(parents=True, exist_ok=True)
    rows = ((f"{folder}: row {number}", row) for number, row in enumerate(tqdm(data, disable=not progress)))
    named = ((where, _named(row, out / PICTURES, where)) for where, row in rows)
    replace_with(out / QUESTIONS, lambda partial: _write(partial, named))
    return len(data)


def _opened(folder: Path, split: str | None) -> Any:
    datasets = optional("datasets", "hf")
    try:
        data = datasets.load_from_disk(str(folder))
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: not a dataset that save_to_disk wrote ({error})") from error
    if isinstance(data, datasets.DatasetDict):
        if split not in data:
            raise ValueError(f"{folder}: holds the splits {', '.join(data)}; --split names one of them, not {split!r}")
        data = data[split]
    pictures = isinstance(data.features.get("image"), datasets.Image)
    return data.cast_column("image", datasets.Image(decode=False)) if pictures else data


def _write(path: Path, rows: Iterable[tuple[str, Row]]) -> None:
    with path.open("wb") as file:
        seen: set[str] = set()
        for where, row in rows:
            question = plain_question(row, where)
            if question.id in seen:
                raise ValueError(f"{where}: field id: {question.id!r} stands in an earlier row too")
            seen.add(question.id)
            file.write(as_line(row))


def _named(row: Row, folder: Path, where: str) -> Row:
    """Returns a row in which the picture is a file's name; the file is written when the row holds the picture."""
    kept = {name: row[name] for name in FIELDS if row.get(name) is not None}
    if isinstance(kept.get("image"), dict):
        data, path = kept["image"].get("bytes"), kept["image"].get("path")
        if not data and not path:
            raise ValueError(f"{where}: field image: neither bytes nor a path")
        kept["image"] = _write_picture(data or Path(path).read_bytes(), folder, where)
    return kept


def _write_picture(data: bytes, folder: Path, where: str) -> str:
    """Returns the name of a picture's file: its hash, so that one picture of many questions lies there once."""
    name = hashlib.sha256(data).hexdigest()[:32]
    with open_image(data, f"{where}: field image") as image:
        extension = _KEPT.get(image.format or "")
    if extension is None:  # a format that is not looked for
        buffer = io.BytesIO()
        load_image(data, where).save(buffer, "PNG")
        data, extension = buffer.getvalue(), ".png"
    if not (folder / f"{name}{extension}").exists():
        write_whole(folder / f"{name}{extension}", data)
    return name
