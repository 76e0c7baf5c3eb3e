"""The search of sections without an image: an index that changes, is compacted, opened again, or has no such column."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from indexes.live.section_search import IndexSections
from indexes.section_words import WordsModel
from indexes.store.index import Index
from retriever.types import Entity, Section
from tests.fakes.live import World, article
from tests.fakes.models import FakeSections

COLUMNS = {"sections": FakeSections(), "section_words": WordsModel()}


def about(name: str, *texts: str) -> Entity:
    return replace(article(name), title=name, sections=tuple(Section("", text, i) for i, text in enumerate(texts)))


ARTICLES = [
    about("Loom", "Weaves linen.", "Invented by Ada."),
    about("Kiln", "Fires pots at 900 degrees."),
    about("Bare"),
    about("Forge", "Melts iron."),
]


def best(index: Index, question: str, excluded: tuple[int, ...] = ()) -> tuple[str, int] | None:
    """Returns the entity and the position of the best section by its words."""
    [vector] = FakeSections().encode_questions([question])
    matches = [match for match in IndexSections(index).search(question, vector, excluded) if match.words]
    match = max(matches, key=lambda match: match.words or 0, default=None)
    return None if match is None else (index.entity(match.row).title, match.position)


def test_changes_are_found_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, ARTICLES, columns=COLUMNS)
    assert best(world.open(), "Who invented the loom?") == ("Loom", 1)
    editor = world.editor(columns=COLUMNS)
    new, changed = about("Press", "Prints books in Mainz."), about("Loom", "Weaves linen.", "Patented by Grace.")
    world.put(editor, new, changed)
    editor.remove(["kb/Kiln"])

    def check(index: Index) -> None:
        with index.pinned():  # type: ignore[attr-defined]
            assert best(index, "What prints books?") == ("Press", 0)
            assert best(index, "Who patented the loom?") == ("Loom", 1)
            assert best(index, "fires pots at degrees") is None
            row = index.row_of("kb/Press")
            assert row is not None and best(index, "What prints books?", (row,)) is None

    check(editor.index)
    check(world.open())  # a reader, from the log
    assert editor.index.compact()
    check(world.open())
    editor.index.close()


def test_an_older_index_is_searched_by_meaning_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, ARTICLES, columns={"sections": FakeSections()})
    index = world.open()
    [vector] = FakeSections().encode_questions(["Melts iron."])
    with caplog.at_level(logging.WARNING):
        matches = IndexSections(index).search("Melts iron.", vector)
    assert "without the words of its sections" in caplog.text and "by meaning alone" in caplog.text
    first = max(matches, key=lambda match: match.score)
    assert index.entity(first.row).title == "Forge" and first.words is None
    assert first.cosine == pytest.approx(1, abs=0.01)


def test_an_index_without_texts(tmp_path: Path) -> None:
    world = World(tmp_path, [about("Bare"), about("Blank")], columns=COLUMNS)
    index = world.open()
    [vector] = FakeSections().encode_questions(["Bare"])
    assert IndexSections(index).search("Bare", vector) == []
