from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sections import split_text
from retriever.types import ArticleImage, Entity, Section

WIKI: dict[str, Any] = {
    "wikidata_id": "Q44",
    "wikipedia_title": "Red fox & co",
    "wikipedia_summary": "A fox.",
    "wikipedia_content": "A fox.\n\nIt is red.\n== Diet ==\nMice.\n=== Winter ===\nBerries.\n"
    "== References ==\n[1]\n== Use ==\nFur.",
    "wikipedia_image_url": "https://upload.example/fox.jpg",
}


def wiki(tmp_path: Path, *changes: dict[str, Any]) -> list[Entity]:
    path = tmp_path / "wiki.jsonl"
    path.write_text("".join(json.dumps(WIKI | change) + "\n" for change in changes))
    return list(read_knowledge_base(path))


def test_wiki6m_with_headings(tmp_path: Path) -> None:
    (fox,) = wiki(tmp_path, {})
    assert (fox.id, fox.title) == ("Q44", "Red fox & co")
    assert fox.url == "https://en.wikipedia.org/wiki/Red_fox_%26_co"
    assert fox.sections == (
        Section("Red fox & co", "A fox.", 0),
        Section("Red fox & co", "It is red.", 1),
        Section("Diet", "Mice.\n=== Winter ===\nBerries.", 2),
        Section("Use", "Fur.", 4),
    )
    assert fox.image == "https://upload.example/fox.jpg" and fox.images == (ArticleImage(fox.image, 0),)


def test_wiki6m_with_little(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"wikidata_id": "Q1", "wikipedia_content": None, "wikipedia_image_url": None},
        {"wikidata_id": "Q2", "wikipedia_summary": "", "wikipedia_content": "Only text.\n\nTwo."},
        {"wikidata_id": "Q3", "wikipedia_summary": "Not how it begins.", "wikipedia_content": "Other text."},
        {"wikidata_id": "Q4", "wikipedia_summary": "", "wikipedia_content": ""},
    ]
    first, second, third, fourth = wiki(tmp_path, *changes)
    title = "Red fox & co"
    assert first.sections == (Section(title, "A fox.", 0),) and first.image is None and first.images == ()
    assert second.sections == (Section(title, "Only text.\nTwo.", 0),)
    assert third.sections == (Section(title, "Other text.", 0),)  # the content field has all of the text
    assert fourth.sections == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wikidata_id": None}, "line 2: field 'wikidata_id' is missing"),
        ({"wikipedia_title": None}, r"line 2 \('Q44'\): field 'wikipedia_title' is missing"),
        ({"wikipedia_content": ["a"]}, r"line 2 \('Q44'\): field 'wikipedia_content': expected text, but found a list"),
        ({}, r"line 2 \('Q44'\): field 'id': 'Q44' occurs a second time"),
    ],
)
def test_wiki6m_errors_name_line_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"wiki\.jsonl: " + message):
        wiki(tmp_path, {}, change)


def test_a_text_without_headings_is_divided() -> None:
    paragraphs = ["a " * 100, "b " * 150, "c", "d " * 300, "e"]
    parts = list(split_text("T", "\n\n".join(paragraphs)))
    assert [(title, len(text.split())) for title, text in parts] == [("T", 250), ("T", 250), ("T", 52)]
    assert " ".join(text for _, text in parts).split() == " ".join(paragraphs).split()
    assert list(split_text("T", " \n")) == []
    assert list(split_text("T", "== A ==\nx\n==B==\n")) == [("A", "x")]
    chinese = ["一" * 100, "二" * 150, "三。"]  # characters count, since no spaces do
    assert list(split_text("T", "\n".join(chinese))) == [("T", "\n".join(chinese[:2])), ("T", chinese[2])]
