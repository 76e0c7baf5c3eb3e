"""Knowledge bases described by a TOML file: databases and Hugging Face data sets."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from copy import copy
from pathlib import Path

import pytest

from indexes.knowledge.knowledge_base import guess_format, hash_knowledge_base
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import find_main, open_images
from retriever.types import Section
from tests.fakes.images import image_bytes
from tests.fakes.reading import read


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A TOML file beside an SQLite database of three animals."""
    pytest.importorskip("sqlalchemy", reason="needs the extra sql")
    with closing(sqlite3.connect(tmp_path / "animals.db")) as made:
        made.execute("CREATE TABLE animals (nr INTEGER, art TEXT, photo TEXT, text TEXT, height REAL, data BLOB)")
        made.executemany(
            "INSERT INTO animals VALUES (?, ?, ?, ?, ?, ?)",
            [
                (1, "Fox", "fox.png", "It runs.", 40.5, b"1"),
                (2, "Hen", None, None, None, b"2"),
                (3, "", None, "x", 1, b""),
            ],
        )
        made.commit()
    path = tmp_path / "animals.toml"
    path.write_text(
        'url = "sqlite:///animals.db"\nquery = "SELECT nr, art, photo, text, height FROM animals WHERE nr < 3"\n'
        'map = {id = "nr", title = "art"}\n'
    )
    return path


def test_rows_of_a_database(database: Path) -> None:
    assert guess_format(database) == "sql"
    fox, hen = read(database)
    assert (fox.id, fox.title, fox.image) == ("1", "Fox", "fox.png")
    assert fox.sections == (Section("Fox", "It runs.", 0), Section("Facts", "Height: 40.5", 1))
    assert (hen.id, hen.image, hen.sections) == ("2", None, ())
    assert read(database, id="art")[0].id == "Fox"  # arguments override the file
    before = hash_knowledge_base(database, "sql")
    assert hash_knowledge_base(database, "sql") == before
    with closing(sqlite3.connect(database.with_name("animals.db"))) as made:
        made.execute("UPDATE animals SET height = 41 WHERE nr = 1")
        made.commit()
    assert hash_knowledge_base(database, "sql") != before


def test_a_query_changes_nothing(database: Path) -> None:
    text = database.read_text()
    database.write_text(
        text.replace("SELECT nr, art, photo, text, height FROM animals WHERE nr < 3", "DELETE FROM animals")
    )
    with pytest.raises(ValueError, match=r"animals\.toml: query: "):
        read(database)
    database.write_text(text)
    assert len(read(database)) == 2


def test_rows_and_settings_that_are_wrong(database: Path, tmp_path: Path) -> None:
    text = database.read_text()
    database.write_text(text.replace("WHERE nr < 3", ""))
    with pytest.raises(ValueError, match=r"animals\.toml: row 3 \('3'\): field 'art' is missing"):
        read(database)
    database.write_text(text.replace("height", "data"))
    with pytest.raises(ValueError, match=r"row 1: column 'data' holds bytes; leave it out of the query"):
        read(database)
    for old, new, message in [
        ("animals.db", "none.db", r"url: .*none\.db does not exist"),
        ("FROM animals", "FROM plants", r"query: no such table: plants"),
        ("sqlite:///", "nothing", r"url: "),
        ("url", "link", r"unknown key 'link'; known are url, query, map"),
        ("title =", "label =", r"map: unknown field 'label'"),
        ("query = ", "query = 7 # ", r"query: expected text"),
        ("url", "", r"not TOML"),
    ]:
        database.write_text(text.replace(old, new, 1))
        with pytest.raises(ValueError, match=rf"animals\.toml: {message}"):
            list(read_knowledge_base(database, "sql"))
    assert not (tmp_path / "none.db").exists()
    database.write_text("name = 'x'")
    with pytest.raises(ValueError, match=r"animals\.toml: does not describe a knowledge base: .* dataset = "):
        guess_format(database)
    database.write_text("name = [1,")
    with pytest.raises(ValueError, match=r"animals\.toml: not TOML: "):
        guess_format(database)
    with pytest.raises(ValueError, match=r"animals\.db: a database; write a file animals\.toml beside it: .*query = "):
        guess_format(tmp_path / "animals.db")


def test_a_data_set_with_images(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra hf")
    features = datasets.Features(
        {
            "name": datasets.Value("string"),
            "picture": datasets.Image(),
            "kind": datasets.ClassLabel(names=["bird", "mammal"]),
            "legs": datasets.Value("int64"),
        }
    )
    rows = [
        {"name": "Fox", "picture": {"bytes": image_bytes("red", (80, 80)), "path": None}, "kind": 1, "legs": 4},
        {"name": "Hen", "picture": None, "kind": 0, "legs": 2},
    ]
    datasets.Dataset.from_list(rows, features=features).save_to_disk(tmp_path / "animals")
    path = tmp_path / "animals.toml"
    path.write_text('dataset = "animals"\n[map]\nimage = "picture"\n')
    assert guess_format(path) == "huggingface"
    fox, hen = read(path)
    assert (fox.id, fox.image) == ("Fox", "picture/0")
    assert fox.sections == (Section("Facts", "Kind: mammal\nLegs: 4", 0),)
    source = open_images(None, path, "huggingface")
    assert source is not None and find_main(source, fox) == "picture/0" and find_main(source, hen) is None
    assert source.content("picture/0") == image_bytes("red", (80, 80))
    assert source.load("picture/0").getpixel((5, 5)) == (255, 0, 0)
    assert copy(source).load("picture/0").size == source.load("picture/0").size  # as sent to another process
    assert source.find("picture/2") is None and source.find("name/0") is None
    assert hash_knowledge_base(path, "huggingface") == hash_knowledge_base(path, "huggingface")


def test_a_data_set_in_a_folder_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets", reason="needs the extra hf")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "wiki").mkdir()
    page = {"id": "12", "url": "https://example.org/A", "title": "Anarchism", "text": "First.\n\nSecond."}
    (tmp_path / "wiki" / "train.jsonl").write_text(json.dumps(page) + "\n")
    path = tmp_path / "wiki.toml"
    path.write_text('dataset = "wiki"\n')
    (entity,) = read(path)
    assert (entity.id, entity.title, entity.url) == ("12", "Anarchism", "https://example.org/A")
    assert entity.sections == (Section("Anarchism", "First.\nSecond.", 0),)
    path.write_text('dataset = "wiki"\nsplit = "test"\n')
    with pytest.raises(ValueError, match=r"wiki\.toml: dataset .*wiki' cannot be loaded: ValueError: .*split"):
        read(path)


def test_a_data_set_in_a_single_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets", reason="needs the extra hf")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.table({"title": ["Fox"], "text": ["Red."]}), tmp_path / "foxes.parquet")
    path = tmp_path / "foxes.toml"
    path.write_text('dataset = "foxes.parquet"\n')
    (fox,) = read_knowledge_base(path)
    assert (fox.title, fox.sections[0].text) == ("Fox", "Red.")
    (tmp_path / "foxes.xlsx").touch()
    path.write_text('dataset = "foxes.xlsx"\n')
    with pytest.raises(ValueError, match=r"foxes\.toml: dataset 'foxes\.xlsx' is a file; only \*\.parquet, "):
        list(read_knowledge_base(path))
