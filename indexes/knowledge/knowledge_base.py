"""A knowledge base with everything that is said about how to read it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from indexes.image_source import ImageSource
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.document import Document
from indexes.knowledge.embedded import PREFIX, EmbeddedImages
from indexes.knowledge.folder import contents_of
from indexes.knowledge.groups import Groups
from indexes.knowledge.ledger import Ledger
from indexes.knowledge.readers import Folder, Reader
from indexes.knowledge.readers.zim import zim_parts
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import given_images, open_images
from indexes.labeled_values import Names
from indexes.limits import MAX_BAD
from retriever.files import as_line, sha256_of
from retriever.types import Entity


@dataclass(frozen=True, kw_only=True)
class KnowledgeBase:
    """A knowledge base and how to read it.

    Attributes:
        kb: The knowledge base.
        images: A folder or a ZIM file with its images; `None` if the knowledge base holds its own. A missing or
            unreadable image is not an error.
        kb_format: The name of a reader (`indexes.knowledge.readers`); by default, each file has its own.
        names: Names of an entity's fields in the knowledge base, where they differ from the usual ones.
        drop_sections: Titles of sections to leave out; see `indexes.knowledge.reading.dropped_titles`.
        keep_navigation: See `indexes.knowledge.reading.read_knowledge_base`.
        max_bad: Share of bad entries that is accepted and skipped, in 0..1.
    """

    kb: Path
    images: Path | None
    kb_format: str | None = None
    names: Names | None = None
    drop_sections: Sequence[str] | None = None
    keep_navigation: bool = False
    max_bad: float = MAX_BAD

    @cached_property
    def format(self) -> str:
        """The name of the reader of its files, or "folder" if they have several."""
        return self.kb_format or guess_format(self.kb)

    def articles(
        self, skipped: SkippedEntries | None = None, ledger: Ledger | None = None, groups: Groups | None = None
    ) -> Iterator[Entity]:
        """Yields the articles. By default, bad entries up to the share `max_bad` are skipped."""
        return read_knowledge_base(
            self.kb,
            self.kb_format,
            self.drop_sections,
            names=self.names,
            keep_navigation=self.keep_navigation,
            skipped=skipped or SkippedEntries(self.max_bad),
            ledger=ledger,
            groups=groups,
        )

    @property
    def digest(self) -> str:
        """A hash of everything that the articles are read from."""
        return hash_knowledge_base(self.kb, self.kb_format, self.names)

    def image_source(self) -> ImageSource:
        """Returns the images; raises as `image_source`."""
        return image_source(self.images, self.kb, self.kb_format)


def image_source(images: Path | None, kb: Path, kb_format: str | None) -> ImageSource:
    """Returns the images of a knowledge base.

    Raises:
        ValueError: No folder is given for an encyclopedia; see `given_images`.
    """
    kb_format = kb_format or guess_format(kb)
    source = open_images(given_images(images, kb, kb_format), kb, kb_format)
    assert source is not None  # a folder is given, or the knowledge base contains its images
    return source


def guess_format(path: Path) -> str:
    """Returns the name of the reader of a knowledge base, or "folder" if its files have several.

    Raises:
        ValueError: No reader reads it; the message says what to do.
    """
    return contents_of(path).format


def name_of(path: Path) -> str:
    """Returns the name of a knowledge base: a folder's, also of `.`, or a file's without format and compression."""
    path = Path(os.path.abspath(path))  # unlike `resolve`, this keeps the name of a link
    if path.is_dir():
        return path.name
    return Path(path.stem).stem if path.suffix in (".gz", ".bz2", ".zip") else path.stem


def hash_knowledge_base(path: Path, format: str | None, names: Names | None = None) -> str:
    """Returns the SHA-256 of a knowledge base's file or, for a folder, of its files' names and hashes.

    The given names of fields are included, because they change what is read.
    """
    contents = contents_of(path, format)
    files = zim_parts(path) if contents.format == "zim" else contents.paths
    rows_elsewhere = path.suffix.lower() == ".toml" and path.is_file()
    if files == [path] and not names and not rows_elsewhere:
        return sha256_of(path)
    digest = hashlib.sha256()
    if rows_elsewhere:
        digest.update(hash_rows(path, next(iter(contents.files))).encode())
    for file in files:
        digest.update(as_line([file.relative_to(contents.root).as_posix(), _hash_of(file)]))
    if names:
        digest.update(as_line(dict(sorted(names.items()))))
    return digest.hexdigest()


def hash_rows(path: Path, reader: Reader) -> str:
    """Returns the SHA-256 of the rows that a file names, including the bytes of their images."""
    digest, images = hashlib.sha256(), EmbeddedImages(path.parent)
    for _, entry in reader.read(path, Folder(path.parent, [path])):
        values = entry.values if isinstance(entry, Document) else {"error": str(entry)}
        for name, value in values.items():
            is_image = isinstance(value, str) and value.startswith(PREFIX)
            content = hashlib.sha256(images.read(value) or b"").hexdigest() if is_image else str(value)
            digest.update(as_line([name, content]))
    return digest.hexdigest()


def _hash_of(file: Path) -> str:
    """Returns the SHA-256 of a file in a folder; one that may not be read is a bad entry, not the end."""
    try:
        return sha256_of(file)
    except PermissionError:
        return "unreadable"
