"""Sections of articles: which are dropped, how texts are divided, and the order of outlines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sections import (
    DROPPED,
    DROPPED_BY_REFERENCE,
    WORDS,
    outlined,
    parts_of,
    split_article,
    split_text,
    title_rule,
    without_below,
)
from retriever.types import Section
from retriever.unspaced import count_words

LISTS = [
    *("References", "EXTERNAL LINKS", "See also", "Notes", "Notes and references", "Bibliography", "Further reading"),
    *("Sources", "Citations", "Works cited", "Footnotes", "References:", " external  links "),
]
PROSE = [
    *("Habitat preferences", "Host preferences", "Cultural references", "Field notes", "Energy sources", "Legacy"),
    *("Music citations and awards", "References in popular culture", "", "[1]", ".*"),
]


def test_titles_of_lists() -> None:
    dropped = title_rule(DROPPED)
    assert all(map(dropped, LISTS)) and not any(map(dropped, PROSE))
    dropped = title_rule(DROPPED_BY_REFERENCE)  # the rule of the paper's code
    assert all(
        map(dropped, ("References", "Notes and References", "External links (selection)", "Habitat preferences"))
    )
    assert not any(map(dropped, ("See also", "Notes", "Bibliography")))
    dropped = title_rule(["Einzelnachweise", "Tabelle *", "a.b"])
    assert all(map(dropped, ("EINZELNACHWEISE", "Tabelle 3", "A.B")))
    assert not any(map(dropped, ("References", "Tabelle", "axb", "Die Tabelle 3"))) and not title_rule([])("References")


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


def test_a_fact_in_a_paragraph_of_9000_words_is_found(tmp_path: Path) -> None:
    filler = " ".join("River stone field market bridge winter harbor road church." for _ in range(500))
    text = f"{filler} The mill was built by Ada Quist in 1734. {filler}"
    rows = [
        {"id": "a", "title": "A", "text": text},
        {"id": "b", "title": "B", "sections": [{"title": "Past", "text": text}, {"title": "Now", "text": "Short."}]},
    ]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for entity in read_knowledge_base(tmp_path / "kb.jsonl"):
        texts = [section.text for section in entity.sections]
        assert max(len(one.split()) for one in texts) <= WORDS
        assert " ".join(texts).split() == (text if entity.id == "a" else f"{text} Short.").split()
        (found,) = [one for one in texts if "Ada Quist" in one]
        assert "The mill was built by Ada Quist in 1734." in found and found[0] == "R" and found[-1] == "."
    assert {section.index for section in entity.sections[:-1]} == {0} and entity.sections[-1].index == 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("桥建于1750年。" * 100, None),  # Chinese has no spaces
        ("ชาวบ้านปลูกข้าว" * 100, None),  # Thai has no marks between sentences, either
        ("بني الجسر عام 1750 على يد سالم. " * 100, None),
        ("word " * 1000, None),
        ("x" * 5000, ["x" * 5000]),  # one word
        ("", []),
    ],
)
def test_texts_in_any_language_are_divided(text: str, parts: list[str] | None) -> None:
    found = [part for part in parts_of(text) if part]
    assert parts in (None, found)
    assert all(count_words(part) <= WORDS for part in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_sections_of_research_data_keep_their_size(tmp_path: Path) -> None:
    entry = {"title": "A", "section_titles": ["A"], "section_texts": ["word " * 2000], "image_urls": []}
    (tmp_path / "kb.json").write_text(json.dumps({"a": entry}))
    (entity,) = read_knowledge_base(tmp_path / "kb.json")
    assert len(entity.sections) == 1


def test_headings_without_text_say_something(tmp_path: Path) -> None:
    text = "# Fox\n\n## It eats mice and hens.\n\n## Height: 40 cm\n\n## Past\n\n### Old\n\nText.\n"
    (tmp_path / "a.md").write_text(text)
    (fox,) = read_knowledge_base(tmp_path)
    assert [(one.title, one.text) for one in fox.sections] == [
        *(("Fox", "It eats mice and hens.\nHeight: 40 cm"), ("Past: Old", "Text."))
    ]


OUTLINES = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ABCDEFG"), st.sampled_from(["", "", "one", "two."])))


def test_an_outline() -> None:
    sections = [(0, "A", ""), (2, "B", ""), (3, "C", "c"), (3, "D", "d"), (2, "E", ""), (3, "F", ""), (4, "G", "")]
    assert outlined([*sections, (2, "H", "h"), (3, "I", ""), (1, "J", "")]) == [
        *(("A", "J"), ("", ""), ("B: C", "c"), ("B: D", "d"), ("", ""), ("E: F", "G"), ("", "")),
        *(("H", "h\nI"), ("", ""), ("", "")),
    ]


@given(OUTLINES)
def test_nothing_of_an_outline_is_lost(sections: list[tuple[int, str, str]]) -> None:
    sections = [(0, "Article", "start"), *sections]
    result = outlined(sections)
    assert len(result) == len(sections)
    assert all(
        text == "" or text.startswith(before) for (_, _, before), (_, text) in zip(sections, result, strict=True)
    )
    words = Counter(" ".join(f"{title} {text}" for title, text in result).replace(":", " ").split())
    assert not Counter(" ".join(f"{title} {text}" for _, title, text in sections).split()) - words


def test_sections_without_text_have_a_number() -> None:
    assert split_article([("A", "a"), ("B", " \n"), ("C", "c")]) == (Section("A", "a", 0), Section("C", "c", 2))


def test_what_is_below_a_section_that_is_dropped() -> None:
    sections = [(1, "Notes", "a"), (2, "Notes", "b"), (3, "Books", "c"), (2, "Diet", "d"), (2, "Notes", " ")]
    assert list(without_below(sections, lambda title: title == "Notes")) == [
        *(("Notes", "a"), ("Notes", "b"), ("", ""), ("Diet", "d"), ("", "")),
    ]


def test_a_text_without_headings_is_divided() -> None:
    paragraphs = ["a " * 100, "b " * 150, "c", "d " * 300, "e"]
    parts = list(split_text("T", "\n\n".join(paragraphs)))
    assert [(title, len(text.split())) for title, text in parts] == [("T", 250), ("T", 250), ("T", 52)]
    assert " ".join(text for _, text in parts).split() == " ".join(paragraphs).split()
    assert list(split_text("T", " \n")) == []
    assert list(split_text("T", "== A ==\nx\n==B==\n")) == [("A", "x")]
    chinese = ["一" * 100, "二" * 150, "三。"]  # characters count, since no spaces do
    assert list(split_text("T", "\n".join(chinese))) == [("T", "\n".join(chinese[:2])), ("T", chinese[2])]
