"""Ten questions about the lands of `tests.fakes.world`, and their evaluation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.datasets import Question
from evaluation.report import write_report
from evaluation.run import evaluate
from tests.fakes.world import ALPHA, FakeGenerator, FakeRetriever


def ask(number: int, color: str, question: str, answer: str = "1", **changes: Any) -> Question:
    fields: dict[str, Any] = {"question_type": "templated", "data_split": "val", "category": "colors"}
    fields |= {"section_index": 2} | changes
    return Question(f"q{number}", question, color, (answer,), (f"https://kb/{color}",), **fields)


WAVE = "What is the wave length <b>here</b>?"
QUESTIONS = [
    ask(0, "red", WAVE, "700"),
    ask(1, "green", WAVE, "530"),
    ask(2, "blue", WAVE, "999"),  # wrong answer
    ask(3, "absent", WAVE),  # no image
    ask(4, "red", "Name a poison"),  # retrieval fails
    ask(5, "green", "What wave length would break it?", "530"),  # the generator fails
    ask(6, "blue", "Is this a color?", section_index=0),  # abstains
    ask(7, "broken", WAVE),  # unreadable image
    ask(8, "red", WAVE, "700", section_index=None, category="other"),
    Question("q9", WAVE, "green", ("530",), ("https://kb/black",), 2, "automatic", "val", "colors"),  # not in the index
]


def run(
    retriever: FakeRetriever, images: Path, out: Path, questions: Sequence[Question] = QUESTIONS, **changes: Any
) -> dict[str, Any]:
    """Evaluates the questions; `changes` are passed to `evaluate`."""
    options: dict[str, Any] = {"batch_size": 4, "generator": FakeGenerator(), "settings": {"alpha": ALPHA}} | changes
    entity_image = options.pop("entity_image", None)
    metrics = evaluate(
        retriever,
        options.pop("generator"),
        questions,
        images,
        out,
        dataset="evqa",
        profile_name="colors",
        index_info={"entities": 3},
        **options,
    )
    write_report(out, images, entity_image)
    return metrics


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Returns the records of a run."""
    return [json.loads(line) for line in (out / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
