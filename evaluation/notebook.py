"""Evaluation from Python: a question file in, metrics and a table for pandas out.

from evaluation.notebook import evaluate_file

evaluation = evaluate_file(omgm.retriever, "questions.jsonl", "images", "run", generator=omgm.generator)
evaluation.metrics["step1"]["recall@1"]
pandas.DataFrame(evaluation.rows).groupby("question_type")["answer_correct"].mean()
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

from evaluation.datasets import load
from evaluation.image_overlap import images_of, note_images
from evaluation.records import RECORDS, QueryRecord, read_records
from evaluation.report import write_report
from evaluation.run import evaluate
from retriever.asking import Generator, QueryRetriever

logger = logging.getLogger(__name__)


class Evaluation(NamedTuple):
    """A finished run: `metrics` is its `metrics.json`, `rows` has one flat dict per query."""

    metrics: dict[str, Any]
    rows: list[dict[str, Any]]


def evaluate_file(
    retriever: QueryRetriever,
    queries: Path | str,
    query_images: Path | str,
    out: Path | str,
    *,
    dataset: str = "plain",
    generator: Generator | None = None,
    limit: int | None = None,
    progress: bool = True,
) -> Evaluation:
    """Evaluates a retriever on a question file, as `omgm evaluate` does.

    Args:
        retriever: The retriever, such as `OMGM.retriever`.
        queries: The question file.
        query_images: The folder of its images.
        out: The folder for the run and its report. Another call reads the run from it and asks only the failed
            questions again, with a warning: settings and steps of the retriever are not compared.
        dataset: Format of the file, a key of `evaluation.datasets.LOADERS`.
        generator: Answers from the evidence; `None` measures retrieval alone.
        limit: Evaluate the first questions only.
        progress: Whether to show a progress bar.

    Raises:
        ValueError: The file cannot be read, has no questions, or `out` holds another run.
    """
    questions = load(dataset, Path(queries))[:limit]
    if (Path(out) / "metrics.json").is_file():
        what = "the figures are those of the earlier run, even if settings or steps of the retriever have changed since"
        logger.warning("%s: %s; for a changed retriever, name another folder", out, what)
    metrics = evaluate(retriever, generator, questions, query_images, out, dataset=dataset, progress=progress)
    write_report(Path(out), Path(query_images))
    note_images(Path(out), images_of(questions, Path(query_images)))
    return Evaluation(metrics, [as_row(record) for record in read_records(Path(out) / RECORDS)])


def as_row(record: QueryRecord) -> dict[str, Any]:
    """Returns a record as a flat table row: the best candidate, ranks, scores and the answer."""
    best = record.candidates[0] if record.candidates else None
    evidence = record.evidence
    return {
        "id": record.id,
        "question": record.question,
        "image_id": record.image_id,
        "question_type": record.question_type,
        "split": record.split,
        "category": record.category,
        "gold_entities": list(record.gold.entities),
        "gold_answers": list(record.gold.answers),
        "entity": None if best is None else best.entity,
        "title": None if best is None else best.title,
        "sim_c": None if best is None else best.sim_c,
        "sim_m": None if best is None else best.sim_m,
        "score": None if best is None else best.score,
        "section": None if evidence is None else evidence.section_title,
        "answer": record.answer,
        "confidence": record.confidence,
        **{f"{step}_rank": rank for step, rank in record.ranks.items()},
        "section_correct": record.section_correct,
        "answer_correct": record.answer_correct,
        **record.answer_scores,
        "unanswered": record.unanswered,
        "failed": record.failed,
    }
