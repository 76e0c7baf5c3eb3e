"""The fields of entities that searches can be limited by: values of a row, of front matter, or of a page's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from indexes.knowledge.document import Document
from indexes.knowledge.selection import FIELDS, language_of
from indexes.labeled_values import Names, value_at
from retriever.filters import text_of
from retriever.types import Entity

FILE, LANGUAGE = "file", "language"
"""Fields that every entity of a file has: its path, and the language that this names; unless it says otherwise."""


class EntityFields:
    """Finds the fields of entities that `FIELDS` names in a knowledge base.

    Args:
        names: What is said of the names in the knowledge base.
    """

    def __init__(self, names: Names) -> None:
        listed = [line.partition("=") for line in names.get(FIELDS, "").splitlines() if line]
        optional = {name.rstrip("?") for name, *_ in listed if name.endswith("?")}
        self._places = {name.rstrip("?"): place or name.rstrip("?") for name, _, place in listed}
        self._unseen = self._places.keys() - optional

    def added(self, entity: Entity, document: Document | None, path: str) -> Entity:
        """Returns an entity with its fields; those that it has already count if they are named.

        Args:
            entity: The entity.
            document: What it was read from; `None` if the reader yields entities.
            path: The path of its file in the knowledge base.
        """
        if not self._places:
            return replace(entity, fields=()) if entity.fields else entity
        values = {} if document is None else {**document.settings, **document.values}
        fallbacks = {FILE: path, LANGUAGE: language_of(path)}
        fields = list[tuple[str, str]]()
        for name, place in self._places.items():
            own = [text for field, text in entity.fields if field == name]
            texts = own or _texts(value_at(values, place)) or _texts(fallbacks.get(name))
            fields += [(name, text) for text in dict.fromkeys(texts)]
        self._unseen -= {name for name, _ in fields}
        return replace(entity, fields=tuple(fields))

    def check(self, columns: Sequence[str]) -> None:
        """Checks that some entity had each field.

        Raises:
            ValueError: None had; `columns` are the names of fields that entities have.
        """
        for name in sorted(self._unseen):
            listed = f"; fields are {', '.join(dict.fromkeys(columns))}" if columns else ""
            raise ValueError(f"--field {name}: no entry has {self._places[name]!r}{listed}")


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list | tuple) else [value]
    return [text for one in listed if isinstance(one, str | int | float) and (text := text_of(one))]
