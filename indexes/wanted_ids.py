"""Ids that questions and labels name, looked up while the articles of a knowledge base are read once."""

from __future__ import annotations

from collections.abc import Iterable

from indexes.ids import other_ids, spellings
from retriever.types import Entity


class WantedIds:
    """Ids as questions spell them, and the rows of the entities they mean.

    Memory use grows with the number of wanted ids, not with the number of entities read.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._wanted = dict.fromkeys(ids)  # a set would not keep their order
        self._respelled: dict[str, list[str]] = {}
        for wanted in self._wanted:
            for spelling in spellings(wanted):
                if spelling != wanted:
                    self._respelled.setdefault(spelling, []).append(wanted)
        self._by_id: dict[str, int] = {}
        self._by_name: dict[str, int] = {}

    def __len__(self) -> int:
        """Returns the number of wanted ids."""
        return len(self._wanted)

    def meaning(self, entity: Entity) -> list[str]:
        """Returns the wanted ids that may mean an entity; spellings of its own id come first."""
        found: list[str] = []
        for name in (entity.id, *other_ids(entity)):
            if name in self._wanted:
                found.append(name)
            found += self._respelled.get(name, ())
        return list(dict.fromkeys(found))

    def add(self, entity: Entity, row: int) -> list[str]:
        """Records the row of an entity if any wanted id may mean it; returns these ids, see `meaning`."""
        if found := self.meaning(entity):
            self._by_id[entity.id] = row
            for name in other_ids(entity):
                if name in self._wanted or name in self._respelled:
                    self._by_name.setdefault(name, row)
        return found

    def rows(self) -> dict[str, int]:
        """Returns the row of each wanted id that means an entity; others are absent.

        The given spelling takes precedence over the canonical one, ids over other names, and earlier entities over
        later ones.
        """
        rows: dict[str, int] = {}
        for wanted in self._wanted:
            for spelling in spellings(wanted):
                row = self._by_id.get(spelling, self._by_name.get(spelling))
                if row is not None:
                    rows.setdefault(wanted, row)
        return rows
