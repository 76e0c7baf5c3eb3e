from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexes.formats import read_knowledge_base
from retriever.types import Section

EVQA: dict[str, Any] = {
    "https://en.wikipedia.org/wiki/Alpine_ibex": {
        "title": "Alpine ibex",
        "url": "https://en.wikipedia.org/wiki/Alpine_ibex",
        "section_titles": ["Alpine ibex", "External links (selection)", "Habitat", "Notes and References", "Diet"],
        "section_texts": ["A wild goat.", "See elsewhere.", "Steep rocks.", "[1]", "  \n"],
        "image_urls": ["https://upload.example/a/ibex.jpg", "https://upload.example/b/second.jpg"],
        "image_reference_descriptions": ["An ibex", "Another"],
        "image_section_indices": [0, 2],
    },
    "https://en.wikipedia.org/wiki/Nothing": {
        "title": "Nothing",
        "url": "https://en.wikipedia.org/wiki/Nothing",
        "section_titles": [],
        "section_texts": [],
        "image_urls": [],
        "image_reference_descriptions": [],
        "image_section_indices": [],
    },
}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_evqa_keeps_the_original_section_positions(tmp_path: Path) -> None:
    ibex, nothing = read_knowledge_base(write(tmp_path / "kb.json", EVQA))
    assert ibex.id == ibex.url == "https://en.wikipedia.org/wiki/Alpine_ibex"
    assert ibex.title == "Alpine ibex"
    assert ibex.image == "https://upload.example/a/ibex.jpg"
    assert ibex.sections == (Section("Alpine ibex", "A wild goat.", 0), Section("Habitat", "Steep rocks.", 2))
    assert nothing.sections == () and nothing.image is None


def test_evqa_id_is_the_key_even_when_the_url_differs(tmp_path: Path) -> None:
    entry = EVQA["https://en.wikipedia.org/wiki/Nothing"] | {"url": "https://other.example/Nothing"}
    (entity,) = read_knowledge_base(write(tmp_path / "kb.json", {"key": entry}))
    assert (entity.id, entity.url) == ("key", "https://other.example/Nothing")


def test_jsonl(tmp_path: Path) -> None:
    rows = [
        {"id": "fr", "title": "France", "image": "flag/fr.jpg", "sections": [{"title": "REFERENCES", "text": "x"},
                                                                             {"title": "Flag", "text": "Blue."}]},
        {"id": "xx", "title": "Émpty", "url": "https://e.example", "image": None, "sections": []},
    ]  # fmt: skip
    path = write_lines(tmp_path / "kb.jsonl", rows)
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")  # a blank last line is no entity
    france, empty = read_knowledge_base(path)
    assert france.sections == (Section("Flag", "Blue.", 1),)
    assert (france.image, france.url) == ("flag/fr.jpg", "")
    assert (empty.title, empty.url, empty.image) == ("Émpty", "https://e.example", None)


@pytest.mark.parametrize(("name", "text"), [("kb.json", "{}"), ("kb.jsonl", "")])
def test_empty_knowledge_base(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert list(read_knowledge_base(tmp_path / name)) == []


def test_format_named_or_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "kb.txt", EVQA)
    assert len(list(read_knowledge_base(path, "evqa"))) == 2
    with pytest.raises(ValueError, match=r"kb\.txt.*extension"):
        list(read_knowledge_base(path))
    with pytest.raises(ValueError, match=r"'zim'.*evqa, jsonl"):
        list(read_knowledge_base(path, "zim"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": 3}, "'title'.*expected text.*a number"),
        ({"title": None}, "'title' is missing"),
        ({"section_titles": ["a"], "section_texts": []}, "1 'section_titles' but 0 'section_texts'"),
        ({"section_titles": "a"}, "'section_titles'.*a list.*text"),
        ({"section_titles": ["a", 1], "section_texts": ["b", "c"]}, r"'section_titles\[1\]'"),
        ({"image_urls": [None]}, r"'image_urls\[0\]'.*null"),
        ({"title": "\ud83d"}, "'title': not valid Unicode"),
    ],
)
def test_evqa_errors_name_file_entry_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    entry = EVQA["https://en.wikipedia.org/wiki/Nothing"] | change
    with pytest.raises(ValueError, match=r"kb\.json: entry 'broken'.*" + message):
        list(read_knowledge_base(write(tmp_path / "kb.json", {"broken": entry})))


def test_evqa_files_that_are_no_knowledge_base(tmp_path: Path) -> None:
    path = tmp_path / "kb.json"
    for text, message in [("[1]", "a list"), ("{", "Expecting"), ('{"a": 1, "a": 2}', "'a' occurs twice")]:
        path.write_text(text)
        with pytest.raises(ValueError, match=r"kb\.json: .*" + message):
            list(read_knowledge_base(path))
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match=r"kb\.json: .*utf-8"):
        list(read_knowledge_base(path))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "expected an object, but found a list"),
        ({"title": "t", "sections": []}, "field 'id' is missing"),
        ({"id": "", "title": "t", "sections": []}, "field 'id' is empty"),
        ({"id": "a", "title": "t"}, r"\('a'\): field 'sections' is missing"),
        ({"id": "a", "title": "t", "sections": [{"title": "s"}]}, r"\('a'\): section 0: field 'text' is missing"),
        ({"id": "ok", "title": "t", "sections": []}, r"'ok' occurs a second time"),
    ],
)
def test_jsonl_errors_name_file_line_and_field(tmp_path: Path, row: Any, message: str) -> None:
    path = write_lines(tmp_path / "kb.jsonl", [{"id": "ok", "title": "t", "sections": []}, row])
    with pytest.raises(ValueError, match=r"kb\.jsonl: line 2.*" + message):
        list(read_knowledge_base(path))


def test_atlas_counts() -> None:
    path = Path(__file__).parents[1].parent / "shared" / "atlas" / "kb_wiki.json"
    if not path.exists():
        pytest.skip("the Atlas set is not beside the project")
    entities = list(read_knowledge_base(path))
    assert len(entities) == 320
    assert sum(len(entity.sections) for entity in entities) == 6204 - 1  # one section of the file has no text
