"""All readers: those of this project in the order in which they are asked, then those of other packages."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from indexes.decoding import opened
from indexes.knowledge.readers import Reader
from retriever.entry_points import declared

GROUP = "omgm.readers"
"""The group of entry points that name the readers of other packages."""
BEGINNING = 4096  # bytes of a file that tell what it is
_OWN = (
    *("zim:ZIM", "epub:EPUB", "published:EVQA", "published:INFOSEEK", "published:WIKI6M", "json_rows:JSON_ROWS"),
    *("mediawiki:MEDIAWIKI", "mediawiki:WIKITEXT", "html:WEBSITE", "xml_rows:XML_ROWS", "parquet:PARQUET"),
    # a text file with columns is a table
    *("database:DATABASE", "source_file:HUGGINGFACE", "table:TABLE", "markdown:MARKDOWN"),
    "program:PROGRAM",
)
"""This project's readers, in the form of entry points: modules here and the names of the values in them.

They are imported when a knowledge base is read, not with this module, so that a service or a training needs no parser.
"""


@cache
def readers() -> tuple[Reader, ...]:
    """Returns all readers, those of other packages first, so that they can replace one of this project.

    Raises:
        ValueError: An entry point does not name a `Reader`.
    """
    return declared(GROUP, Reader, (f"{__package__}.{name}" for name in _OWN))


def reader_named(name: str) -> Reader:
    """Returns the reader that `--kb-format` names.

    Raises:
        ValueError: There is none.
    """
    every = readers()
    reader = next((one for one in every if one.name == name), None)
    if reader is None:
        known = ", ".join(dict.fromkeys(one.name for one in every))
        raise ValueError(f"knowledge base format {name!r} is unknown; use one of {known}")
    return reader


def beginning_of(file: Path) -> bytes:
    """Returns the first bytes of a file, decompressed; none if it cannot be opened, which its reader will report."""
    try:
        with opened(file) as content:
            return content.read(BEGINNING)
    except (OSError, EOFError, ValueError):
        return b""
