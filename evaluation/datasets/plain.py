"""The project's own format, for your own questions: one JSON object per line, or a list or a table of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.datasets.question import Item, Question
from evaluation.datasets.rows import Row, csv_rows, json_lines, name, optional_text, questions, text, texts
from indexes.formats.fields import folded
from indexes.formats.streams import read_items, starts_with

_OTHERS = {
    "id": ("question_id", "data_id", "sample_id", "qid", "uid"),
    "image": ("image_id", "image_path", "image_url", "image_name", "img_path", "img_id", "img", "file_name"),
    "question": ("query", "input", "prompt"),
    "answers": ("answer", "direct_answers", "gold_answers", "gold_answer"),
    "entity": ("entity_id", "entity_ids", "wikidata_id"),
}
"""Names that fields have in question files of others, without case, spaces, `_` and `-`; the first one counts."""


def read_plain(path: Path) -> Iterator[Item]:
    """Yields the questions of JSON lines, of a JSON list or of CSV; `plain_question` says what a row holds.

    A row without an id has its number as its id. In CSV, `|` separates several answers or entities.

    Raises:
        ValueError: The file cannot be read.
    """
    return questions(_rows(path), plain_question, "id")


def _rows(path: Path) -> Iterator[tuple[str, Row | ValueError]]:
    rows: Iterator[tuple[str, Any]]
    if any(suffix.lower() == ".csv" for suffix in path.suffixes[-2:]):
        rows = ((where, _split(row) if isinstance(row, dict) else row) for where, row in csv_rows(path, ()))
    elif path.is_file() and starts_with(path, "["):
        rows = ((f"{path}: item {number}", row) for number, row in read_items(path))
    else:
        rows = json_lines(path)
    for number, (where, row) in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield where, {"id": number, **_named(row)}
        else:
            yield where, row if isinstance(row, ValueError) else ValueError(f"{where}: not a JSON object")


def _split(row: dict[str, str]) -> Row:
    """Returns a row of CSV with its values of several parts as lists, and its section as a number."""
    named = {key: value for key, value in _named(row).items() if value != ""}
    lists = {key: str(named[key]).split("|") for key in ("answers", "entity") if key in named}
    section = str(named.get("section", ""))
    return named | lists | ({"section": int(section)} if section.isdecimal() else {})


def _named(row: Row) -> Row:
    """Returns a row whose fields have our names."""
    given = {folded(key): key for key in reversed(row)}
    named = dict(row)
    for field, others in _OTHERS.items():
        found = next((given[folded(other)] for other in (field, *others) if folded(other) in given), None)
        if field not in row and found is not None:
            named[field] = row[found]
        value = named.get(field)
        if field == "answers" and isinstance(value, list):  # such as those of VQA's annotators
            named[field] = [one.get("answer") if isinstance(one, dict) else one for one in value]
    return named


def plain_question(row: Row, where: str) -> Question:
    """Builds the question of a row.

    Required fields are `id`, `image` (a name or path in the image folder, or a URL), `question` and `answers`.
    `entity`, one id or several, is needed for Recall@K; `section` is the number of the evidence in its article; `type`,
    `split` and `category` break the figures down. Other fields are ignored.

    Raises:
        ValueError: A field is missing or invalid.
    """
    entity, section = row.get("entity"), row.get("section")
    if section is not None and (not isinstance(section, int) or isinstance(section, bool) or section < 0):
        raise ValueError(f"{where}: field section must be an integer of at least 0, got {section!r}")
    if section is not None and not entity:
        raise ValueError(f"{where}: field section needs the field entity")
    return Question(
        id=name(row, "id", where),
        question=text(row, "question", where),
        image_id=name(row, "image", where),
        answers=texts(row.get("answers"), "answers", where),
        entity_ids=texts(entity, "entity", where) if entity else (),
        section_index=section,
        question_type=optional_text(row, "type", where),
        data_split=optional_text(row, "split", where),
        category=optional_text(row, "category", where),
        style="plain",
    )
