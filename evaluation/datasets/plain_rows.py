"""Rows of one's own files of questions, in any of the forms that tools write, with their fields under our names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from evaluation.datasets.rows import Row, csv_rows, json_file, json_lines, split_cell
from indexes.arrow_rows import rows_of_parquet
from indexes.json_streams import has_lines, read_items, starts_with
from indexes.labeled_values import NO_NAMES, Names, folded, value_at

NO_ANSWERS = "none"
"""The name that says that no question has an answer, as in test splits whose answers are kept back."""
OTHERS = {
    "id": ("question_id", "data_id", "sample_id", "qid", "uid"),
    "image": ("image_id", "image_path", "image_url", "image_name", "img_path", "img_id", "img", "file_name", "images"),
    "question": ("query", "input", "prompt"),
    "questions": ("qa_pairs", "qas", "qa"),
    "answers": (
        *("answer", "direct_answers", "gold_answers", "gold_answer", "output", "correct_answer"),
        *("ground_truth_list", "ground_truths", "ground_truth", "gt_answer", "correct_choice_idx"),
    ),
    "options": ("choices",),
    "entity": ("entity_id", "entity_ids", "wikidata_id", "wikidata_ids", "qids", "wikipedia_url", "wiki_url"),
}
"""Names that fields have in question files of others, without case, spaces, `_` and `-`; the first one counts."""


def plain_rows(path: Path, names: Names) -> Iterator[tuple[str, Any]]:
    """Yields the rows of a file with their places; those that are objects have our names."""
    rows: Iterable[tuple[str, Any]]
    name: Callable[[Row, Names], Row] = renamed
    if any(suffix.lower() in (".csv", ".tsv") for suffix in path.suffixes[-2:]):
        rows, name = csv_rows(path, ()), _split
    elif path.is_dir() or path.suffix == ".parquet":
        rows = rows_of_parquet(path)
    elif path.is_file() and starts_with(path, "["):
        rows = ((f"{path}: item {number}", row) for number, row in read_items(path))
    elif not path.is_file() or has_lines(path):
        rows = json_lines(path)
    else:
        return _in_object(path, names)
    return ((where, name(row, names) if isinstance(row, dict) else row) for where, row in rows)


def _in_object(path: Path, names: Names) -> Iterator[tuple[str, Any]]:
    """Yields the rows in a JSON object: itself, its members by their ids or images, or those of the only list in it."""
    content = json_file(path)
    own = renamed(content, names)
    lists = {
        key: value
        for key, value in content.items()
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    }
    asking = {key: rows for key, rows in lists.items() if _asks(rows[0], names)}
    lists = asking if len(asking) == 1 else lists
    if columns := _columns(own):
        yield from ((f"{path}: row {number}", row) for number, row in enumerate(columns, start=1))
    elif "question" in own or ("questions" in own and "image" in own):
        yield str(path), own
    elif content and all(isinstance(value, dict) for value in content.values()):
        for key, row in content.items():
            yield f"{path}: entry {key!r}", {"id": key, "image": key, **renamed(row, names)}
    elif len(lists) == 1:
        for key, rows in lists.items():
            yield from ((f"{path}: {key}[{position}]", renamed(row, names)) for position, row in enumerate(rows))
    else:
        fields = ", ".join(content) or "none"
        raise ValueError(f"{path}: expected an object per question or one list of them; it has the fields {fields}")


def _asks(row: Row, names: Names) -> bool:
    """Returns whether a row has a question, or members that have one."""
    members = [row, *(one for one in row.values() if isinstance(one, dict))]
    return any(not {"question", "questions"}.isdisjoint(renamed(one, names)) for one in members)


def _columns(own: Row) -> list[Row]:
    """Returns the rows of an object of columns, as pandas and `datasets` write tables; none if it is another."""
    listed = {key: list(one.values()) if isinstance(one, dict) else one for key, one in own.items()}
    count = len(listed["question"]) if isinstance(listed.get("question"), list) else 0
    return [
        {key: one[number] if isinstance(one, list) and len(one) == count else own[key] for key, one in listed.items()}
        for number in range(count)
    ]


def _split(row: Row, names: Names) -> Row:
    """Returns a row of CSV with its values of several parts as lists, and its section as a number."""
    named = {key: value for key, value in renamed(row, names).items() if value != ""}
    lists: Row = {key: split_cell(str(named[key])) for key in ("answers", "entity") if named.get(key) is not None}
    lists |= {"answers": list(map(_typed, lists["answers"]))} if "answers" in lists else {}
    section = str(named.get("section", ""))
    return named | lists | ({"section": int(section)} if section.isdecimal() else {})


def _typed(cell: str) -> str | float | bool:
    """Returns the value of a cell that pandas or Excel wrote for 1885 in a column with gaps, or for true or false."""
    if cell in ("True", "TRUE", "False", "FALSE"):
        return cell.upper() == "TRUE"
    return float(cell) if re.fullmatch(r"-?\d{1,15}\.0", cell) else cell


def renamed(row: Row, names: Names = NO_NAMES) -> Row:
    """Returns a row with its fields renamed to ours, by `names` or else from the usual names."""
    given = {folded(key): key for key in reversed(row)}
    mapped = {field: value for field in names if (value := value_at(row, names[field])) is not None}
    if names.get("answers") == NO_ANSWERS and "answers" not in mapped:
        mapped["answers"] = None
    named = row | mapped
    for field, others in OTHERS.items():
        found = next((given[folded(other)] for other in (field, *others) if folded(other) in given), None)
        if field not in named and found is not None:
            named[field] = row[found]
    return named
