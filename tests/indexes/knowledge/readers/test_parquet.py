"""Parquet files with images, maps, labels and bytes in them."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.readers.parquet import PARQUET, image_bytes
from tests.fakes.documents import beside, entries, rows
from tests.fakes.images import image_bytes as png

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLORS = ("red", "green", "blue", "white")


def written(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"title": list(COLORS), **columns}), path, row_group_size=3)
    return path


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("column", ["image", "shot/big"])
def test_images_in_the_file_are_named_and_read(tmp_path: Path, packed: bool, column: str) -> None:
    data = [png(color, (80, 60)) for color in COLORS]
    images = [{"bytes": one, "path": "x.png"} for one in data] if packed else data
    path = written(tmp_path / "sub" / "kb.parquet", **{column: images})
    names = [row[column] for row in rows(PARQUET, path, root=tmp_path)]
    assert names == [f"embedded:sub/kb.parquet#{column}/{number}" for number in range(4)]
    assert [image_bytes(path, names[number].partition("#")[2]) for number in (3, 0, 2, 1)] == [
        data[n] for n in (3, 0, 2, 1)
    ]
    for name in (f"{column}/4", "photo/0", f"{column}/x", "image", ""):
        assert image_bytes(path, name) is None
    written(path, **{column: list(reversed(data))})
    assert image_bytes(path, f"{column}/0") == data[3]  # not an image of the file that was there


def test_rows_without_bytes_have_their_path_or_no_image(tmp_path: Path) -> None:
    paths = [None, "green.png", None]
    images = [{"bytes": png("red", (8, 8)) if number == 0 else None, "path": path} for number, path in enumerate(paths)]
    type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = written(tmp_path / "kb.parquet", photo=pa.array([*images, None], type))
    assert [row["photo"] for row in rows(PARQUET, path)] == ["embedded:kb.parquet#photo/0", "green.png", None, None]
    assert image_bytes(path, "photo/3") is None


def test_values_are_of_the_types_of_json(tmp_path: Path) -> None:
    path = written(
        tmp_path / "kb.parquet",
        where=pa.array([[("lat", 1.5)], [], None, [("lat", 3.0)]], pa.map_(pa.string(), pa.float64())),
        day=[date(2001, 2, 3), None, None, None],
        at=[datetime(1999, 5, 6, 7), None, None, None],
        cost=[Decimal("12.50"), None, None, None],
        tags=[[{"at": date(2001, 2, 3)}], [], None, []],
        geometry=[b"\1\2", None, b"\3", b"\4"],
    )
    first, second, *_ = rows(PARQUET, path)
    plain = {"day": "2001-02-03", "at": "1999-05-06 07:00:00", "cost": "12.50", "tags": [{"at": "2001-02-03"}]}
    assert first == {"title": "red", "where": {"lat": 1.5}, **plain}
    assert second["where"] == [] and json.loads(json.dumps(second)) == second
    assert beside(PARQUET, path) == [("columns of bytes that are no images", "geometry")]


def test_labels_have_the_names_that_the_hub_gives_them(tmp_path: Path) -> None:
    label = {"names": ["Loon", "Teal", "Coot"], "_type": "ClassLabel"}
    info = {"info": {"features": {"bird": label, "depth": {"dtype": "int64", "_type": "Value"}}}}
    table = pa.table({"bird": [2, None, 0], "title": ["a", "b", "c"], "depth": [0, 1, 2]})
    path = tmp_path / "kb.parquet"
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), path)
    assert [(row["bird"], row["depth"]) for row in rows(PARQUET, path)] == [("Coot", 0), (None, 1), ("Loon", 2)]
    inner = {
        "birds": {"feature": label, "_type": "List"},
        "best": label,
        "names": {"dtype": "string", "_type": "Value"},
    }
    nested = {"list": inner, "old": {"feature": inner, "_type": "Sequence"}, "older": [inner]}
    info = {"info": {"features": nested}}
    value = {"birds": [1, -1, None, 3], "best": 0, "names": "x"}
    named = {"birds": ["Teal", -1, None, 3], "best": "Loon", "names": "x"}
    lists = {"title": ["a"], "list": [value], "old": [[value]], "older": [[value]]}
    nesting = pa.table(lists).replace_schema_metadata({"huggingface": json.dumps(info)})
    pq.write_table(nesting, path)
    assert rows(PARQUET, path) == [{"title": "a", "list": named, "old": [named], "older": [named]}]
    for other in ("other", "[]", '{"info": {"features": []}}', '{"info": {"features": {"bird": {"names": 3}}}}'):
        pq.write_table(table.replace_schema_metadata({"huggingface": other}), path)
        assert [row["bird"] for row in rows(PARQUET, path)] == [2, None, 0]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "kb.parquet")
    whole = path.read_bytes()
    for data in (b"", b"text", whole[:-40], whole[40:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"kb\.parquet: after row 0: damaged, or not a Parquet file"):
            entries(PARQUET, path)
    ids = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"ab\xe9"))
    pq.write_table(pa.table({"id": ids}), path)
    with pytest.raises(ValueError, match=r"kb\.parquet: after row 0: damaged, or not a Parquet file"):
        entries(PARQUET, path)
