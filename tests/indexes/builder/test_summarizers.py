"""Extractive summaries of hand-written articles."""

from __future__ import annotations

import pytest

from indexes.builder.summarizers import ExtractiveSummarizer
from tests.fakes.articles import COUNTRY, entity


def test_a_labeled_description_leads() -> None:
    summary = next(ExtractiveSummarizer().stream([COUNTRY]))
    assert summary.startswith(
        "Velland. three equal vertical bands of teal (left), white, and red; a yellow sun is centered."
    )
    assert "sea" not in summary and "adopted" not in summary and "Orrin" not in summary


def test_a_section_about_looks_leads() -> None:
    bird = entity(
        "Ortolan",
        ("Ortolan", "The ortolan is a bunting of Europe, and it migrates."),
        ("History", "It was hunted for centuries. In 1961 the hunt was forbidden."),
        ("Appearance", "The head is green and grey with a yellow ring around the eye. The name means gardener."),
    )
    summary = next(ExtractiveSummarizer().stream([bird]))
    assert summary.startswith("Ortolan. The head is green and grey with a yellow ring around the eye.")


def test_lead_clause_then_rich_sentences() -> None:
    fruit = entity(
        "Quince",
        ("Quince", "Quince (Fruit). The quince is a fruit of the rose family, which is old. It is eaten cooked. The "
         "peel is golden yellow and the shape is like a pear."),
    )  # fmt: skip
    summary = next(ExtractiveSummarizer().stream([fruit]))
    assert summary.startswith(
        "Quince. Fruit. The quince is a fruit of the rose family, which is old. "
        "The peel is golden yellow and the shape is like a pear."
    )


def test_without_looks_the_first_sentences_stand() -> None:
    club = entity("Club", ("Club", "The club was founded in 1901. It has won twice.\nMembers: 300"))
    assert next(ExtractiveSummarizer().stream([club])) == "Club. The club was founded in 1901. It has won twice."


def test_word_budget_and_empty_articles() -> None:
    long = entity("Wall", ("Wall", "The wall is white and red and long. " * 3 + "It has a blue gate, " * 60))
    for budget in (1, 5, 64):
        assert 1 <= len(next(ExtractiveSummarizer(budget).stream([long])).split()) <= budget
    assert list(ExtractiveSummarizer().stream([entity("Void"), entity("Blank", ("Blank", " \n "))])) == [
        "Void.",
        "Blank.",
    ]
    assert list(ExtractiveSummarizer().stream([])) == []
    with pytest.raises(ValueError, match="max_words"):
        ExtractiveSummarizer(0)


def test_a_list_of_sentences_that_all_describe_looks() -> None:
    towers = "".join(f"Tower {number} is of red stone.\n" for number in range(20_000))
    summary = list(ExtractiveSummarizer(13).stream([entity("Towers", ("Towers", towers))]))
    assert summary == ["Towers. Tower 0 is of red stone. Tower 1 is of red stone."]


def test_a_text_without_spaces_is_cut_at_characters() -> None:
    [summary] = ExtractiveSummarizer(7).stream([entity("豆浆", ("豆浆", "黄豆在水中浸泡八小时。然后磨成浆。"))])
    assert summary == "豆浆. 黄豆在水"  # the period after the title is a word
