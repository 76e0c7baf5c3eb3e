"""Where the images are that an index was built from: an index itself keeps only small copies of the main ones."""

from __future__ import annotations

import json
from pathlib import Path

from indexes.image_source import ImageSource
from indexes.knowledge.sources import open_images
from retriever.files import read_object, write_whole

NOTE = "sources.json"
"""The file in an index's folder that names them; not part of the index, so equal builds elsewhere are equal."""


def note_originals(index: Path, kb: Path, images: Path | None, kb_format: str | None) -> None:
    """Notes beside an index which knowledge base it was built from, and where its images are."""
    note = {"kb": str(kb.resolve()), "images": None if images is None else str(images.resolve()), "format": kb_format}
    write_whole(index / NOTE, json.dumps(note).encode() + b"\n")


def original_images(index: Path, images: Path | None = None) -> ImageSource | None:
    """Returns the images that an index was built from; `None` if they are not there any more, or unknown.

    Args:
        index: The index's folder.
        images: The folder or ZIM file that they are in now, if they were moved.

    Raises:
        ValueError: `images` is neither a folder nor a ZIM file, or the note is damaged.
    """
    if images is not None:
        return open_images(images, images, "")
    path = index / NOTE
    note = read_object(path) if path.is_file() else {}
    kb, folder = Path(note.get("kb") or ""), None if note.get("images") is None else Path(note["images"])
    if note and kb.exists() and (folder is None or folder.exists()):
        return open_images(folder, kb, note.get("format"))
    return None
