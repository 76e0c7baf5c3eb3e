"""Databases, and TOML files that name one, or a data set of Hugging Face."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from indexes.knowledge.readers import source_file as huggingface
from indexes.knowledge.readers.database import DATABASE, image_bytes
from indexes.knowledge.readers.source_file import HUGGINGFACE, settings_in
from tests.fakes.documents import beside, entries, ids, rows
from tests.fakes.images import image_bytes as png

RED = png("red", (80, 80))


def written(path: Path, script: str, *blobs: bytes) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        for number, blob in enumerate(blobs, start=1):
            connection.execute("UPDATE birds SET shot = ? WHERE rowid = ?", (blob, number))
        connection.commit()
    return path


BIRDS = """
CREATE TABLE families (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE birds (id INTEGER PRIMARY KEY, name TEXT, shot BLOB, family_id INTEGER REFERENCES families(id), data BLOB);
CREATE TABLE photos (file TEXT, caption TEXT, bird INTEGER REFERENCES birds);
CREATE TABLE habitats (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE lives (bird INTEGER REFERENCES birds(id), habitat INTEGER REFERENCES habitats(id));
CREATE TABLE log (at TEXT, message TEXT);
INSERT INTO families VALUES (1, 'Divers');
INSERT INTO birds VALUES (1, 'Loon', NULL, 1, NULL), (2, 'Teal', NULL, NULL, x'0102');
INSERT INTO photos VALUES ('loon.jpg', 'At dawn', 1), ('loon2.jpg', 'At dusk', 1);
INSERT INTO habitats VALUES (1, 'Lake'), (2, 'Sea');
INSERT INTO lives VALUES (1, 1), (1, 2);
"""


def test_declared_keys_join_the_tables_of_a_database(tmp_path: Path) -> None:
    path = written(tmp_path / "birds.db", BIRDS, RED)
    assert DATABASE.recognizes(path, path.read_bytes()[:4096])
    loon, teal = rows(DATABASE, path)
    assert loon == {
        "id": 1,
        "name": "Loon",
        "shot": "embedded:birds.db#birds.shot/1",
        "family": {"id": 1, "name": "Divers"},
        "data": None,
        "lives": [{"habitat": {"id": 1, "name": "Lake"}}, {"habitat": {"id": 2, "name": "Sea"}}],
        "photos": [{"file": "loon.jpg", "caption": "At dawn"}, {"file": "loon2.jpg", "caption": "At dusk"}],
    }
    assert teal == {"id": 2, "name": "Teal", "shot": None, "family_id": None, "data": None}
    assert ids(DATABASE, path) == ["1", "2"] and entries(DATABASE, path)[1][0] == f"{path}: birds: row 2"
    unread = "tables of a database without titles or pictures"
    assert beside(DATABASE, path) == [
        (unread, "log: at, message"),
        ("columns of bytes that are no images", "birds.data"),
    ]
    assert image_bytes(path, "birds.shot/1") == RED
    for name in ("birds.shot/2", "birds.name/1", "birds.none/1", "none.shot/1", "birds.shot/x", "shot"):
        assert image_bytes(path, name) is None


def test_tables_with_pictures_come_before_others(tmp_path: Path) -> None:
    script = """
    CREATE TABLE migrations (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO migrations VALUES (1, 'a'), (2, 'b');
    CREATE TABLE "odd ""table" (id INTEGER PRIMARY KEY, title TEXT, [main.pic] TEXT);
    INSERT INTO "odd ""table" VALUES (1, 'Fox', 'fox.png');
    CREATE VIEW hens AS SELECT 1 AS id, 'Hen' AS label, 'hen.jpg' AS x;
    """
    path = written(tmp_path / "a.sqlite", script)
    assert [dict(row) for row in rows(DATABASE, path)] == [
        {"id": 1, "label": "Hen", "x": "hen.jpg"},
        {"title": "Fox", "main.pic": "fox.png"},
    ]
    assert ids(DATABASE, path) == ["hens/1", 'odd "table/1']
    assert [words for _, words in beside(DATABASE, path)] == ["migrations: id, name"]
    path = written(tmp_path / "a.sqlite", "CREATE TABLE a (name TEXT); INSERT INTO a VALUES ('Fox'), ('Hen')")
    assert [row["name"] for row in rows(DATABASE, path)] == ["Fox", "Hen"]  # without any pictures


@pytest.mark.parametrize(
    ("table", "is_of_pictures"),
    [("photos", True), ("object_images", True), ("media", True), ("photographs", False), ("profiles", False)],
)
def test_photographs_are_things_and_tables_of_photos_are_not(table: str, is_of_pictures: bool, tmp_path: Path) -> None:
    script = f"""
    CREATE TABLE makers (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO makers VALUES (1, 'Ann'), (2, 'Bob');
    CREATE TABLE {table} (id INTEGER PRIMARY KEY, title TEXT, file TEXT, maker_id INTEGER REFERENCES makers(id));
    INSERT INTO {table} VALUES (1, 'Bridge', 'b.jpg', 1), (2, 'Quay', 'q.jpg', 1), (3, 'Mill', 'm.jpg', 2);
    """
    path = written(tmp_path / "a.db", script)
    titles = [row.get("title") or row.get("name") for row in rows(DATABASE, path)]
    assert titles == (["Ann", "Bob"] if is_of_pictures else ["Bridge", "Quay", "Mill"])


def test_databases_that_cannot_be_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", "CREATE TABLE a (x TEXT); CREATE TABLE b (y TEXT)")
    with pytest.raises(
        ValueError, match=r"a\.db: no table has a title \(its tables: a, b\); write a query .* query = "
    ):
        entries(DATABASE, path)
    path.write_bytes(b"SQLite format 3\0" + b"x" * 200)
    with pytest.raises(ValueError, match=r"a\.db: not an SQLite database that can be read"):
        entries(DATABASE, path)
    assert not DATABASE.recognizes(tmp_path / "Thumbs.db", b"\xd0\xcf\x11\xe0")


def test_a_database_in_a_folder_that_cannot_be_written_is_read_and_nothing_is_left_there(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE a (name TEXT)")
        connection.execute("INSERT INTO a VALUES ('Fox')")
        connection.commit()
    tmp_path.chmod(0o555)
    try:
        assert [row["name"] for row in rows(DATABASE, path)] == ["Fox"]
    finally:
        tmp_path.chmod(0o755)


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """A TOML file beside an SQLite database of three animals."""
    pytest.importorskip("sqlalchemy", reason="needs the extra sql")
    written(
        tmp_path / "animals.db",
        """CREATE TABLE animals (nr INTEGER, art TEXT, height REAL, data BLOB);
        INSERT INTO animals VALUES (1, 'Fox', 40.5, x'01'), (2, 'Hen', NULL, NULL), (3, '', 1, NULL);""",
    )
    path = tmp_path / "animals.toml"
    path.write_text(
        'url = "sqlite:///animals.db"\nquery = "SELECT nr, art, height FROM animals WHERE nr < 3"\n'
        'map = {id = "nr", title = "art"}\n'
    )
    return path


def test_the_rows_of_a_query(query: Path) -> None:
    assert DATABASE.recognizes(query, query.read_bytes()) and not HUGGINGFACE.recognizes(query, query.read_bytes())
    assert not DATABASE.recognizes(query.with_suffix(".db"), b"SQLite format 3\0")  # the query says what is read of it
    assert rows(DATABASE, query) == [{"nr": 1, "art": "Fox", "height": 40.5}, {"nr": 2, "art": "Hen", "height": None}]
    assert [where for where, _ in entries(DATABASE, query)] == [f"{query}: row 1", f"{query}: row 2"]
    assert settings_in(query)["map"] == {"id": "nr", "title": "art"}
    text = query.read_text()
    query.write_text(text.replace("height FROM", "data FROM"))
    (_, error), (_, hen) = entries(DATABASE, query)
    assert "row 1: column 'data' holds bytes; leave it out of the query" in str(error) and not isinstance(
        hen, ValueError
    )
    query.write_text(text.replace("SELECT nr, art, height FROM animals WHERE nr < 3", "DELETE FROM animals"))
    with pytest.raises(ValueError, match=r"animals\.toml: query: "):
        entries(DATABASE, query)
    query.write_text(text)
    assert len(rows(DATABASE, query)) == 2  # nothing was deleted


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("animals.db", "none.db", r"url: .*none\.db does not exist"),
        ("FROM animals", "FROM plants", r"query: no such table: plants"),
        ("sqlite:///", "nothing", r"url: "),
        ("url", "link", r"unknown key 'link'; known are url, query, map"),
        ("title =", "label =", r"map: unknown field 'label'"),
        ("query = ", "query = 7 # ", r"query: expected text"),
        ("map = {", "map = 7 # {", r"map: expected a table"),
        ("url", "", r"not TOML"),
        ('url = "sqlite:///animals.db"', "", r"url is missing"),
    ],
)
def test_settings_that_are_wrong(query: Path, old: str, new: str, message: str) -> None:
    query.write_text(query.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"animals\.toml: {message}"):
        entries(DATABASE, query)
    assert not query.with_name("none.db").exists()


def test_a_data_set_with_images(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra hf")
    features = datasets.Features(
        {
            "name": datasets.Value("string"),
            "picture": datasets.Image(),
            "kind": datasets.ClassLabel(names=["bird", "mammal"]),
            "born": datasets.Value("date32"),
        }
    )
    table = [
        {"name": "Fox", "picture": {"bytes": RED, "path": None}, "kind": 1, "born": None},
        {"name": "Hen", "picture": None, "kind": 0, "born": None},
    ]
    datasets.Dataset.from_list(table, features=features).save_to_disk(tmp_path / "animals")
    path = tmp_path / "animals.toml"
    path.write_text('dataset = "animals"\n[map]\nimage = "picture"\n')
    assert HUGGINGFACE.recognizes(path, path.read_bytes()) and not DATABASE.recognizes(path, path.read_bytes())
    assert rows(HUGGINGFACE, path) == [
        {"name": "Fox", "kind": "mammal", "born": None, "picture": "embedded:animals.toml#picture/0"},
        {"name": "Hen", "kind": "bird", "born": None, "picture": None},
    ]
    assert huggingface.image_bytes(path, "picture/0") == RED
    for name in ("picture/1", "picture/2", "name/0", "picture"):
        assert huggingface.image_bytes(path, name) is None


def test_a_data_set_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets", reason="needs the extra hf")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "wiki").mkdir()
    page = {"id": "12", "title": "Anarchism", "text": "First.\n\nSecond."}
    (tmp_path / "wiki" / "train.jsonl").write_text(json.dumps(page) + "\n")
    path = tmp_path / "wiki.toml"
    for name in ("wiki", "wiki/train.jsonl"):
        path.write_text(f'dataset = "{name}"\n')
        assert rows(HUGGINGFACE, path) == [page]
    path.write_text('dataset = "wiki"\nsplit = "test"\n')
    with pytest.raises(ValueError, match=r"wiki\.toml: dataset .*wiki' cannot be loaded: ValueError: .*split"):
        entries(HUGGINGFACE, path)
