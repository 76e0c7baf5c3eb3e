"""Knowledge bases in the formats they are published in, one reader per file; docs/knowledge-bases.md describes them."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterator, Sequence
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
from indexes.sections import DROPPED, DROPPED_BY_REFERENCE, title_rule, without_lists
from retriever.files import as_line, sha256_of
from retriever.types import Entity

Reader = Callable[[Path], Iterator[tuple[str, Entity]]]
"""Yields each entity with its place in the file, for error messages."""

FORMATS: dict[str, Reader] = {
    "evqa": read_evqa,
    "infoseek": read_evqa,  # the 100K subset has E-VQA's form
    "wiki6m": read_wiki6m,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "markdown": read_markdown,
    "zim": read_zim,
}
OWN_IMAGES = frozenset({"markdown", "zim"})
"""Formats that hold their images themselves."""

_EXTENSIONS = {".json": "evqa", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".zim": "zim"}
_PACKED = (".gz", ".zip")


def read_knowledge_base(
    path: Path, format: str | None = None, drop_sections: Sequence[str] | None = None
) -> Iterator[Entity]:
    """Yields the entities of a knowledge base in the file's order, holding only a few of them in memory.

    A duplicate id is found at the end: eight bytes per entity are kept to notice it.

    Args:
        path: The file, or the folder.
        format: A key of `FORMATS`; guessed when `None`.
        drop_sections: Titles of sections to drop, see `dropped_titles`.

    Raises:
        ValueError: The format is unknown, or an entry does not fit it. The message names file, entry and field.
        OSError: The file cannot be read.
    """
    format = format or guess_format(path)
    reader = FORMATS.get(format)
    if reader is None:
        raise ValueError(f"knowledge base format {format!r} is unknown: use one of {', '.join(FORMATS)}")
    dropped = title_rule(dropped_titles(format, drop_sections))
    hashes = array("q")
    for where, entity in reader(path):
        if not entity.id:
            raise ValueError(f"{where}: field 'id' is empty")
        hashes.append(hash_id(entity.id))
        yield without_lists(entity, dropped)
    ordered = np.sort(np.array(hashes, dtype=np.int64))
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        _name_duplicates(reader, path, frozenset(twice.tolist()))


def dropped_titles(format: str, given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Returns the titles of sections to drop from a knowledge base, in lower case; `*` stands for any text.

    Args:
        format: Its format. E-VQA's own drops what the paper's code drops, so that results can be compared.
        given: The titles that the profile sets instead, if it does.
    """
    default = DROPPED_BY_REFERENCE if FORMATS.get(format) is read_evqa else DROPPED
    return default if given is None else tuple(title.lower() for title in given)


def guess_format(path: Path) -> str:
    """Returns the format of a knowledge base: a folder is Markdown; of a file, the extension tells.

    JSON lines whose first line has a `wikidata_id` are Wiki6M's. In `.gz` and `.zip` files the file inside counts.

    Raises:
        ValueError: The extension is unknown, or a ZIP archive holds several files.
    """
    if path.is_dir():
        return "markdown"
    name = Path(inner_name(path)) if path.suffix == ".zip" else path.with_suffix("") if path.suffix == ".gz" else path
    found = _EXTENSIONS.get(name.suffix.lower())
    if found is None:
        known = ", ".join(f"{extension} ({name})" for extension, name in _EXTENSIONS.items())
        raise ValueError(f"{path}: unknown extension; known are {known}; name the format with --kb-format")
    return "wiki6m" if found == "jsonl" and _is_wiki6m(path) else found


def name_of(path: Path) -> str:
    """Returns the name of a knowledge base: its file's, without the extensions of format and compression."""
    return Path(path.stem).stem if path.suffix in _PACKED else path.stem


def hash_knowledge_base(path: Path, format: str) -> str:
    """Returns the SHA-256 of a knowledge base's file, or for a folder of its articles' names and hashes."""
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
        except ValueError:  # the reader will say what is wrong with the file
            return False
    return isinstance(row, dict) and "wikidata_id" in row


def _name_duplicates(reader: Reader, path: Path, suspects: frozenset[int]) -> None:
    first: dict[str, str] = {}
    for where, entity in reader(path):  # read a second time, now that there is something to name
        if hash_id(entity.id) in suspects:
            if entity.id in first:
                raise ValueError(
                    f"{where}: field 'id': {entity.id!r} occurs a second time, after {first[entity.id]}; "
                    "every entity needs its own"
                )
            first[entity.id] = where
