"""Lists of things in JavaScript and TypeScript, where programs keep what others keep in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from indexes.decoding import decoded
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers import rows as common
from indexes.knowledge.readers.json_rows import of_list, of_object
from indexes.knowledge.understanding.fields import looks_like_image

_SUFFIXES = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx")
_MADE = (".min.js", ".config.js", ".d.ts")
_LARGEST = 1 << 24
_SHARE = 0.5  # of a file's characters from which its lists are what it is for
_IMPORTED = re.compile(
    r"import\s+(\w+)\s+from\s+['\"]([^'\"]+)['\"]|(?:const|let|var)\s+(\w+)\s*=\s*require\(['\"]([^'\"]+)['\"]\)"
)
"""A name that a program gives a file, such as an image."""
_QUOTED = re.compile(r"(?<=['\"`])\w+(?=['\"`])")
_REQUIRED = re.compile(r"require\(\s*['\"`]([^'\"`]+)['\"`]\s*\)(?:\.default)?")


def _recognizes(file: Path, _start: bytes) -> bool:
    """Returns whether most of a program is lists of things."""
    if file.suffix.lower() not in _SUFFIXES or file.name.endswith(_MADE) or "node_modules" in file.parts:
        return False
    try:
        state = file.stat()
        return state.st_size <= _LARGEST and bool(_things_in(file, state.st_mtime_ns, state.st_size))
    except (OSError, ValueError, RecursionError):
        return False


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the things with their places.

    Raises:
        ValueError: The file is alone, and has none.
    """
    state = file.stat()
    values = _things_in(file, state.st_mtime_ns, state.st_size)
    if not values:
        yield common.no_rows([], file, folder, "holds no list of objects with titles")
    for value in values:
        yield from _entries(value, file, folder)


def _entries(value: Any, file: Path, folder: Folder) -> Iterator[Entry]:
    return (
        of_list(enumerate(value, start=1), file, folder) if isinstance(value, list) else of_object(value, file, folder)
    )


@lru_cache(maxsize=8)  # a file is looked at before it is read
def _things_in(file: Path, _time: int, _size: int) -> list[Any]:
    """Returns the lists and objects of things in a program, none if they are less than most of it.

    Names of imported images are replaced by their paths, unless the program quotes the same word; other code is text.

    Raises:
        ValueError: It is not Unicode.
    """
    from chompjs import parse_js_objects  # only for folders with programs

    text = decoded(file.read_bytes(), str(file))
    imported = ((match[1] or match[3], match[2] or match[4]) for match in _IMPORTED.finditer(text))
    quoted = set(_QUOTED.findall(text))  # the parser does not tell a name from the same word in quotes
    files = {name: path for name, path in imported if looks_like_image(path) and name not in quoted}
    objects: Iterable[Any] = parse_js_objects(text, loader_kwargs={"strict": False})  # texts may have lines
    every = map(partial(_resolved, files=files), objects)
    values = [value for value in every if _holds_things(value, file)]
    return values if sum(len(json.dumps(one, ensure_ascii=False)) for one in values) >= _SHARE * len(text) else []


def _holds_things(value: Any, file: Path) -> bool:
    entries = _entries(value, file, Folder(file.parent, [file], is_alone=False))
    documents = [entry for _, entry in entries if isinstance(entry, Document) and entry.values]
    rows = [{"title": one.title, **one.values} if one.title else one.values for one in documents]
    return len(rows) > 1 and common.are_things(rows)


def _resolved(value: Any, files: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolved(inner, files) for name, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(inner, files) for inner in value]
    required = _REQUIRED.fullmatch(value) if isinstance(value, str) else None
    return required[1] if required else files.get(value, value) if isinstance(value, str) else value


PROGRAM = Reader("js", _SUFFIXES, _recognizes, _read, of_rows=True)
