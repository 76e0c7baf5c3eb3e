"""InfoSeek: JSON lines with two files beside them, or the CSV form of EchoSight and OMGM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, alternatives, csv_rows, json_lines, questions, text, texts

INFOSEEK_TYPES = ("string", "time", "numerical")
CSV_COLUMNS = ("data_id", "question", "answer", "dataset_image_ids", "wikipedia_url")


def read_infoseek(path: Path) -> Iterator[Item]:
    """Yields the questions of an InfoSeek file.

    Of `NAME.jsonl` the files `NAME_withkb.jsonl` (entities) and, where it exists, `NAME_qtype.jsonl` are read beside
    it. Without the latter a question is numerical when its `answer_eval` has a range, else of type string.

    `NAME.csv` names articles of the subset of 100,000 by their URLs. Where `NAME.jsonl` lies beside it, its questions
    are judged by that file's answers and belong to that file's splits, as in the official evaluation.

    Raises:
        ValueError: A file is missing or cannot be read on.
    """
    if ".csv" in path.suffixes:
        return _read_csv(path)
    entities = _column(beside(path, "withkb"), "entity_id")
    make = _official(path)

    def with_entity(row: Row, where: str) -> Question:
        question = make(row, where)
        return replace(question, entity_ids=(_of(entities, question.id, where, beside(path, "withkb")),))

    return questions(json_lines(path), with_entity, "data_id")


def beside(path: Path, suffix: str) -> Path:
    """Returns the file that belongs to a question file: for `val.jsonl` and "qtype" it is `val_qtype.jsonl`."""
    stem, dot, extension = path.name.partition(".jsonl")
    return path.with_name(f"{stem}_{suffix}{dot}{extension}")


def _read_csv(path: Path) -> Iterator[Item]:
    official = path.with_name(path.name.replace(".csv", ".jsonl"))
    known: dict[str, Question] | None = None
    if official.is_file():
        known = {}
        for item in questions(json_lines(official), _official(official), "data_id"):
            if isinstance(item, ValueError):
                raise item
            if isinstance(item, Question):
                known[item.id] = item

    def make(row: Mapping[str, str], where: str) -> Question:
        image_id, *others = alternatives(row, "dataset_image_ids", where)
        question = Question(
            id=text(row, "data_id", where),
            question=text(row, "question", where),
            image_id=image_id,
            answers=alternatives(row, "answer", where),
            entity_ids=alternatives(row, "wikipedia_url", where),
            question_type="string",
            data_split=row.get("data_split", "").strip(),
            style="infoseek",
            other_image_ids=tuple(others),
        )
        if known is None:
            return question
        if question.id not in known:
            raise ValueError(f"{where}: field data_id: {question.id!r} has no line in {official.name}")
        return replace(known[question.id], entity_ids=question.entity_ids)

    return questions(csv_rows(path, CSV_COLUMNS), make, "data_id")


def _official(path: Path) -> Callable[[Row, str], Question]:
    """Returns what makes a question of a row of the official file, all but its entity."""
    types_path = beside(path, "qtype")
    types = _column(types_path, "question_type") if types_path.is_file() else None

    def make(row: Row, where: str) -> Question:
        data_id = text(row, "data_id", where)
        question_type = None if types is None else _of(types, data_id, where, types_path)
        return _question(row, data_id, question_type, where)

    return make


def _question(row: Row, data_id: str, kind: str | None, where: str) -> Question:
    accepted = row.get("answer_eval")
    accepted = accepted if isinstance(accepted, list) else [accepted]
    kind = kind.lower() if kind else "numerical" if any(isinstance(item, dict) for item in accepted) else "string"
    if kind not in INFOSEEK_TYPES:
        raise ValueError(f"{where}: question_type {kind!r} is none of {', '.join(INFOSEEK_TYPES)}")
    answers = texts(row.get("answer"), "answer", where)
    numerical = kind == "numerical"
    return Question(
        id=data_id,
        question=sys.intern(text(row, "question", where)),  # of 934 thousand rows few are worded differently
        image_id=text(row, "image_id", where),
        answers=answers if numerical else texts(accepted, "answer_eval", where),
        entity_ids=(),
        question_type=kind,
        data_split=sys.intern(text(row, "data_split", where)),
        numeric_range=_range(accepted, where) if numerical else None,
        style="infoseek",
    )


def _range(accepted: list[Any], where: str) -> tuple[float, float]:
    given = accepted[0].get("range") if accepted and isinstance(accepted[0], dict) else None
    try:
        low, high = map(float, given or ())
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not low <= high:
        raise ValueError(f'{where}: field answer_eval: a numerical question needs {{"range": [low, high]}}')
    return low, high


def _column(path: Path, field: str) -> dict[str, str]:
    """Returns one field of a file beside the questions, by `data_id`."""
    found: dict[str, str] = {}
    for where, row in json_lines(path):
        if isinstance(row, ValueError):
            raise row
        data_id = text(row, "data_id", where)
        if data_id in found:
            raise ValueError(f"{where}: field data_id: {data_id!r} stands in an earlier line too")
        found[data_id] = sys.intern(text(row, field, where))
    return found


def _of(column: Mapping[str, str], data_id: str, where: str, path: Path) -> str:
    if data_id not in column:
        raise ValueError(f"{where}: field data_id: {data_id!r} has no line in {path.name}")
    return column[data_id]
