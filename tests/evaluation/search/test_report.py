"""The HTML report of an agent's evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evaluation.search.figures import trajectory_figures
from evaluation.search.report import write_report

SOURCE = {"number": 1, "title": "<Niger>", "section": "Capital", "text": "It is Niamey.", "url": "https://kb/niger"}


def record(number: int, **changes: Any) -> dict[str, Any]:
    call = {"tool": "text_search", "arguments": {"queries": ["<b>"]}, "sources": [1] * 9, "error": ""}
    trail = {
        "rounds": [
            {"number": 1, "thought": "hm <i>", "problem": "", "requests": [{"purpose": "decide"}], "calls": [call]}
        ],
        "sources": [SOURCE],
        "claims": [{"text": "Niamey", "sources": [1]}],
        "answer": "Niamey",
        "stopped": "",
        "malformed": 0,
        "invented_citations": [],
        "spent": {"tokens": 1234, "money": 0.5},
    }
    fields = {"id": str(number), "question": f"Question {number} <script>", "answers": ["Niamey", "N'Djamena"]}
    return {**fields, "answer": "Niamey", "failed": None, "trail": trail, **changes}


def report(folder: Path, records: list[dict[str, Any]], scores: list[float], **more: Any) -> str:
    trails = [one["trail"] for one in records if one["trail"] is not None]
    metrics = {
        "dataset": "dynvqa",
        "mode": "auto",
        "n_queries": len(records),
        "n_failed": 1,
        "n_unanswered": 1,
        "answer": {"metric": "f1_recall", "accuracy": 0.5},
        "trajectories": trajectory_figures(trails, scores[: len(trails)]),
        "latency_ms": {"answer_p50": 1500.0 if trails else None},
        **more,
    }
    return write_report(folder, metrics, records, scores).read_text(encoding="utf-8")


def test_figures_and_runs(tmp_path: Path) -> None:
    failed = record(2, answer=None, failed="the model failed", trail=None)
    figures = {"mmsearch": {"final": 0.25, "rerank": None}, "by_area": {"<news>": {"n": 2, "accuracy": 0.5}}}
    page = report(tmp_path, [record(1), failed], [1.0, 0.0], **figures)
    assert "All questions" in page and "<script>" not in page and "Question 1 &lt;script&gt;" in page
    assert "[1] &lt;Niger&gt;, Capital" in page and "and 1 more" in page and "hm &lt;i&gt;" in page
    assert "<b>50.0</b><span>f1_recall</span>" in page and "<b>1.5</b><span>seconds per question" in page
    assert "<b>0.5</b><span>money</span>" in page and "<td>25.0</td><td>-</td>" in page and "&lt;news&gt;" in page
    assert "(no answer)" in page and "the model failed" in page
    assert "Niamey or N&#39;Djamena" in page


def test_no_run_at_all(tmp_path: Path) -> None:
    page = report(tmp_path, [record(1, answer=None, failed="no image", trail=None)], [0.0])
    assert "no tool was called" in page and "<b>-</b><span>tokens per question</span>" in page


def test_a_long_run_shows_right_and_wrong_questions(tmp_path: Path) -> None:
    page = report(tmp_path, [record(n) for n in range(300)], [float(n % 10 == 0) for n in range(300)])
    assert "Some questions" in page
    assert page.count('<p class="good">') == 30 and page.count('<p class="bad">') == 50
