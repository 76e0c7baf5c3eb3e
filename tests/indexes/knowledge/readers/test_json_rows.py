"""JSON and YAML as people and programs write them: which rows are in them, and what else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.knowledge.document import Document
from indexes.knowledge.readers import json_rows
from indexes.knowledge.readers.json_rows import JSON_ROWS
from indexes.knowledge.reading import read_knowledge_base
from tests.fakes.documents import beside, entries, ids, laid_out, rows

FOX, HEN = {"title": "Fox", "size": 4}, {"title": "Hen", "size": 2}


def written(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([FOX, HEN], [("item 1", "", ""), ("item 2", "", "")]),
        ({"fox": FOX, "hen": HEN}, [("entry 'fox'", "fox", ""), ("entry 'hen'", "hen", "")]),
        ({"0": FOX, "1": HEN}, [("entry '0'", "", ""), ("entry '1'", "", "")]),
        ({"fox": {"size": 4}, "hen": {"size": 2}}, [("entry 'fox'", "fox", "fox"), ("entry 'hen'", "hen", "hen")]),
        ({"a/fox.jpg": {"n": [1]}, "b": {"n": [2]}},
         [("entry 'a/fox.jpg'", "a/fox.jpg", "fox"), ("entry 'b'", "b", "b")]),
        ({"query": {"pages": {"7": FOX, "8": HEN}}}, [("item 1", "7", ""), ("item 2", "8", "")]),
        ({"type": "FeatureCollection", "features": [{"properties": FOX}, {"properties": HEN}]},
         [("item 1", "", ""), ("item 2", "", "")]),
        ({"x": 1, "data": {"items": [FOX, HEN]}, "log": [{"n": 1}]}, [("item 1", "", ""), ("item 2", "", "")]),
        ({"title": "Zoo", "animals": [FOX, HEN]}, [("item 1", "", ""), ("item 2", "", "")]),
        ({"fox.png": "A red fox that runs in the snow", "b": "A hen with five small chicks"},
         [("entry 'fox.png'", "fox.png", ""), ("entry 'b'", "b", "")]),
        (FOX, [("", "kb", "")]),
        ({"id": 7, "properties": FOX}, [("", "kb", "")]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".json", ".yml"])
@pytest.mark.parametrize("large", [False, True])
def test_the_rows_of_every_layout(
    tmp_path: Path, value: Any, expected: list[tuple[str, str, str]], suffix: str, large: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(json_rows, "_LARGE", 0 if large else 1 << 20)
    path = written(tmp_path / f"kb{suffix}", value)
    found = [(where, row) for where, row in entries(JSON_ROWS, path) if not isinstance(row, Document) or not row.parts]
    places = [(where.removeprefix(str(path)).removeprefix(": "), row) for where, row in found]
    assert [(where, row.id, row.title) for where, row in places if isinstance(row, Document)] == expected


def test_what_is_beside_the_rows_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"license": "free to use", "animals": [FOX, HEN], "staff": [{"person": "Ann Lee"}], "site": {"owner": "Bo"}}
    path = written(tmp_path / "zoo.json", value)
    expected = [("objects in other lists", "Ann Lee"), ("values outside of the list", "free to use Bo")]
    assert beside(JSON_ROWS, path) == expected
    monkeypatch.setattr(json_rows, "_LARGE", 0)
    assert beside(JSON_ROWS, path) == expected and rows(JSON_ROWS, path) == [FOX, HEN]


ALDER, BIRCH = ({"name": name, "logo": f"{name}.svg", "group": ""} for name in ("Alder", "Birch"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"name": "Wet", "items": [ALDER]}, {"name": "Dry", "items": []}], [ALDER]),
        ({"map": [{"name": "Trees", "id": None, "kinds": [{"name": "Wet", "items": [ALDER]}, {"name": "Dry",
         "items": [{"name": "Birch", "page": "https://birch.example"}]}]}], "note": "x"},
         [ALDER, {"name": "Birch", "page": "https://birch.example", "group": "Trees, Dry"}]),
        ([[ALDER], [BIRCH]], [ALDER, BIRCH]),
        ({"wet": [{"name": "Alder", "text": "A tree."}] * 2, "dry_land": [{"name": "Birch", "text": "Is white."}],
          "birch": [{"name": "Ann", "age": 7}]},
         [*[{"name": "Alder", "text": "A tree.", "group": "wet"}] * 2,
          {"name": "Birch", "text": "Is white.", "group": "dry_land"}]),
        ({"ALDER": [{"name": "Alder", "url": "https://a.example"}], "bir_ch": [{"name": "Birch", "url": "https://b"}]},
         [{"name": "Alder", "url": "https://a.example"}, {"name": "Birch", "url": "https://b"}]),
        ({"club": [{"name": "Ann", "age": 7}, {"name": "Bo", "age": 8}], "team": [{"name": "Bo", "age": 8}]},
         [{"name": "Ann", "age": 7}, {"name": "Bo", "age": 8}]),
    ],
)  # fmt: skip
def test_the_members_of_groups_are_rows(tmp_path: Path, value: Any, expected: list[Any]) -> None:
    for suffix in (".json", ".yaml"):
        found = rows(JSON_ROWS, written(tmp_path / f"kb{suffix}", value))
        assert [{name: str(item) for name, item in row.items()} for row in found] == [
            {name: str(item) for name, item in row.items()} for row in expected
        ]


@pytest.mark.parametrize(
    "things",
    [
        [{"name": "Soup", "parts": [{"name": "Leek"}, {"name": "Salt"}]}],  # whose parts are no things
        [{"name": "Weir", "born": 1873, "works": [ALDER]}],  # of which more is said than its name
        [{"name": "Zoo", "animals": [ALDER]}, {"name": "Pond"}, {"name": "Elm", "logo": "elm.svg"}],
        [{"name": "Fox"}, {"name": "Hen"}],
        [{"title": "Tower", "sections": [{"title": "History", "text": "It was built in 1850."}]}],
        [{"name": "Tower", "images": [{"title": "Front", "url": "https://towers.example/1.jpg"}]}],
        [  # of which every thing has the same
            {"name": name, "views": [{"title": view, "link": f"https://{name}.example"} for view in ("Front", "Back")]}
            for name in ("Tower", "Bridge", "Gate")
        ],
    ],
)
def test_things_with_parts_are_no_groups(tmp_path: Path, things: list[Any]) -> None:
    assert rows(JSON_ROWS, written(tmp_path / "kb.json", things)) == things


BESIDE: dict[str, dict[str, Any]] = {
    "users": {
        "name": "Ann Lee",
        "email": "ann@zoo.example",
        "password": "tulip",
        "photo": "ann.jpg",
        "about": "Likes it.",
    },
    "clients": {"firstName": "Bo", "lastName": "Ek", "email": "bo@zoo.example", "username": "bo", "visits": 12},
    "comments": {"thingId": 0, "rating": 5, "comment": "Imagine all the animals, living in one zoo!", "author": "Cy"},
    "kinds": {"id": 3, "name": "Bird"},
    "cart": {"thingId": 0, "quantity": 2},
}


@settings(max_examples=40, deadline=None)
@given(
    beside_it=st.permutations(["things", *BESIDE]),
    counts=st.fixed_dictionaries({name: st.integers(1, 120) for name in BESIDE}),
    things=st.integers(1, 120),
    keys=st.sampled_from([("name", "image"), ("label", "photoSrc"), ("nickname", "imgSrc")]),
    large=st.booleans(),
)
def test_of_the_lists_of_a_server_those_with_images_are_the_things(
    tmp_path_factory: pytest.TempPathFactory,
    beside_it: list[str],
    counts: dict[str, int],
    things: int,
    keys: tuple[str, str],
    large: bool,
) -> None:
    expected = [{"id": number, keys[0]: f"Fox {number}", keys[1]: f"img/{number}.jpg"} for number in range(things)]
    value = {
        name: expected if name == "things" else [{"id": n, **BESIDE[name]} for n in range(counts[name])]
        for name in beside_it
    }
    path = written(tmp_path_factory.mktemp("server") / "db.json", value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "_LARGE", 0 if large else 1 << 24)
        assert rows(JSON_ROWS, path) == expected
        left_out = dict(beside(JSON_ROWS, path))
    assert "tulip" not in left_out["objects in other lists"] or (things >= 50 and large)


def test_the_ids_of_several_lists(tmp_path: Path) -> None:
    dishes = [{"id": number, "name": f"Dish {number}", "image": f"{number}.png"} for number in range(3)]
    leaders = [{"id": number, "name": f"Leader {number}", "image": "a.png"} for number in range(2)]
    path = written(tmp_path / "db.json", {"dishes": dishes, "leaders": leaders, "menu": dishes[:1]})
    assert [entity.id for entity in read_knowledge_base(path)] == ["0", "1", "2", "leaders/0", "leaders/1"]


def test_features_of_geojson_are_their_properties(tmp_path: Path) -> None:
    place: dict[str, Any] = {"type": "Feature", "id": 7, "geometry": {"type": "Point", "coordinates": [2.3, 48.9]}}
    mill, pump = ({**place, "properties": {"monument": name, "built": 1803}} for name in ("Mill", "Pump"))
    expected = [{"id": 7, "monument": name, "built": 1803} for name in ("Mill", "Pump")]
    paths = [
        written(tmp_path / f"{name}.geojson", {"type": "FeatureCollection", "name": name, "features": features})
        for name, features in (("a", [mill, pump]), ("b", [pump]))
    ]
    assert rows(JSON_ROWS, paths[0]) == expected and rows(JSON_ROWS, *paths) == [*expected, expected[1]]
    assert rows(JSON_ROWS, written(tmp_path / "lines.jsonl", mill)) == expected[:1]
    named = {**mill, "properties": {"name": "Mill"}}
    assert rows(JSON_ROWS, written(tmp_path / "one.geojson", named)) == [{"id": 7, "name": "Mill"}]


def test_each_file_of_a_folder_is_one_row_if_they_are_alike(tmp_path: Path) -> None:
    files = []
    for name in ("fox", "hen"):
        (tmp_path / name).mkdir()
        value = {"title": name.title(), "text": "…", "images": [{"src": "a.jpg", "title": "A"}] * 3}
        files.append(written(tmp_path / name / "data.json", value))
    assert ids(JSON_ROWS, *files, root=tmp_path) == ["fox/data", "hen/data"]
    assert ids(JSON_ROWS, files[0], root=tmp_path) == ["", "", ""]  # alone, it is a list
    package = written(tmp_path / "package.json", {"name": "zoo", "contributors": [{"name": "Ann"}]})
    zoo = written(tmp_path / "zoo.json", {"title": "Zoo", "animals": [FOX, HEN]})
    assert [row["title"] for row in rows(JSON_ROWS, zoo, package) if "title" in row] == ["Fox", "Hen"]


@pytest.mark.parametrize("layout", ["{}.json", "data/{}.json", "{}/info.json"])
def test_things_are_called_by_their_keys_or_files(tmp_path: Path, layout: str) -> None:
    things = {name: {"maker": maker, "height": 4} for name, maker in (("Blue Teapot", "Ann Lee"), ("Astrolabe", "Bo"))}
    (tmp_path / "keyed").mkdir()
    written(tmp_path / "keyed" / "things.json", things)
    for name, thing in things.items():
        file = tmp_path / "files" / layout.format(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        written(file, thing)
    for folder in ("keyed", "files"):
        found = {entity.title: entity.sections[0].text for entity in read_knowledge_base(tmp_path / folder)}
        assert found == {name: f"Maker: {thing['maker']}\nHeight: 4" for name, thing in things.items()}


def test_records_without_usual_titles_and_files_without_rows(tmp_path: Path) -> None:
    birds = [
        written(tmp_path / f"{n}.json", {"species": name, "diet": "fish"}) for n, name in enumerate(("Loon", "Teal"))
    ]
    colors = written(tmp_path / "colors.json", ["red", "green"])
    assert ids(JSON_ROWS, *birds, colors) == ["0", "1"]
    between = written(tmp_path / "0.geojson", {"name": "A map", "shapes": []})
    assert ids(JSON_ROWS, birds[0], between, birds[1]) == ["0", "0", "1"]
    assert beside(JSON_ROWS, *birds, colors) == [("files without rows", "red green")]
    with pytest.raises(ValueError, match=r"colors\.json: a list of values, not of objects"):
        entries(JSON_ROWS, colors)
    with pytest.raises(ValueError, match=r"x\.json: holds no list of objects, nor an object with a title"):
        entries(JSON_ROWS, written(tmp_path / "x.json", {"a": 1}))
    assert rows(JSON_ROWS, written(tmp_path / "x.json", {"AD": "Andorra", "AE": "Emirates"}))[0] == {"title": "Andorra"}


def test_lines_with_commas_lines_that_are_damaged_and_values_of_several_lines(tmp_path: Path) -> None:
    path, values = tmp_path / "kb.jsonl", [FOX, HEN]
    for text in (",\n".join(map(json.dumps, values)) + ",\n", "\n".join(json.dumps(row, indent=1) for row in values)):
        path.write_text(text)
        assert rows(JSON_ROWS, path) == values
    path.write_bytes(b'{"id": 1, "ti\n\n{"title": "Hen"}\n{"title": "F\xfcchse im Wald"}\n7\n')
    found = [(where.rpartition(": ")[2], str(row)) for where, row in entries(JSON_ROWS, path)]
    assert [where for where, _ in found] == ["line 1", "line 3", "line 4", "line 5"]
    assert "Unterminated string" in found[0][1] and "line 4: not UTF-8" in found[2][1]
    assert found[3][1] == f"{path}: line 5: expected an object, but found a number"


def test_yaml_values_stay_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "kb.yaml.gz"
    path.write_bytes(gzip.compress(b"- title: 1984\n  id: 007\n  on: yes\n  x: null\n  y: Null\n  born: 2001-02-03\n"))
    expected = {"title": "1984", "id": "007", "on": "yes", "x": None, "y": "Null", "born": "2001-02-03"}
    assert rows(JSON_ROWS, path) == [expected]
    (tmp_path / "kb.yml").write_text("title: Fox\n---\ntitle: Hen\n")
    assert [row["title"] for row in rows(JSON_ROWS, tmp_path / "kb.yml")] == ["Fox", "Hen"]
    (tmp_path / "kb.yml").write_text("a: b\n  c: [")
    with pytest.raises(ValueError, match=r"kb\.yml: line 2: not YAML \(mapping values"):
        entries(JSON_ROWS, tmp_path / "kb.yml")


@settings(max_examples=60)
@given(
    table=st.lists(st.tuples(st.text(min_size=1), st.integers(), st.none() | st.booleans()), min_size=1, max_size=5),
    orient=st.sampled_from(["records", "index", "columns", "list"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    plain=st.booleans(),
)
def test_every_layout_holds_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[Any, ...]], orient: str, encoding: str, plain: bool
) -> None:
    names = ("title", "size", "wild")
    path = tmp_path_factory.mktemp("frame") / "kb.json"
    path.write_bytes(json.dumps(laid_out(names, table, orient, range(len(table))), ensure_ascii=plain).encode(encoding))
    assert rows(JSON_ROWS, path) == [dict(zip(names, row, strict=True)) for row in table]


def test_an_image_file_s_name_is_no_title_beside_a_label(tmp_path: Path) -> None:
    path = written(tmp_path / "kb.json", {"a/1.jpg": {"label": "Fox"}, "a/hen.jpg": {"width": 3}})
    documents = [document for _, document in entries(JSON_ROWS, path) if isinstance(document, Document)]
    assert [(document.id, document.title) for document in documents] == [("a/1.jpg", ""), ("a/hen.jpg", "hen")]


def test_records_of_django_are_their_fields(tmp_path: Path) -> None:
    records = [
        {"model": "contenttypes.contenttype", "pk": 1, "fields": {"app_label": "shop", "model": "lamp"}},
        {"model": "shop.lamp", "pk": 1, "fields": {"name": "Lamp", "kind": 1}},
        {"model": "shop.lamp", "pk": 2, "fields": {"name": "Lantern", "kind": 1}},
        {"model": "shop.kind", "pk": 1, "fields": {"name": "Lights"}},
        {"model": "shop.kind", "fields": {"name": "Tools"}},
    ]
    path = written(tmp_path / "fixtures.json", records)
    assert rows(JSON_ROWS, path) == [
        {"id": 1, "name": "Lamp", "kind": 1},
        {"id": 2, "name": "Lantern", "kind": 1},
        {"id": None, "name": "Lights"},
        {"id": None, "name": "Tools"},
    ]
    assert ids(JSON_ROWS, path) == ["", "", "shop.kind/1", ""]
    engine = [{"model": "V8", "fields": 4, "name": "Engine"}, {"model": "V6", "fields": {"name": "no"}, "year": 1}]
    assert rows(JSON_ROWS, written(tmp_path / "engines.json", engine)) == engine
