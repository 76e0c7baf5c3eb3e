"""InfoSeek: JSON lines with two companion files, or the CSV form of EchoSight and OMGM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluation.answers import numeric_match, text_match
from evaluation.datasets.dataset import Dataset, Scores
from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, alternatives, csv_rows, image_ids, json_lines, name, questions, text, texts

INFOSEEK_TYPES = ("string", "time", "numerical")
CSV_COLUMNS = ("data_id", "question", "answer", "dataset_image_ids", "wikipedia_url")


def read_infoseek(path: Path) -> Iterator[Item]:
    """Yields the questions of an InfoSeek file.

    `NAME.jsonl` needs `NAME_withkb.jsonl` beside it, unless its own rows have `entity_id`, and uses `NAME_qtype.jsonl`
    if that exists. Without the latter, a question is numerical if its `answer_eval` has a range, and otherwise of type
    string.

    `NAME.csv` refers to articles of the 100,000-article subset by URL. If `NAME.jsonl` is beside it, answers and splits
    come from there, as in the official evaluation; without it, answers are judged as text under another metric's name.

    Raises:
        ValueError: A file is missing or cannot be read.
    """
    if ".csv" in path.suffixes:
        return _read_csv(path)
    companion = beside(path, "withkb")
    first = next((row for _, row in json_lines(path)), {})
    own = not isinstance(first, ValueError) and "entity_id" in first
    entities = {} if own else _column(companion, "entity_id")
    make = _official(path)

    def with_entity(row: Row, where: str) -> Question:
        question = make(row, where)
        entity = name(row, "entity_id", where) if own else _of(entities, question.id, where, companion)
        return replace(question, entity_ids=(entity,))

    return questions(json_lines(path), with_entity, "data_id")


def beside(path: Path, suffix: str) -> Path:
    """Returns the path of a companion file: `val_qtype.jsonl` for `val.jsonl` and "qtype"."""
    stem, dot, extension = path.name.partition(".json")
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
        image_id, *others = image_ids(row, "dataset_image_ids", where)
        question = Question(
            id=text(row, "data_id", where),
            question=text(row, "question", where),
            image_id=image_id,
            answers=alternatives(row, "answer", where),
            entity_ids=alternatives(row, "wikipedia_url", where),
            question_type="string",
            data_split=row.get("data_split", "").strip(),
            style="infoseek-csv",
            other_image_ids=tuple(others),
        )
        if known is None:
            return question
        if question.id not in known:
            raise ValueError(f"{where}: field data_id: {question.id!r} has no line in {official.name}")
        return replace(
            known[question.id],
            question=question.question,
            image_id=question.image_id,
            other_image_ids=question.other_image_ids,
            entity_ids=question.entity_ids,
        )

    return questions(csv_rows(path, CSV_COLUMNS), make, "data_id")


def _official(path: Path) -> Callable[[Row, str], Question]:
    """Returns a function that builds a question, without its entity, from a row of the official file."""
    types_path = beside(path, "qtype")
    types = _column(types_path, "question_type") if types_path.is_file() else None

    def make(row: Row, where: str) -> Question:
        data_id = name(row, "data_id", where)
        question_type = None if types is None else _of(types, data_id, where, types_path)
        return _question(row, data_id, question_type, where)

    return make


def _question(row: Row, data_id: str, question_type: str | None, where: str) -> Question:
    accepted = row.get("answer_eval")
    accepted = accepted if isinstance(accepted, list) else [accepted]
    guess = "numerical" if any(isinstance(item, dict) for item in accepted) else "string"
    question_type = question_type.lower() if question_type else guess
    if question_type not in INFOSEEK_TYPES:
        raise ValueError(f"{where}: question_type {question_type!r} is not one of {', '.join(INFOSEEK_TYPES)}")
    answers = texts(row.get("answer"), "answer", where)
    numerical = question_type == "numerical"
    return Question(
        id=data_id,
        question=sys.intern(text(row, "question", where)),  # 934,000 rows share few wordings
        image_id=name(row, "image_id", where),
        answers=answers if numerical else texts(accepted, "answer_eval", where),
        entity_ids=(),
        question_type=question_type,
        data_split=sys.intern(text(row, "data_split", where)),
        numeric_range=_range(accepted, where) if numerical else None,
        style="infoseek",
        reference=answers[0],  # `answer_eval` may start with an obscure alias: "cn" before "China"
    )


def _range(accepted: list[Any], where: str) -> tuple[float, float]:
    given = accepted[0].get("range") if accepted and isinstance(accepted[0], dict) else None
    try:
        low, high = map(float, given or ())
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not low <= high:
        raise ValueError(f'{where}: field answer_eval of a numerical question must be {{"range": [low, high]}}')
    return low, high


def _column(path: Path, field: str) -> dict[str, str]:
    """Returns one field of a companion file, by `data_id`."""
    values: dict[str, str] = {}
    for where, row in json_lines(path):
        if isinstance(row, ValueError):
            raise row
        data_id = name(row, "data_id", where)
        if data_id in values:
            raise ValueError(f"{where}: field data_id: {data_id!r} is also in an earlier line")
        values[data_id] = sys.intern(name(row, field, where))
    return values


def _of(column: Mapping[str, str], data_id: str, where: str, path: Path) -> str:
    if data_id not in column:
        raise ValueError(f"{where}: field data_id: {data_id!r} has no line in {path.name}")
    return column[data_id]


def _judge(question: Question, answer: str) -> Scores:
    accepted = question.numeric_range
    right = text_match(answer, question.answers) if accepted is None else numeric_match(answer, accepted)
    return {"infoseek": float(right)}


def _judge_csv(question: Question, answer: str) -> Scores:
    return {"infoseek_csv": float(text_match(answer, question.answers))}


_CSV_ALONE = (
    "From the CSV alone: every answer is judged as text, without InfoSeek's ranges, aliases and splits; for its own "
    "metric, put the official NAME.jsonl beside NAME.csv."
)
INFOSEEK = Dataset(
    "infoseek",
    "infoseek",
    _judge,
    read_infoseek,
    published=True,
    stand_ins={"infoseek_csv": ("from-csv", _CSV_ALONE)},
    unseen=True,
)
INFOSEEK_CSV = Dataset("infoseek-csv", "infoseek_csv", _judge_csv, stand_ins=INFOSEEK.stand_ins)
"""The rules for questions that `read_infoseek` finds in a CSV file alone."""
