"""What the readers of rows share: values of JSON's types and their words, bytes that are images, neighboring files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from indexes.knowledge.document import Block, Document
from indexes.knowledge.readers import Entry, Folder

_IMAGE = re.compile(
    rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|BM.{4}\0{4}|II\*\0|MM\0\*|.{4}ftyp(?:avi|hei|mif)|\s*<(?:svg|\?xml|!--)",
    re.DOTALL,
)


def is_image(content: bytes) -> bool:
    """Returns whether bytes begin like an image; the first 64 are enough."""
    return _IMAGE.match(content) is not None


def json_value(value: Any) -> Any:
    """Returns a value as one of JSON's types: dates, times and decimal numbers become text."""
    if isinstance(value, Mapping):
        return {str(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def words_within(*values: Any) -> str:
    """Returns all words in values, for counting; they may be nested deeper than Python's stack."""
    return " ".join(str(value) for value in _scalars(values) if value not in (None, ""))


def _scalars(values: Any) -> Iterator[Any]:
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += reversed(value)
        elif isinstance(value, Mapping):
            waiting += reversed(list(value.values()))
        else:
            yield value


def outside(words: str, kind: str) -> Document:
    """Returns a document of what a file holds besides its rows, which is no row."""
    return Document(parts=[Block(words, kind=kind)])


def no_rows(value: Any, file: Path, folder: Folder, why: str) -> Entry:
    """Returns what a file without rows holds, which is no error if there are other files: those have the entities.

    Raises:
        ValueError: There are none.
    """
    if folder.is_alone:
        raise ValueError(f"{file}: {why}")
    return str(file), outside(words_within(value), "files without rows")


def neighbors(file: Path, folder: Folder) -> list[Path]:
    """Returns the files before and after one."""
    place = _places(folder).get(file, 0)
    return [*folder.files[max(place - 1, 0) : place], *folder.files[place + 1 : place + 2]]


@lru_cache(maxsize=1)
def _places(folder: Folder) -> Mapping[Path, int]:
    return {file: place for place, file in enumerate(folder.files)}


def id_of(file: Path, folder: Folder) -> str:
    """Returns the id of the only row in a file: its path without the extension."""
    return file.relative_to(folder.root).with_suffix("").as_posix()
