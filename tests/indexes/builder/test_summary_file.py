from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from itertools import islice
from pathlib import Path

import pytest

from indexes.builder.summary_file import summarize_all
from retriever.types import Entity, Section
from tests.fakes.models import FakeSummarizer


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
