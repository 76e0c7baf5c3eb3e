"""Question files: E-VQA's CSV and InfoSeek's JSON lines become one list of questions, every row checked."""

from __future__ import annotations

import csv
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Style = Literal["evqa", "infoseek"]

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")
EVQA_TYPES = ("templated", "automatic", "multi_answer", "2_hop")
EVQA_COLUMNS = ("question", "answer", "dataset_image_ids", "question_type", "wikipedia_url")
INFOSEEK_TYPES = ("string", "time", "numerical")
_LONGEST_FIELD = 1 << 24  # E-VQA keeps whole sections in a field; the csv module stops at 128 KiB


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a data set.

    Attributes:
        id: Names it in run files.
        question: Its words.
        image_id: Names its picture, see `find_query_image`.
        answers: Alternatives, any of which is right; the `&&` between the items of one list stays inside.
        entity_ids: The entities it is about, as an index names them.
        section_index: Where the evidence stands in the article as published (`Section.index`), `None` when not known.
        question_type: E-VQA's or InfoSeek's type; answers are judged by it.
        data_split: The split it came from.
        category: The data set its picture is from (`dataset_name` in E-VQA), may be empty.
        numeric_range: For a numerical question: the lowest and the highest answer that are right.
        style: Whose rules judge an answer.
    """

    id: str
    question: str
    image_id: str
    answers: tuple[str, ...]
    entity_ids: tuple[str, ...]
    section_index: int | None = None
    question_type: str = ""
    data_split: str = ""
    category: str = ""
    numeric_range: tuple[float, float] | None = None
    style: Style = "evqa"


def load(dataset: str, path: Path) -> list[Question]:
    """Returns the questions of a file in the format of `dataset`, a key of `LOADERS`.

    Raises:
        ValueError: The data set is unknown, or a row is not as it should be; the message names file, line and field.
    """
    if dataset not in LOADERS:
        raise ValueError(f"unknown data set {dataset!r}; known are {', '.join(LOADERS)}")
    return LOADERS[dataset](path)


def load_evqa(path: Path, *, two_hop: bool = False) -> list[Question]:
    """Returns the questions of an E-VQA file, its columns found by their header; ids count the rows that are kept.

    Args:
        path: A CSV file with at least the columns `EVQA_COLUMNS`.
        two_hop: Keep questions of type `2_hop`; their evidence lies in two articles, so they get no section.

    Raises:
        ValueError: A column or a value is missing or wrong.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    questions: list[Question] = []
    with _open(path) as file:
        reader = csv.DictReader(file, strict=True)
        missing = [column for column in EVQA_COLUMNS if column not in (reader.fieldnames or [])]
        if missing:
            raise ValueError(
                f"{path}: line 1: no column {', '.join(missing)}; an E-VQA file has a header that names it"
            )
        try:
            for row in reader:
                where = f"{path}: line {reader.line_num}"
                if None in row or None in row.values():
                    raise ValueError(f"{where}: not as many fields as the header has columns")
                if row["question_type"].strip() != "2_hop" or two_hop:
                    questions.append(_evqa_question(row, f"E-VQA_{len(questions)}", where))
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: not CSV ({error})") from error
    return questions


def load_infoseek(path: Path) -> list[Question]:
    """Returns the questions of an InfoSeek file; `NAME_withkb.jsonl` and `NAME_qtype.jsonl` are read beside it.

    Without a `_qtype` file a question is numerical when its `answer_eval` has a range, else of type string.

    Raises:
        ValueError: A file or a line is missing, or a value is missing or wrong.
    """
    entities = {key: line for line, key, _ in _by_id(_companion(path, "withkb"))}
    types_path = _companion(path, "qtype")
    types = {key: line for line, key, _ in _by_id(types_path)} if types_path.is_file() else None
    questions = []
    for row, data_id, where in _by_id(path):
        if data_id not in entities:
            raise ValueError(f"{where}: field data_id: {data_id!r} has no line in {_companion(path, 'withkb').name}")
        if types is not None and data_id not in types:
            raise ValueError(f"{where}: field data_id: {data_id!r} has no line in {types_path.name}")
        question_type = None if types is None else _text(types[data_id], "question_type", f"{types_path}: {data_id}")
        entity = _text(entities[data_id], "entity_id", f"{_companion(path, 'withkb')}: {data_id}")
        questions.append(_infoseek_question(row, data_id, entity, question_type, where))
    return questions


LOADERS: dict[str, Callable[[Path], list[Question]]] = {"evqa": load_evqa, "infoseek": load_infoseek}


