"""Tables and data frames as programs save them, read back: the same entities."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.understanding.facts import EMPTY
from retriever.types import Entity

NAMES = ("title", "image", "height", "code")
ROWS: list[list[Any]] = [["Fox", "img/fox.png", 40, "NA"], ["Hen", "img/hen.png", 30, "None"], ["Owl", None, None, "-"]]
FACTS = [["Height: 40", "Code: NA"], ["Height: 30", "Code: None"], ["Code: -"]]

words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), min_size=1, max_size=12)
titles = words.filter(lambda text: text.strip() not in EMPTY and any(map(str.isalpha, text)))


def laid_out(names: Sequence[str], rows: Sequence[Sequence[Any]], orient: str, labels: Sequence[Any]) -> Any:
    """Returns a data frame as pandas' `to_json` writes it, by its documentation."""
    records = [dict(zip(names, row, strict=True)) for row in rows]
    match orient:
        case "records":
            return records
        case "index":
            return {str(label): record for label, record in zip(labels, records, strict=True)}
        case "columns":
            pairs = list(zip(map(str, labels), records, strict=True))
            return {name: {label: record[name] for label, record in pairs} for name in names}
    assert orient == "list"  # of `to_dict`
    return {name: [record[name] for record in records] for name in names}


def read(path: Path) -> list[Entity]:
    return list(read_knowledge_base(path, skipped=SkippedEntries(0)))


def facts(entity: Entity) -> list[str]:
    return [line for section in entity.sections if section.title == "Facts" for line in section.text.split("\n")]


@pytest.mark.parametrize("orient", ["records", "index", "columns", "list"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_layout_of_a_data_frame(tmp_path: Path, orient: str, count: int) -> None:
    path = tmp_path / "kb.json"
    path.write_text(json.dumps(laid_out(NAMES, ROWS[:count], orient, range(count))))
    found = read(path)
    assert [(one.id, one.title, one.image) for one in found] == [(row[0], row[0], row[1]) for row in ROWS[:count]]
    assert [facts(one) for one in found] == FACTS[:count]


@pytest.mark.parametrize("orient", ["index", "columns"])
def test_labels_that_do_not_count_are_ids(tmp_path: Path, orient: str) -> None:
    path = tmp_path / "kb.json"
    path.write_text(json.dumps(laid_out(NAMES, ROWS, orient, ["f-1", "h-2", "o-3"])))
    assert [(one.id, one.title) for one in read(path)] == [("f-1", "Fox"), ("h-2", "Hen"), ("o-3", "Owl")]


def test_columns_of_unusual_names_by_their_types(tmp_path: Path) -> None:
    path, names = tmp_path / "kb.json", ("Species", "Weight")
    rows: list[list[Any]] = [["Fox", 4], ["Hen", 2]]
    for orient in ("columns", "index"):
        path.write_text(json.dumps(laid_out(names, rows, orient, ["a", "b"])))
        found = read(path)
        assert [one.id for one in found] == ["a", "b"] and "Weight: 4" in facts(found[0])


def test_a_table_with_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "kb.json"
    fields = [{"name": name, "type": "string"} for name in NAMES]
    path.write_text(json.dumps({"schema": {"fields": fields}, "data": laid_out(NAMES, ROWS[:2], "records", [])}))
    assert [one.title for one in read(path)] == ["Fox", "Hen"]


@pytest.mark.parametrize(
    "content",
    [[["title", "image"], ["Fox", "img/fox.png"]], [[1, 2]], {"columns": ["title", "n"], "data": [["Fox", 1]]}],
)
def test_values_without_names_are_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "kb.json"
    path.write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=r'(?:item|row) 1: a list of values without the names of their fields; .*"records"'
    ):
        read(path)


def test_lines_with_commas_between_them_and_values_of_several_lines(tmp_path: Path) -> None:
    rows = [{"id": 1, "title": "Fox"}, {"id": 2, "title": "Hen"}]
    path = tmp_path / "kb.jsonl"
    for text in (",\n".join(map(json.dumps, rows)) + ",\n", "\n".join(json.dumps(row, indent=1) for row in rows)):
        path.write_text(text)
        assert [one.title for one in read(path)] == ["Fox", "Hen"]
    path.write_text('{"id": 1, "ti\n{"id": 2, "title": "Hen"}\n')  # a damaged line is one bad entry
    assert [one.title for one in read_knowledge_base(path, skipped=SkippedEntries(0.5))] == ["Hen"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('// mine\n[{"title": "Fox"}]', "a comment, which JSON does not have"),
        ("[{'title': 'Fox'}]", "text in single quotes, which JSON does not have"),
        ('[{"title": "Fox",}]', "a comma before '}', which JSON does not allow; remove it"),
        ('[{"title": "Fox"},]', "a comma before ']', which JSON does not allow; remove it"),
    ],
)
def test_what_is_no_json_is_called_by_its_name(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "kb.json").write_text(text)
    with pytest.raises(ValueError, match=reason):
        read(tmp_path / "kb.json")


