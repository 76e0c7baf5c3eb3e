"""SQuAD's and E-VQA's files, and SQuAD's metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretraining.reader.questions import (
    SpanAnswer,
    SpanQuestion,
    joined_tokens,
    normalize,
    overlap,
    read_evqa,
    read_squad,
    read_tokens,
    share_of,
)


def test_files_of_squad_become_questions(tmp_path: Path) -> None:
    answers = [{"text": text, "answer_start": start} for text, start in (("It", 0), ("red", 6), ("red", 6))]
    rows = [{"question": "What color?", "answers": answers}, {"question": "Why?", "answers": [], "is_impossible": True}]
    data = [{"title": "Old_Tower", "paragraphs": [{"context": "It is red.", "qas": rows}]}]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": data}))
    assert list(read_squad(path)) == [
        SpanQuestion("What color?", "It is red.", "Old Tower", (SpanAnswer("red", 6), SpanAnswer("It", 0))),
        SpanQuestion("Why?", "It is red.", "Old Tower", ()),
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": data[0]["paragraphs"]}]}))  # TyDi QA's have no titles
    assert [question.article for question in read_squad(path)] == ["", ""]
    path.write_text('{"data": [{"title": "A"}]}')
    with pytest.raises(ValueError, match=r"squad\.json: must be in SQuAD's format"):
        list(read_squad(path))


def test_files_of_evqa_become_questions(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text(
        "question,answer,evidence,wikipedia_title\nWhich?,A&&B&&C|D,A B C,T\nNo evidence?,x,,T\n", encoding="utf-8"
    )
    assert list(read_evqa(path)) == [SpanQuestion("Which?", "A B C", "T", (SpanAnswer("A, B and C"), SpanAnswer("D")))]


def write_tokens(folder: Path, span: str) -> Path:
    context = "It 's red ( or `` so '' ) , they say ."
    lines = {"context": context, "question": "What 's it ?", "answer": "so", "span": span}
    for ending, line in lines.items():
        (folder / f"val.{ending}").write_text(line + "\n", encoding="utf-8")
    return folder / "val"


def test_files_of_tokens_become_questions(tmp_path: Path) -> None:
    passage = 'It\'s red (or "so"), they say.'
    [question] = read_tokens(write_tokens(tmp_path, "3 7"))
    assert question == SpanQuestion("What's it?", passage, "", (SpanAnswer('(or "so"', passage.index("(")),))
    with pytest.raises(ValueError, match=r"val\.context: must have as many lines"):
        list(read_tokens(write_tokens(tmp_path, "3 70")))
    (tmp_path / "val.span").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"val\.context: must have as many lines"):
        list(read_tokens(tmp_path / "val"))


def test_quotes_open_and_close() -> None:
    assert joined_tokens(["say", "``", "so", "''"]) == ('say "so"', [(0, 3), (4, 5), (5, 7), (7, 8)])


def test_f1_equals_values_by_hand() -> None:
    assert normalize("The  U.S., an Answer") == "us answer"
    assert overlap("a b c", "b c d") == pytest.approx(2 * 2 / 6)
    assert overlap("a", "b") == 0


def test_a_title_has_one_share_however_it_is_written() -> None:
    assert share_of("Old_Tower") == share_of("Old Tower")
    assert {share_of(f"Article {i}") for i in range(50)} == {0, 1, 2, 3, 4}
