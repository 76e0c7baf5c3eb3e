"""The reader's benchmark on a file in SQuAD's format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import reader
from training.reader.questions import share_of


def test_squad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    titles = [f"Tower {i}" for i in range(20)]
    data = []
    for title in titles:
        paragraphs = []
        for i in range(10):
            text = f"The part {'abcdefghij'[i] * 4} was built in {1800 + i} by Ada Stone."
            answers = [{"text": str(1800 + i), "answer_start": text.index("18")}]
            question = f"When was the part {'abcdefghij'[i] * 4} built?"
            paragraphs.append({"context": text, "qas": [{"question": question, "answers": answers}]})
        data.append({"title": title, "paragraphs": paragraphs})
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": data}))
    blind = sum(share_of(title) == 0 for title in titles)
    assert 0 < blind < 20
    monkeypatch.setattr(sys, "argv", ["reader", "--squad", str(path), str(path), "--blind"])
    reader.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"HasAns: {20 * blind} questions: EM 1.000, F1 1.000, ")
    assert lines[-1] == f"section recall@1 within the article: 1.000 of {20 * blind}"


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [("1,050 m", "1000", True), ("1,150 m", "1000", False), ("The Rhine", "rhine", True), (None, "0", True)],
)
def test_right_answers(answer: str | None, reference: str, right: bool) -> None:
    assert reader.correct(answer, [reference]) is right
