"""Knowledge bases as they come, one reader a file: docs/knowledge-bases.md says where they come from."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from indexes.formats.evqa import read_evqa
from indexes.formats.jsonl import read_jsonl
from indexes.formats.markdown import article_files, read_markdown
from indexes.formats.parquet import read_parquet
from indexes.formats.streams import inner_name, opened
from indexes.formats.wiki6m import read_wiki6m
from indexes.formats.zim import read_zim
from indexes.ids import hash_id
from retriever.files import as_line, sha256_of
from retriever.types import Entity

Reader = Callable[[Path], Iterator[tuple[str, Entity]]]
"""Yields each entity with the place it stands at, for error messages."""

FORMATS: dict[str, Reader] = {
    "evqa": read_evqa,
    "infoseek": read_evqa,  # the 100K subset has E-VQA's form
    "wiki6m": read_wiki6m,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "markdown": read_markdown,
    "zim": read_zim,
}
OWN_PICTURES = frozenset({"markdown", "zim"})
"""Formats whose pictures lie in the knowledge base itself."""

_EXTENSIONS = {".json": "evqa", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".zim": "zim"}
_PACKED = (".gz", ".zip")


def read_knowledge_base(path: Path, format: str | None = None) -> Iterator[Entity]:
    """Yields the entities of a knowledge base in the file's order, holding few of them in memory.

    That an id occurs twice is found at the end: eight bytes an entity are kept to see it.

    Args:
        path: The file, or the folder.
        format: A key of `FORMATS`; guessed when `None`.

    Raises:
        ValueError: An unknown format, or a row that does not fit its format. The message names file, entry and field.
        OSError: The file cannot be read.
    """
    reader = FORMATS.get(format or guess_format(path))
    if reader is None:
        raise ValueError(f"knowledge base format {format!r} is unknown: use one of {', '.join(FORMATS)}")
    hashes = array("q")
    for where, entity in reader(path):
        if not entity.id:
            raise ValueError(f"{where}: field 'id' is empty")
        hashes.append(hash_id(entity.id))
        yield entity
    ordered = np.sort(np.array(hashes, dtype=np.int64))
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        _name_duplicates(reader, path, frozenset(twice.tolist()))


def guess_format(path: Path) -> str:
    """Returns the format of a knowledge base: a folder is Markdown, a file is known by its extension.

    JSON lines whose first one has a `wikidata_id` are Wiki6M's; behind `.gz` and `.zip` the packed file counts.

    Raises:
        ValueError: The extension says nothing, or a ZIP archive holds several files.
    """
    if path.is_dir():
        return "markdown"
    name = Path(inner_name(path)) if path.suffix == ".zip" else path.with_suffix("") if path.suffix == ".gz" else path
    found = _EXTENSIONS.get(name.suffix.lower())
    if found is None:
        known = ", ".join(f"{extension} ({name})" for extension, name in _EXTENSIONS.items())
        raise ValueError(f"{path}: cannot tell the format by the extension; known: {known}. Name the format")
    return "wiki6m" if found == "jsonl" and _is_wiki6m(path) else found


def name_of(path: Path) -> str:
    """Returns the name of a knowledge base: its file's without extensions of format and packing."""
    return Path(path.stem).stem if path.suffix in _PACKED else path.stem


def hash_knowledge_base(path: Path, format: str) -> str:
    """Returns the SHA-256 of a knowledge base's file; of a folder, that of its articles' names and hashes."""
    if format != "markdown":
        return sha256_of(path)
    digest = hashlib.sha256()
    for file in article_files(path):
        digest.update(as_line([file.relative_to(path).as_posix(), sha256_of(file)]))
    return digest.hexdigest()


def _is_wiki6m(path: Path) -> bool:
    if not path.is_file():
        return False
    with opened(path) as file:
        try:
            row = json.loads(file.readline().decode("utf-8-sig"))
        except ValueError:  # whoever reads the file says what is wrong with it
            return False
    return isinstance(row, dict) and "wikidata_id" in row


def _name_duplicates(reader: Reader, path: Path, suspects: frozenset[int]) -> None:
    first: dict[str, str] = {}
    for where, entity in reader(path):  # a second reading, only now that there is something to name
        if hash_id(entity.id) in suspects:
            if entity.id in first:
                raise ValueError(
                    f"{where}: field 'id': {entity.id!r} occurs a second time, after {first[entity.id]}; "
                    "every entity needs its own"
                )
            first[entity.id] = where
