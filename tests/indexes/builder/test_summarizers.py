"""Extractive summaries of hand-written articles."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from itertools import islice
from pathlib import Path

import pytest

from indexes.builder.summarizers import ExtractiveSummarizer, summarize_all
from retriever.types import Entity, Section
from tests.fakes.articles import COUNTRY, entity
from tests.fakes.models import FakeSummarizer


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


def articles(count: int) -> list[Entity]:
    return [Entity(str(n), f"Title {n}", (Section("s", f"Text {n}. More.", 0),)) for n in range(count)]


def test_summaries_resume_after_the_last_whole_line(tmp_path: Path) -> None:
    path, entities = tmp_path / "summaries.jsonl", articles(7)
    assert summarize_all(entities, FakeSummarizer(), path, 2) == 7
    whole = path.read_bytes()
    assert json.loads(whole.splitlines()[3]) == {"id": "3", "summary": "Title 3. Text 3"}
    assert summarize_all(entities, FakeSummarizer(), path, 2) == 0
    third = len(b"".join(whole.splitlines(keepends=True)[:3]))
    path.write_bytes(whole[: third + 5])  # three complete lines and a truncated one
    assert summarize_all(entities, FakeSummarizer(), path, 2) == 4
    assert path.read_bytes() == whole


def test_a_summary_is_in_the_file_before_the_next_one_is_made(tmp_path: Path) -> None:
    path, lines = tmp_path / "summaries.jsonl", []

    class Watching(FakeSummarizer):
        def stream(self, entities: Iterable[Entity]) -> Generator[str]:
            for summary in super().stream(entities):
                lines.append(len(path.read_bytes().splitlines()))
                yield summary

    assert summarize_all(articles(5), Watching(), path, 3) == 5
    assert lines == [0, 1, 2, 3, 4]


def test_summaries_of_other_entities_are_refused(tmp_path: Path) -> None:
    path, entities = tmp_path / "summaries.jsonl", articles(4)
    summarize_all(entities, FakeSummarizer(), path, 2)
    with pytest.raises(ValueError, match=r"summaries\.jsonl: line 1: expected entity '3', got '0'"):
        summarize_all(entities[::-1], FakeSummarizer(), path, 2)
    with pytest.raises(ValueError, match=r"summaries\.jsonl: has 4 lines, more than 3"):
        summarize_all(entities[:3], FakeSummarizer(), path, 2)
    path.write_text("[]\n" * 4)
    with pytest.raises(ValueError, match=r"summaries\.jsonl: line 1: not a summary"):
        summarize_all(entities, FakeSummarizer(), path, 2)


def test_a_summarizer_must_answer_for_every_entity(tmp_path: Path) -> None:
    class Lazy(FakeSummarizer):
        def stream(self, entities: Iterable[Entity]) -> Generator[str]:
            yield from islice(super().stream(entities), 1)

    with pytest.raises(ValueError, match="first-sentence: returned no summary for entity '1'"):
        summarize_all(articles(2), Lazy(), tmp_path / "summaries.jsonl", 2)
