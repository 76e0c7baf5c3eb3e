"""Fields to search by, as they are read from each kind of file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indexes.knowledge.knowledge_base import hash_knowledge_base
from indexes.knowledge.reading import read_knowledge_base
from omgm.__main__ import main
from omgm.commands.index_add import with_fields


def fields_of(path: Path, *definitions: str) -> dict[str, tuple[tuple[str, str], ...]]:
    entities = read_knowledge_base(path, names={"fields": "\n".join(definitions)})
    return {entity.title: entity.fields for entity in entities}


def test_fields_of_rows_pages_and_notes(tmp_path: Path) -> None:
    rows = [
        {"name": "Red fox", "genre": {"name": "mammal"}, "tags": ["wild", "small", "wild"], "age": 5.0, "text": "A."},
        {"name": "Wren", "genre": {"name": "bird"}, "tags": [], "age": None, "text": "B."},
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    assert fields_of(tmp_path / "rows.json", "genre=genre.name", "tags", "age") == {
        "Red fox": (("genre", "mammal"), ("tags", "wild"), ("tags", "small"), ("age", "5")),
        "Wren": (("genre", "bird"),),
    }
    (tmp_path / "table.csv").write_text("title,Height in cm,ok\nFox,40,yes\nWren,10,\n", encoding="utf-8")
    assert fields_of(tmp_path / "table.csv", "height=Height in cm", "ok", "file") == {
        "Fox": (("height", "40"), ("ok", "yes"), ("file", "table.csv")),
        "Wren": (("height", "10"), ("file", "table.csv")),
    }
    notes = tmp_path / "notes"
    (notes / "de").mkdir(parents=True)
    (notes / "fox.md").write_text("---\ncategory: mammal\ndraft: false\n---\n# Fox\n\nThe fox.\n", encoding="utf-8")
    (notes / "de" / "zaunkoenig.md").write_text(
        "---\ncategory: Vogel\n---\n# Zaunkönig\n\nEr singt.\n", encoding="utf-8"
    )
    assert fields_of(notes, "category", "file", "language", "rare?") == {
        "Fox": (("category", "mammal"), ("file", "fox.md")),
        "Zaunkönig": (("category", "Vogel"), ("file", "de/zaunkoenig.md"), ("language", "de")),
    }
    (tmp_path / "own.jsonl").write_text(
        json.dumps({"id": "a", "title": "A", "sections": [], "fields": {"kind": ["x", 1], "other": 2}, "kind": "y"})
        + "\n"
        + json.dumps({"id": "b", "title": "B", "sections": [], "kind": "y"})
        + "\n",
        encoding="utf-8",
    )
    assert fields_of(tmp_path / "own.jsonl", "kind") == {"A": (("kind", "x"), ("kind", "1")), "B": (("kind", "y"),)}
    assert fields_of(tmp_path / "own.jsonl") == {"A": (), "B": ()}


def test_a_field_that_nothing_has_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("title,kind\nFox,mammal\n", encoding="utf-8")
    with pytest.raises(ValueError, match="--field category: no entry has 'category'; fields are title, kind"):
        fields_of(path, "category")
    digests = {hash_knowledge_base(path, None, names) for names in ({}, {"fields": "kind"}, {"fields": "kind?"})}
    assert len(digests) == 3


def test_fields_of_additions_are_those_of_the_index() -> None:
    assert with_fields({}, []) == {}
    assert with_fields({"title": "t"}, ["a", "b"]) == {"title": "t", "fields": "a?\nb?"}
    assert with_fields({"fields": "b=c.d"}, ["a", "b"]) == {"fields": "a?\nb=c.d"}
    for fields, message in ((["a"], "its fields are a"), ([], "it was built without --field")):
        with pytest.raises(ValueError, match=f"--field b: the index has no such field; {message}"):
            with_fields({"fields": "b"}, fields)


def test_builds_additions_and_questions_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "title,kind,description\n{},The {} eats {} in winter.\n"
    (tmp_path / "table.csv").write_text(text.format("Fox,mammal", "fox", "mice") + "Wren,bird,The wren eats flies.\n")
    index = str(tmp_path / "index")
    main(
        [
            "build-index",
            "--kb",
            str(tmp_path / "table.csv"),
            "--images",
            str(tmp_path),
            "--out",
            index,
            "--field",
            "kind",
        ]
    )
    (tmp_path / "more.csv").write_text(text.format("Owl,bird", "owl", "voles"))
    main(["index", "add", "--index", index, str(tmp_path / "more.csv")])
    main(["index", "info", "--index", index])
    assert "column fields: 3 rows of kind" in capsys.readouterr().out
    main(["ask", "--index", index, "--json", "--filter", "kind=bird", "What does the owl eat?"])
    found = json.loads(capsys.readouterr().out)
    assert {one["title"] for one in found["candidates"]} <= {"Owl", "Wren"} and found["filter"] == {"kind": ["bird"]}
    assert found["candidates"][0]["title"] == "Owl"
    main(["index", "verify", "--index", index])
    main(["index", "compact", "--index", index])
    capsys.readouterr()
    for asked, message in (
        ("kind=fish", "filter.kind: no entity has 'fish'; values are 'bird', 'mammal'"),
        ("kind", "--filter must be FIELD=VALUE, such as category=bird, got 'kind'"),
    ):
        assert main(["ask", "--index", index, "--filter", asked, "What does the owl eat?"]) == 2
        assert message in capsys.readouterr().err
