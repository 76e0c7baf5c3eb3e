"""Reads the questions of an agent's run for comparisons with other runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evaluation.journal import read_rows
from evaluation.metrics import Outcome


def agent_outcomes(folder: Path) -> Iterator[tuple[str, Outcome]]:
    """Yields the text and the outcome of each question of an agent's run.

    Besides the scores of its data set, an outcome has the judge's verdict and the scores of MMSearch's single steps, if
    the run has them; a question that is missing from a step's file scores 0 there, as in the final score.

    Raises:
        ValueError: A file was not written by `omgm evaluate`.
    """
    extra = {name: _scores(folder / f"{file}.jsonl", key) for name, file, key in _FILES if _has(folder, file)}
    path = folder / "queries.jsonl"
    try:
        for row in read_rows(path):
            scores = {name: float(value) for name, value in row["scores"].items()}
            scores |= {name: given.get(row["id"], 0.0) for name, given in extra.items()}
            outcome = Outcome(
                id=row["id"],
                groups=row["groups"],
                ranks={},
                section_correct=None,
                answer_correct=next(iter(scores.values())) >= 0.5,
                unanswered=row["answer"] is None,
                failed=row["failed"],
                answer_scores=scores,
                entity_known=False,
                without_reference=not row["answers"],
            )
            yield row["question"], outcome
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"{path}: not a run of omgm evaluate --mode ({type(error).__name__}: {error})") from error


_FILES = (("llm_judge", "judge", "verdict"), ("rerank", "rerank", "score"), ("summarization", "summarization", "score"))
"""The name of each further metric, its file, and its key there."""


def _has(folder: Path, file: str) -> bool:
    return (folder / f"{file}.jsonl").is_file()


def _scores(path: Path, key: str) -> dict[str, float]:
    return {row["id"]: float(row[key] or 0.0) for row in read_rows(path)}
