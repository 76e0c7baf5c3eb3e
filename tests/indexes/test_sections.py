from __future__ import annotations

import json
from pathlib import Path

import pytest

from indexes.formats import read_knowledge_base
from indexes.sections import DROPPED, DROPPED_BY_REFERENCE, title_rule

LISTS = [
    *("References", "EXTERNAL LINKS", "See also", "Notes", "Notes and references", "Bibliography", "Further reading"),
    *("Sources", "Citations", "Works cited", "Footnotes", "References:", " external  links "),
]
PROSE = [
    *("Habitat preferences", "Host preferences", "Cultural references", "Field notes", "Energy sources", "Legacy"),
    *("Music citations and awards", "References in popular culture", "", "[1]", ".*"),
]


@pytest.mark.parametrize("title", LISTS)
def test_lists_are_dropped(title: str) -> None:
    assert title_rule(DROPPED)(title)


@pytest.mark.parametrize("title", PROSE)
def test_prose_is_kept(title: str) -> None:
    assert not title_rule(DROPPED)(title)


def test_the_rule_of_the_papers_code() -> None:
    dropped = title_rule(DROPPED_BY_REFERENCE)
    for title in ("References", "Notes and References", "External links (selection)", "Habitat preferences"):
        assert dropped(title)
    for title in ("See also", "Notes", "Bibliography"):
        assert not dropped(title)


def test_titles_of_ones_own() -> None:
    dropped = title_rule(["Einzelnachweise", "Tabelle *", "a.b"])
    assert dropped("EINZELNACHWEISE") and dropped("Tabelle 3") and dropped("A.B")
    assert not any(map(dropped, ("References", "Tabelle", "axb", "Die Tabelle 3")))
    assert not title_rule([])("References")


def write(folder: Path, titles: list[str], form: str) -> Path:
    if form == "evqa":
        entry = {"title": "Fox", "section_titles": titles, "section_texts": ["text"] * len(titles), "image_urls": []}
        (folder / "kb.json").write_text(json.dumps({"fox": entry}))
        return folder / "kb.json"
    row = {"id": "fox", "title": "Fox", "sections": [{"title": title, "text": "text"} for title in titles]}
    (folder / "kb.jsonl").write_text(json.dumps(row) + "\n")
    return folder / "kb.jsonl"


TITLES = ["Fox", "Habitat preferences", "See also", "References", "Diet"]


@pytest.mark.parametrize(
    ("form", "kept"),
    [
        ("jsonl", [(title, number) for number, title in enumerate(TITLES)]),  # one's own
        ("evqa", [("Fox", 0), ("See also", 2), ("Diet", 4)]),
    ],
)
def test_each_format_has_its_rule_and_sections_keep_their_numbers(
    tmp_path: Path, form: str, kept: list[tuple[str, int]]
) -> None:
    (fox,) = read_knowledge_base(write(tmp_path, TITLES, form))
    assert [(section.title, section.index) for section in fox.sections] == kept


@pytest.mark.parametrize("form", ["jsonl", "evqa"])
def test_a_rule_of_ones_own_holds_for_every_format(tmp_path: Path, form: str) -> None:
    (fox,) = read_knowledge_base(write(tmp_path, TITLES, form), drop_sections=["diet", "see also"])
    assert [section.index for section in fox.sections] == [0, 1, 3]


def test_what_is_under_the_articles_own_title_is_kept(tmp_path: Path) -> None:
    row = {
        "id": "n",
        "title": "Notes",
        "sections": [{"title": "Notes", "text": "A musical."}, {"title": "References", "text": "[1]"}],
    }
    (tmp_path / "kb.jsonl").write_text(json.dumps(row) + "\n")
    (notes,) = read_knowledge_base(tmp_path / "kb.jsonl", drop_sections=DROPPED)
    assert [section.title for section in notes.sections] == ["Notes"]
