"""Knowledge bases that a test writes, read without skipping an entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.reading import read_knowledge_base
from retriever.types import Entity


def written(path: Path, value: Any) -> Path:
    """Writes a value as JSON and returns the file."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def read(path: Path, kb_format: str | None = None, **names: str) -> list[Entity]:
    """Returns the entities; `names` are those of their fields."""
    return list(read_knowledge_base(path, kb_format, names=names, skipped=SkippedEntries(0)))


def texts(entity: Entity) -> list[tuple[str, str]]:
    """Returns title and text of each section."""
    return [(section.title, section.text) for section in entity.sections]


def facts(entity: Entity) -> list[str]:
    """Returns the lines of the only section of facts."""
    (found,) = [text for title, text in texts(entity) if title == "Facts"]
    return found.split("\n")
