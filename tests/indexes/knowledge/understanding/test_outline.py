"""Outlines: every word of a section stays, in order, and headings without text join what follows."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from indexes.knowledge.understanding.outline import outlined, split_article, without_below
from retriever.types import Section

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
    sections = [(1, "Notes", "a"), (2, "Notes", "b"), (3, "Books", "c"), (2, "Diet", "d")]
    assert list(without_below(sections, lambda title: title == "Notes")) == [
        *(("Notes", "a"), ("Notes", "b"), ("", ""), ("Diet", "d")),
    ]
