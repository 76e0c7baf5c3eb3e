"""What a reader finds in files that a test writes, and data frames as programs save them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indexes.knowledge.document import Block, Document
from indexes.knowledge.readers import Entry, Folder, Reader


def entries(reader: Reader, *files: Path, root: Path | None = None) -> list[Entry]:
    """Returns the entries of files, by default those of one folder."""
    folder = Folder(root or files[0].parent, files, is_alone=len(files) == 1)
    return [entry for file in files for entry in reader.read(file, folder)]


def rows(reader: Reader, *files: Path, root: Path | None = None) -> list[Mapping[str, Any]]:
    """Returns the values of all rows; one that cannot be used is an error."""
    found = []
    for _, row in entries(reader, *files, root=root):
        if isinstance(row, ValueError):
            raise row
        assert isinstance(row, Document)
        if not row.parts:
            found.append(row.values)
    return found


def ids(reader: Reader, *files: Path, root: Path | None = None) -> list[str]:
    """Returns the ids of all rows."""
    documents = [row for _, row in entries(reader, *files, root=root) if isinstance(row, Document)]
    return [row.id for row in documents if not row.parts]


def beside(reader: Reader, *files: Path) -> list[tuple[str, str]]:
    """Returns the blocks that a reader yields besides rows: (kind, text) of each."""
    parts = [part for _, row in entries(reader, *files) if isinstance(row, Document) for part in row.parts]
    return [(part.kind, part.text) for part in parts if isinstance(part, Block)]


def laid_out(names: Sequence[str], rows: Sequence[Sequence[Any]], orient: str, labels: Sequence[Any]) -> Any:
    """Returns a data frame as pandas' `to_json` writes it, by its documentation."""
    records = [dict(zip(names, row, strict=True)) for row in rows]
    match orient:
        case "records":
            return records
        case "index":
            return {str(label): record for label, record in zip(labels, records, strict=True)}
        case "columns":
            pairs = list(zip(map(str, labels), records, strict=True))
            return {name: {label: record[name] for label, record in pairs} for name in names}
    assert orient == "list"  # of `to_dict`
    return {name: [record[name] for record in records] for name in names}
