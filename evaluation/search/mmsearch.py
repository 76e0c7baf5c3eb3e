"""MMSearch: 300 questions, 171 of them with an image, in a file for each of three tasks (arXiv 2409.12959)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from evaluation.answers import answer_f1
from evaluation.datasets.dataset import Dataset, Scores
from evaluation.datasets.question import NO_IMAGES, Question, SearchTask, TaskReader
from evaluation.datasets.rows import Row, name, optional_text, text, texts
from evaluation.search.rows import images_of, rows_of


def _tasks(path: Path, images: Path | None, canary: str) -> TaskReader:
    file = subset(path, "end2end") if path.is_dir() else path
    if file is None:
        raise ValueError(f"{path}: holds neither end2end.parquet nor end2end.jsonl")
    return partial(_read, file, images)


def subset(path: Path, name: str) -> Path | None:
    """Returns one of MMSearch's files (`end2end`, `rerank`, `summarization`), given their folder or the first one."""
    folder = path if path.is_dir() else path.parent
    files = [folder / f"{name}{ending}" for ending in (".parquet", ".jsonl")]
    return next((file for file in files if file.is_file()), None)


def _read(path: Path, folder: Path | None, images: bool) -> Iterator[SearchTask]:
    """Yields the questions of MMSearch's end-to-end task; of 300, 129 have no image."""
    for where, row in rows_of(path, images=images):
        question = Question(
            id=name(row, "sample_id", where),
            question=text(row, "query", where),
            image_id="",
            answers=mmsearch_answers(row, where),
            entity_ids=(),
            style="mmsearch",
        )
        groups = {field: optional_text(row, field, where) for field in ("area", "subfield")}
        files = folder or path.parent
        found = images_of(files, row.get("query_image")) if images else NO_IMAGES
        seen = images_of(files, row.get("image_search_result")) if images else NO_IMAGES
        yield SearchTask(question, found, optional_text(row, "gt_requery", where), groups, seen)


def mmsearch_answers(row: Row, where: str) -> tuple[str, ...]:
    """Returns the accepted answers of a row of MMSearch.

    Raises:
        ValueError: It has none.
    """
    others = row.get("alternative_gt_answers") or []
    return texts([row.get("gt_answer"), *others], "gt_answer", where)


def _judge(question: Question, answer: str) -> Scores:
    return {"mmsearch_f1": answer_f1(answer, question.answers)}


MMSEARCH = Dataset(
    "mmsearch",
    "mmsearch_f1",
    _judge,
    tasks=_tasks,
    policy="mmsearch",
    published=True,
    task="mmsearch-end2end",
    judges_empty=True,
)
