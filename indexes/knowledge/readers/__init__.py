"""The readers of files: one value per syntax, in one registry; others add theirs by the entry points `omgm.readers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexes.knowledge.document import Document
from retriever.types import Entity

Entry = tuple[str, Document | Entity | ValueError]
"""An entry's place, such as `notes/fox.md` or `animals.csv: line 3`, and what is there, or why it cannot be used.

Readers of the formats in which the field exchanges whole articles yield entities.
"""


@dataclass(frozen=True, eq=False)
class Folder:
    """The folder that is read.

    Attributes:
        root: Its path; for a single file, the folder that this is in.
        files: The files that are read by the same reader, in order.
        names: The names of an entity's fields that the user gives, for readers that yield entities.
        is_alone: Whether nothing else is read than one file, so that it is an error if it has no entity.
    """

    root: Path
    files: Sequence[Path]
    names: Mapping[str, str] = field(default_factory=dict)
    is_alone: bool = True


@dataclass(frozen=True, slots=True)
class Reader:
    """How files of one syntax are read.

    Attributes:
        name: What `--kb-format` calls it.
        suffixes: The extensions of its files in lower case, with the dot, those of compressed ones left out.
        recognizes: Whether it reads a file, by its path and the first 4 KB of its (decompressed) content. The first
            reader that recognizes a file with one of its extensions reads it, else the first that recognizes it.
        read: Yields the entries of a file, lazily.
        of_rows: Whether its documents are rows or records, whose fields are understood together: those of a file, or
            the only ones of the files in a folder.

    `read` raises `ValueError` if the file cannot be read at all, or if an extra is not installed; an entry that cannot
    be used is yielded as a `ValueError`, and the next ones follow.
    """

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[Path, bytes], bool]
    read: Callable[[Path, Folder], Iterator[Entry]]
    of_rows: bool = False
