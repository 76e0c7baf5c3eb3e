"""All readers: those of this project in the order in which they are asked, then those of other packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from indexes.decoding import opened
from indexes.knowledge.readers import Reader
from indexes.knowledge.readers.database import DATABASE
from indexes.knowledge.readers.epub import EPUB
from indexes.knowledge.readers.html import WEBSITE
from indexes.knowledge.readers.json_rows import JSON_ROWS
from indexes.knowledge.readers.markdown import MARKDOWN
from indexes.knowledge.readers.mediawiki import MEDIAWIKI
from indexes.knowledge.readers.parquet import PARQUET
from indexes.knowledge.readers.published import EVQA, INFOSEEK, WIKI6M
from indexes.knowledge.readers.source_file import HUGGINGFACE
from indexes.knowledge.readers.table import TABLE
from indexes.knowledge.readers.xml_rows import XML_ROWS
from indexes.knowledge.readers.zim import ZIM

GROUP = "omgm.readers"
"""The group of entry points that name the readers of other packages."""
BEGINNING = 4096  # bytes of a file that tell what it is
_OWN = (
    *(ZIM, EPUB, EVQA, INFOSEEK, WIKI6M, JSON_ROWS, MEDIAWIKI, WEBSITE, XML_ROWS, PARQUET, DATABASE, HUGGINGFACE),
    *(TABLE, MARKDOWN),  # a text file with columns is a table
)


@cache
def readers() -> tuple[Reader, ...]:
    """Returns all readers, those of other packages first, so that they can replace one of this project.

    Raises:
        ValueError: An entry point does not name a `Reader`.
    """
    others = []
    for point in entry_points(group=GROUP):
        reader = point.load()
        if not isinstance(reader, Reader):
            raise ValueError(f"entry point {point.name!r} of {GROUP}: expected a Reader, got {type(reader).__name__}")
        others.append(reader)
    return (*others, *_OWN)


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
