"""Tables as programs save them, read back: the same rows."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.knowledge.readers.table import TABLE
from tests.fakes.documents import beside, entries, rows

words = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.sampled_from(" \n"), min_size=1, max_size=12
)


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@settings(max_examples=100)
@given(
    table=st.lists(st.tuples(words, words), min_size=2, max_size=5),
    dialect=st.sampled_from([{"dialect": "excel"}, {"dialect": "unix"}, {"delimiter": ";"}, {"dialect": "excel-tab"}]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]),
    numbered=st.booleans(),
)
def test_a_table_of_the_csv_module_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[tuple[str, ...]],
    dialect: dict[str, str],
    encoding: str,
    numbered: bool,
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, **dialect)  # type: ignore[arg-type]
    writer.writerow([*([""] if numbered else []), "id", "title", "color"])
    for number, row in enumerate(table):
        writer.writerow([*([number] if numbered else []), f"i{number}", *row])
    path = tmp_path_factory.mktemp("table") / "kb.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    expected = [{"id": f"i{n}", "title": title, "color": color} for n, (title, color) in enumerate(table)]
    assert rows(TABLE, path) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("nr\tart\n7\tFuchs, rot\n", [{"nr": "7", "art": "Fuchs, rot"}]),
        ('"sep=;"\r\ntitle;text\nFox;a\n', [{"title": "Fox", "text": "a"}]),
        ("sep=;\ntitle;text\nFox;a, b, c\n", [{"title": "Fox", "text": "a, b, c"}]),
        ('title,"Height\r\nin cm"\r\nFox,40\r\n', [{"title": "Fox", "Height in cm": "40"}]),
        ("title,Note,Note,,Note\nFox,red,,x,shy\n", [{"title": "Fox", "Note": "red", "Note (2)": "", "Column 4": "x",
                                                      "Note (3)": "shy"}]),
        ("\ufeff\u200btitle , x\n\n,\nFox,NA\nHen\n", [{"title": "Fox", "x": "NA"}, {"title": "Hen"}]),
        ("title,x\rFox,1\rHen,2\r", [{"title": "Fox", "x": "1"}, {"title": "Hen", "x": "2"}]),
        ("title,x\nFox,1,,\n", [{"title": "Fox", "x": "1"}]),
        (",title\n0,Fox\n1,Hen\n", [{"title": "Fox"}, {"title": "Hen"}]),
        ("Unnamed: 0,title\nf,Fox\nh,Hen\n", [{"id": "f", "title": "Fox"}, {"id": "h", "title": "Hen"}]),
        (",mpg,x\nMazda RX4,21,4\nFiat,32,5\n", [{"name": "Mazda RX4", "mpg": "21", "x": "4"},
                                                 {"name": "Fiat", "mpg": "32", "x": "5"}]),
        ("title,photo.url,photo.by,No.,v1.2\nLoon,a.jpg,Ann,7,x\nTeal,,,8,\n",
         [{"title": "Loon", "photo": {"url": "a.jpg", "by": "Ann"}, "No.": "7", "v1.2": "x"},
          {"title": "Teal", "photo": {}, "No.": "8", "v1.2": ""}]),
    ],
)  # fmt: skip
def test_the_rows_of_every_layout(tmp_path: Path, content: str, expected: list[dict[str, object]]) -> None:
    assert rows(TABLE, written(tmp_path / "kb.csv", content)) == expected
    (tmp_path / "kb.csv.gz").write_bytes(gzip.compress(content.encode()))
    assert rows(TABLE, tmp_path / "kb.csv.gz") == expected


@pytest.mark.parametrize("above", ["Report of 2024", "Report of 2024,,\n,,", "# made by hand\n", "\n"])
def test_lines_above_the_header_are_said(tmp_path: Path, above: str) -> None:
    path = written(tmp_path / "kb.csv", f"{above}\ntitle,image,height\nFox,a.png,4\nHen,,\n")
    assert [row["title"] for row in rows(TABLE, path)] == ["Fox", "Hen"]
    text = above.rstrip(",\n")
    assert beside(TABLE, path) == ([("lines above a table's header", text)] if text else [])


def test_bad_rows_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "kb.csv", 'title,x\n\nFox,"said "no" twice"\nHen,5" pipe\nOwl,1,2\n"Cat\n\n",7\n')
    found = [(where, row if isinstance(row, ValueError) else None) for where, row in entries(TABLE, path)]
    assert [where.removeprefix(f"{path}: ") for where, _ in found] == ["line 3", "line 4", "line 5", "line 8"]
    assert "line 3: ',' expected after '\"'; inside a quoted value, write each \" twice" in str(found[0][1])
    assert str(found[2][1]) == f"{path}: line 5: 3 values, but the header has 2 columns"
    assert found[1][1] is found[3][1] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"has no header"),
        (b'title,x\nFox,"1\n', r"line 2: unexpected end of data: a quotation mark that begins there is never closed"),
        (b"title\nCaf\xe9\n", r"not UTF-8 .* iconv"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.csv: {message}"):
        entries(TABLE, tmp_path / "a.csv")


def test_a_table_without_a_header_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entries(TABLE, written(tmp_path / "foxes.csv", "3,Red fox,species\n4,Fennec,species\n"))
    assert "foxes.csv: its first column is called 3; does the table lack a header?" in caplog.text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("other", [",", ";", "\t", "|"])
def test_a_header_with_another_separator_is_split_as_the_rows_are(tmp_path: Path, delimiter: str, other: str) -> None:
    lines = [
        ["title", f"size{other} width{other} height"],
        ["Fox", "9"],
        ["Owl, small", "2"],
        ["Elk\nof the north", "7"],
    ]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    assert [list(row.values()) for row in rows(TABLE, tmp_path / "a.csv")] == lines[1:]


@pytest.mark.parametrize(
    ("name", "start", "expected"),
    [
        ("a.csv", "", True),
        ("a.tsv.gz", "x", True),
        ("a.txt", "title|x\nFox|1\n", True),
        ("a.txt", "title\tx\nFox\t1\n", True),
        ("a.txt", "Once, there was a fox.\nIt ran, it ate and it slept.\n", False),
        ("a.txt", "one line", False),
    ],
)
def test_texts_are_told_from_tables(name: str, start: str, expected: bool) -> None:
    assert TABLE.recognizes(Path(name), start.encode()) == expected