def find_query_image(folder: Path, image_id: str) -> Path | None:
    """Returns the picture of a question, or `None`.

    It may lie flat in the folder, in GLDv2's layout (`a/b/c/abc….jpg`) or in OVEN's (`oven_images/01/oven_01….jpg`),
    with any of `EXTENSIONS` in either case. A folder is listed once and remembered for the life of the process.
    """
    return next((file for place in _places(folder, image_id) if (file := _pictures(place).get(image_id))), None)


def _places(folder: Path, image_id: str) -> Iterator[Path]:
    yield folder
    if len(image_id) > 3 and image_id[:3].isalnum():
        yield folder / image_id[0] / image_id[1] / image_id[2]
    digits = image_id.removeprefix("oven_")[:2]
    if len(digits) == 2 and digits.isalnum():
        yield folder / "oven_images" / digits
        yield folder / digits


@functools.cache
def _pictures(folder: Path) -> dict[str, Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    stems = [(os.path.splitext(name), name) for name in names]
    ranked = [
        (EXTENSIONS.index(extension.lower()), stem, name)
        for (stem, extension), name in stems
        if extension.lower() in EXTENSIONS
    ]
    return {stem: folder / name for _, stem, name in sorted(ranked, reverse=True)}


def _evqa_question(row: Mapping[str, str], question_id: str, where: str) -> Question:
    question_type = _text(row, "question_type", where)
    if question_type not in EVQA_TYPES:
        raise ValueError(f"{where}: field question_type: {question_type!r} is none of {', '.join(EVQA_TYPES)}")
    section = (row.get("evidence_section_id") or "").strip()
    if section and question_type != "2_hop" and not section.isdecimal():
        raise ValueError(f"{where}: field evidence_section_id: {section!r} is not a whole number, 0 or more")
    return Question(
        id=question_id,
        question=_text(row, "question", where),
        image_id=_alternatives(row, "dataset_image_ids", where)[0],
        answers=_alternatives(row, "answer", where),
        entity_ids=_alternatives(row, "wikipedia_url", where),
        section_index=int(section) if section and question_type != "2_hop" else None,
        question_type=question_type,
        data_split=(row.get("encyclopedic_vqa_split") or "").strip(),
        category=(row.get("dataset_name") or "").strip(),
        style="evqa",
    )


def _infoseek_question(row: Mapping[str, Any], data_id: str, entity: str, kind: str | None, where: str) -> Question:
    accepted = row.get("answer_eval")
    accepted = accepted if isinstance(accepted, list) else [accepted]
    kind = kind.lower() if kind else "numerical" if any(isinstance(item, dict) for item in accepted) else "string"
    if kind not in INFOSEEK_TYPES:
        raise ValueError(f"{where}: question_type {kind!r} is none of {', '.join(INFOSEEK_TYPES)}")
    shown = row.get("answer")
    answers = _strings(shown if isinstance(shown, list) else [shown], "answer", where)
    numerical = kind == "numerical"
    return Question(
        id=data_id,
        question=_text(row, "question", where),
        image_id=_text(row, "image_id", where),
        answers=answers if numerical else _strings(accepted, "answer_eval", where),
        entity_ids=(entity,),
        question_type=kind,
        data_split=_text(row, "data_split", where),
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


def _companion(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.stem}_{suffix}{path.suffix}")


def _by_id(path: Path) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yields the objects of a JSON-lines file with their `data_id` and where they stand."""
    seen: set[str] = set()
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}: line {number}"
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{where}: not JSON ({error})") from error
            if not isinstance(row, dict):
                raise ValueError(f"{where}: not a JSON object")
            data_id = _text(row, "data_id", where)
            if data_id in seen:
                raise ValueError(f"{where}: field data_id: {data_id!r} stands in an earlier line too")
            seen.add(data_id)
            yield row, data_id, where


def _open(path: Path) -> Any:
    try:
        return path.open(encoding="utf-8-sig", newline="" if path.suffix == ".csv" else None)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from error


def _text(row: Mapping[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: field {field}: a text that is not empty is needed, not {value!r}")
    return value.strip()


def _alternatives(row: Mapping[str, str], field: str, where: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in _text(row, field, where).split("|") if part.strip())
    if not parts:
        raise ValueError(f"{where}: field {field}: nothing but separators")
    return parts


def _strings(values: list[Any], field: str, where: str) -> tuple[str, ...]:
    good = [str(v).strip() for v in values if isinstance(v, str | int | float) and str(v).strip()]
    if not good or len(good) != len(values):
        raise ValueError(f"{where}: field {field}: a list of texts that are not empty is needed, not {values!r}")
    return tuple(good)
