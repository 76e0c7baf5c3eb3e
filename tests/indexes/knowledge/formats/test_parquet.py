"""Parquet files with images, maps and bytes in them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.sources import open_images
from retriever.types import Entity

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLORS = ("red", "green", "blue", "white")


def png(color: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (80, 60), color).save(file, "PNG")
    return file.getvalue()


def written(path: Path, **columns: Any) -> Path:
    titles = [f"Thing {color}" for color in COLORS]
    pq.write_table(pa.table({"title": titles, **columns}), path, row_group_size=3)
    return path


def read(path: Path, losses: Losses | None = None) -> list[Entity]:
    return list(read_knowledge_base(path, ledger=losses))


@pytest.mark.parametrize("packed", [True, False])
def test_images_in_the_file_are_read(tmp_path: Path, packed: bool) -> None:
    images = [{"bytes": png(color), "path": f"{color}.png"} if packed else png(color) for color in COLORS]
    path = written(tmp_path / "kb.parquet", image=images)
    entities = read(path)
    assert [one.image for one in entities] == ["image/0", "image/1", "image/2", "image/3"]
    source = open_images(None, path, "parquet")
    assert source is not None
    for number in (3, 0, 2, 1):
        name = source.find(f"image/{number}")
        assert name is not None and source.load(name).getpixel((5, 5)) == Image.new(
            "RGB", (1, 1), COLORS[number]
        ).getpixel((0, 0))
    assert source.find("image/4") is None and source.find("photo/0") is None


def test_rows_without_bytes_have_their_path_or_no_image(tmp_path: Path) -> None:
    images = [
        {"bytes": png("red"), "path": None},
        {"bytes": None, "path": "green.png"},
        {"bytes": None, "path": None},
        None,
    ]
    type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = written(tmp_path / "kb.parquet", photo=pa.array(images, type))
    (tmp_path / "green.png").write_bytes(png("green"))
    assert [one.image for one in read(path)] == ["photo/0", "green.png", None, None]
    source = open_images(tmp_path, path, "parquet")
    assert source is not None and source.find("photo/0") is not None and source.find("photo/2") is None
    found = source.find("green.png")
    assert found is not None and source.load(found).size == (80, 60)


def test_maps_are_facts_and_other_bytes_are_counted(tmp_path: Path) -> None:
    maps = pa.array([[("lat", 1.5), ("lon", 2.5)], [], None, [("lat", 3.0)]], pa.map_(pa.string(), pa.float64()))
    path, losses = written(tmp_path / "kb.parquet", where=maps, geometry=[b"\1\2", None, b"\3", b"\4"]), Losses()
    facts = [[section.text for section in one.sections] for one in read(path, losses)]
    assert facts == [["Where, lat: 1.5\nWhere, lon: 2.5"], [], [], ["Where, lat: 3"]]
    (loss,) = losses.to_json()["left_out"]
    assert (loss["reason"], loss["count"], loss["unit"]) == (
        "bytes in columns without the name of an image",
        3,
        "files",
    )


def test_labels_have_the_names_that_the_hub_gives_them(tmp_path: Path) -> None:
    label = {"names": ["Loon", "Teal", "Coot"], "_type": "ClassLabel"}
    info = {"info": {"features": {"bird": label, "depth": {"dtype": "int64", "_type": "Value"}}}}
    table = pa.table({"bird": [2, None, 0], "title": ["a", "b", "c"], "depth": [0, 1, 2]})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), tmp_path / "kb.parquet")
    found = [section.text for one in read_knowledge_base(tmp_path / "kb.parquet") for section in one.sections]
    assert found == ["Bird: Coot\nDepth: 0", "Depth: 1", "Bird: Loon\nDepth: 2"]
    for other in (
        "other",
        "[]",
        '{"info": null}',
        '{"info": {"features": []}}',
        '{"info": {"features": {"bird": {"names": 3}}}}',
    ):
        pq.write_table(table.replace_schema_metadata({"huggingface": other}), tmp_path / "kb.parquet")
        assert next(iter(read_knowledge_base(tmp_path / "kb.parquet"))).sections[0].text == "Bird: 2\nDepth: 0"
