"""Rows as they are understood: records that belong together are joined, and their shape is that of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from indexes.knowledge.document import Document
from indexes.knowledge.understanding.facts import as_sections
from indexes.knowledge.understanding.records import related
from indexes.knowledge.understanding.values import Shape, Understood, shape_of, understood


def documents(rows: Sequence[Mapping[str, Any]], **names: str) -> list[Document]:
    """Returns the documents of rows of one file, with those that are drafts and the like."""
    entries = ((f"kb.json: item {number}", Document(values=row)) for number, row in enumerate(rows, start=1))
    return [document for _, document in related(entries, names) if isinstance(document, Document)]


def read(
    rows: Sequence[Mapping[str, Any]], files: Collection[str] = (), is_note: bool = False, **names: str
) -> list[Understood]:
    """Understands rows; `files` are the image files that exist, `names` as for `--map`."""
    records = [document for document in documents(rows, **names) if not document.parts]
    shape = shape_of(records, names, lambda url: url in files, is_note=is_note)
    return [understood(one.values, shape, f"kb.json: item {number}") for number, one in enumerate(records, start=1)]


def images(entity: Understood) -> list[str]:
    """Returns the images, the main one first."""
    return [url for url, _ in entity.images]


def facts(entity: Understood) -> list[str]:
    """Returns the facts as lines."""
    return [f"{label}: {value}" for label, value in entity.facts]


def sections(entity: Understood, shape: Shape | None = None) -> list[tuple[str, str]]:
    """Returns the sections that values make: text, long values, facts."""
    made = as_sections(entity.facts, shape.sections if shape else None)
    return [*entity.text, *((title, text) for title, text in made if text)]


def dropped(entity: Understood) -> dict[str, list[str]]:
    """Returns the texts that were left out, by reason."""
    reasons: dict[str, list[str]] = {}
    for reason, text in entity.left_out:
        reasons.setdefault(reason, []).append(text)
    return reasons