@pytest.mark.parametrize("above", ["Report of 2024\n", "Report of 2024,,\n,,\n", "# made by hand\n\n", "\n\n"])
def test_lines_above_the_header_are_left_out_and_counted(tmp_path: Path, above: str) -> None:
    path, losses = tmp_path / "kb.csv", Losses()
    path.write_text(f"{above}title,image,height\nFox,a.png,4\nHen,,\n")
    fox, hen = read_knowledge_base(path, ledger=losses)
    assert (fox.title, fox.image, facts(fox), hen.title) == ("Fox", "a.png", ["Height: 4"], "Hen")
    counted = [(loss["reason"], loss["count"]) for loss in losses.to_json()["left_out"]]
    words = len(re.findall(r"\w+", above))
    assert counted == ([("lines above a table's header", words)] if words else [])


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_a_first_column_without_a_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "kb.csv"
    path.write_text(f"{name},title,x\n0,Fox,4\n1,Hen,5\n")
    assert [(one.id, facts(one)) for one in read(path)] == [("Fox", ["X: 4"]), ("Hen", ["X: 5"])]
    path.write_text(f"{name},title,x\nf,Fox,4\nh,Hen,5\n")
    assert [(one.id, one.title) for one in read(path)] == [("f", "Fox"), ("h", "Hen")]
    path.write_text(f"{name},mpg,x\nMazda RX4,21,4\nFiat 128,32,5\n")  # as R writes its tables
    assert [(one.title, facts(one)[0]) for one in read(path)] == [("Mazda RX4", "Mpg: 21"), ("Fiat 128", "Mpg: 32")]


def test_a_bad_quotation_mark_is_one_bad_entry(tmp_path: Path) -> None:
    path, skipped = tmp_path / "kb.csv", SkippedEntries(0.5)
    path.write_text('title,x\nFox,"said "no" twice"\nHen,5" pipe\n')
    assert [one.title for one in read_knowledge_base(path, skipped=skipped)] == ["Hen"]
    assert skipped.listed[0]["place"] == "line 2" and 'write each " twice' in skipped.listed[0]["reason"]


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(titles, words, words), min_size=2, max_size=5, unique_by=lambda row: row[0].strip()),
    dialect=st.sampled_from([{"dialect": "excel"}, {"dialect": "unix"}, {"delimiter": ";"}, {"dialect": "excel-tab"}]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]),
    numbered=st.booleans(),
)
def test_a_table_of_the_csv_module_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    dialect: dict[str, str],
    encoding: str,
    numbered: bool,
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, **dialect)  # type: ignore[arg-type]
    writer.writerow([*([""] if numbered else []), "id", "title", "color"])
    for number, (title, color, _) in enumerate(rows):
        writer.writerow([*([number] if numbered else []), f"i{number}", title, f"c{color}c"])
    path = tmp_path_factory.mktemp("table") / "kb.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    found = read(path)
    assert [one.id for one in found] == [f"i{number}" for number in range(len(rows))]
    assert [one.title for one in found] == [" ".join(row[0].split()) for row in rows]
    assert all(facts(one) for one in found)


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(titles, st.integers(), st.none() | st.booleans()), min_size=1, max_size=5),
    orient=st.sampled_from(["records", "index", "columns", "list"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    plain=st.booleans(),
)
def test_every_layout_holds_the_same_entities(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], orient: str, encoding: str, plain: bool
) -> None:
    names = ("title", "size", "wild")
    folder = tmp_path_factory.mktemp("frame")
    expected, path = folder / "expected.jsonl", folder / "kb.json"
    expected.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    saved = laid_out(names, rows, orient, range(len(rows)))
    path.write_bytes(json.dumps(saved, ensure_ascii=plain).encode(encoding))
    assert read(path) == read(expected)
