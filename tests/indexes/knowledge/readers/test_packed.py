"""Compressed files, and Parquet files of whole articles, as entities."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.knowledge_base import guess_format, name_of
from indexes.knowledge.reading import read_knowledge_base
from retriever.types import ArticleImage, Section
from tests.fakes.rows import write_jsonl

ENTRY: dict[str, Any] = {"title": "T", "section_titles": ["T"], "section_texts": ["text"]}
KB = {"a": ENTRY, "b": ENTRY | {"title": "U", "section_texts": [" ".join(map(str, range(3000)))]}}
ROWS: list[dict[str, Any]] = [
    {"id": "a", "title": "A", "sections": [{"title": "A", "text": "one"}, {"title": "References", "text": "[1]"},
                                           {"title": "B", "text": "two"}],
     "image": None, "images": [{"url": "a.jpg", "section": 2, "caption": None}], "url": "https://e.example/a"},
    {"id": "b", "title": "B", "sections": [], "image": "b.jpg", "images": None, "url": None},
]  # fmt: skip


def test_zip_and_gzip_are_read_as_they_are(tmp_path: Path) -> None:
    plain = tmp_path / "kb.json"
    plain.write_text(json.dumps(KB))
    whole = list(read_knowledge_base(plain))
    (tmp_path / "kb.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with zipfile.ZipFile(tmp_path / "kb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(plain, "folder/encyclopedic_kb_wiki.json")
        archive.writestr("__MACOSX/._encyclopedic_kb_wiki.json", b"x")
    for name in ("kb.json.gz", "kb.zip"):
        assert guess_format(tmp_path / name) == "evqa" and name_of(tmp_path / name) == "kb"
        assert list(read_knowledge_base(tmp_path / name)) == whole
    (tmp_path / "kb.jsonl.gz").write_bytes(gzip.compress(b'{"wikidata_id": "Q1", "wikipedia_title": "T"}\n'))
    assert guess_format(tmp_path / "kb.jsonl.gz") == "wiki6m"
    assert [entity.id for entity in read_knowledge_base(tmp_path / "kb.jsonl.gz")] == ["Q1"]


def test_damaged_archives(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(KB).encode())
    path = tmp_path / "kb.json.gz"
    for data in (packed[:-20], b"{}", packed[:200] + b"\xff\xff" + packed[202:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"kb\.json\.gz: "):
            list(read_knowledge_base(path))
    path = tmp_path / "kb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("kb.json", json.dumps(KB))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"kb\.zip: damaged or cut short .*fetch it again"):
        list(read_knowledge_base(path))
    table = tmp_path / "foxes.zip"
    with zipfile.ZipFile(table, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("foxes.csv", "name,mass\n" + "".join(f"Fox {number},{number} kg\n" for number in range(3000)))
    for packed_file, content in ((path, whole), (table, table.read_bytes())):
        packed_file.write_bytes(content.replace(b"1234", b"1235"))  # no longer matches its checksum
        with pytest.raises(ValueError, match=rf"{packed_file.stem}\.zip: damaged or cut short"):
            list(read_knowledge_base(packed_file))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("second.json", "{}")
    with pytest.raises(ValueError, match=r"kb\.zip: must contain one file, got 2"):
        list(read_knowledge_base(path))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=1)
    return path


def test_parquet_has_the_fields_of_jsonl(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "kb.parquet", ROWS)
    write_jsonl(tmp_path / "kb.jsonl", *ROWS)
    found = list(read_knowledge_base(path))
    assert found == list(read_knowledge_base(tmp_path / "kb.jsonl"))
    assert found[0].sections == (Section("A", "one", 0), Section("References", "[1]", 1), Section("B", "two", 2))
    assert found[0].images == (ArticleImage("a.jpg", 2, ""),) and found[0].image == "a.jpg"
    assert (found[1].image, found[1].images, found[1].url) == ("b.jpg", (), "")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], ROWS[1] | {"title": None}], r"row 2 \('b'\): field 'title' is missing"),
        ([{"title": "t", "sections": []}], "row 1.*field 'id' is"),
    ],
)
def test_parquet_errors_name_the_row(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    path = write_parquet(tmp_path / "kb.parquet", rows)
    with pytest.raises(ValueError, match=r"kb\.parquet: .*" + message):
        list(read_knowledge_base(path, skipped=SkippedEntries(0)))
