from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indexes.knowledge.knowledge_base import guess_format, hash_knowledge_base
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.lines import from_row, to_row
from indexes.store.index import Index
from omgm.__main__ import main
from retriever.types import ArticleImage, Entity, Section
from tests.fakes.reading import read
from tests.paths import SHARED

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
FINE = EVQA["https://en.wikipedia.org/wiki/Nothing"]


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
    assert ibex.images == (
        ArticleImage("https://upload.example/a/ibex.jpg", 0, "An ibex"),
        ArticleImage("https://upload.example/b/second.jpg", 2, "Another"),
    )
    assert nothing.sections == () and nothing.image is None and nothing.images == ()
    assert [from_row(json.loads(json.dumps(to_row(entity)))) for entity in (ibex, nothing)] == [ibex, nothing]


def test_evqa_keys_in_any_order_and_lists_left_out(tmp_path: Path) -> None:
    whole = list(read_knowledge_base(write(tmp_path / "kb.json", EVQA)))
    turned = {url: dict(reversed(entry.items())) for url, entry in EVQA.items()}
    assert list(read_knowledge_base(write(tmp_path / "turned.json", turned), "infoseek")) == whole
    entry = EVQA["https://en.wikipedia.org/wiki/Alpine_ibex"] | {"image_urls": ["", "https://e.example/b.jpg"]}
    odd = entry | {"image_section_indices": [0, 9], "image_reference_descriptions": [None, None]}
    del entry["image_section_indices"], entry["image_reference_descriptions"]
    for row in (entry, odd):  # an empty URL is no image; the index of a missing section is ignored
        (ibex,) = read_knowledge_base(write(tmp_path / "one.json", {"a": row}))
        assert ibex.images == (ArticleImage("https://e.example/b.jpg"),) and ibex.image == "https://e.example/b.jpg"


def test_evqa_id_is_the_key_even_when_the_url_differs(tmp_path: Path) -> None:
    entry = EVQA["https://en.wikipedia.org/wiki/Nothing"] | {"url": "https://other.example/Nothing"}
    (entity,) = read_knowledge_base(write(tmp_path / "kb.json", {"key": entry}))
    assert (entity.id, entity.url) == ("key", "https://other.example/Nothing")


def test_jsonl(tmp_path: Path) -> None:
    rows = [
        {"id": "fr", "title": "France", "image": "flag/fr.jpg", "sections": [{"title": "REFERENCES", "text": "x"},
                                                                             {"title": "Flag", "text": "Blue."}]},
        {"id": "xx", "title": "Émpty", "url": "https://e.example", "image": None, "sections": []},
        {"id": "it", "title": "Italy", "sections": [{"title": "a", "text": "b"}],
         "images": [{"url": "it.jpg", "section": 0, "caption": "Flag"}, {"url": "rome.jpg"}]},
    ]  # fmt: skip
    path = write_lines(tmp_path / "kb.jsonl", rows)
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")  # a trailing blank line is no entity
    france, empty, italy = read_knowledge_base(path)
    assert italy.image == "it.jpg" and italy.images == (ArticleImage("it.jpg", 0, "Flag"), ArticleImage("rome.jpg"))
    assert france.sections == (Section("REFERENCES", "x", 0), Section("Flag", "Blue.", 1))
    assert (france.image, france.url) == ("flag/fr.jpg", "")
    assert (empty.title, empty.url, empty.image) == ("Émpty", "https://e.example", None)


@pytest.mark.parametrize(("name", "text"), [("kb.json", "{}"), ("kb.jsonl", "")])
def test_empty_knowledge_base(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert list(read_knowledge_base(tmp_path / name)) == []


def test_format_named_or_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "kb.txt", EVQA)
    assert len(list(read_knowledge_base(path, "evqa"))) == 2
    assert len(list(read_knowledge_base(path))) == 2
    with pytest.raises(ValueError, match=r"'warc'.*evqa, infoseek, wiki6m, jsonl"):
        list(read_knowledge_base(path, "warc"))
    names = {"a.json": "evqa", "a.json.gz": "evqa", "a.jsonl": "jsonl", "a.JSONL": "jsonl", "a.zim": "zim"}
    for name, format in (names | {"a.parquet": "parquet", "a.ndjson.gz": "jsonl"}).items():
        assert guess_format(tmp_path / name) == format
    with pytest.raises(
        ValueError, match=r"the folder holds no Markdown, pages, JSON, YAML or texts, but 1 file \*\.txt$"
    ):
        guess_format(tmp_path)
    write_lines(tmp_path / "wiki.jsonl", [{"wikidata_id": "Q1"}])
    assert guess_format(tmp_path / "wiki.jsonl") == "wiki6m"


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
        ({"image_urls": ["a"], "image_section_indices": [0, 1]}, "1 'image_urls' but 2 'image_section_indices'"),
        ({"image_urls": ["a"], "image_reference_descriptions": ["b", "c"]}, "but 2 'image_reference_descriptions'"),
        ({"image_urls": ["a"], "image_section_indices": [True]}, r"'image_section_indices\[0\]'.*true or false"),
        ({"image_urls": ["a"], "image_reference_descriptions": [1]}, r"'image_reference_descriptions\[0\]'.*a number"),
    ],
)
def test_evqa_errors_name_file_entry_and_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    entry = EVQA["https://en.wikipedia.org/wiki/Nothing"] | change
    with pytest.raises(ValueError, match=r"kb\.json: entry 2 \('broken'\).*" + message):
        read(write(tmp_path / "kb.json", {"fine": FINE, "broken": entry}))


def test_evqa_files_that_are_no_knowledge_base(tmp_path: Path) -> None:
    path, fine = tmp_path / "kb.json", json.dumps(FINE)
    cases = [
        ("", "byte 0: expected one JSON object, id to entry, but found the file's end"),
        ("{", "byte 1: Expecting value, at the file's end: is it cut short"),
        ('{"a": 1}', r"entry 1 \('a'\): expected an object, but found a number"),
        (f'{{"a": {fine}}} x', r"after entry 1 \('a'\): byte \d+: expected nothing after the object, but found 'x'"),
        (f'{{"a": {fine} "b": {fine}}}', r"after entry 1 \('a'\): byte \d+: expected ',' or '}', but found text"),
        (f'{{"a" {fine}}}', r"entry 1 \('a'\): byte 5: expected ':' after the key, but found an object"),
        (f"{{1: {fine}}}", "byte 2: expected the key of entry 1, but found a number"),
        ('{"a": {"title": "x", "title": "y"}}', r"entry 1 \('a'\).*the key 'title' occurs twice"),
        ('{"a": {"title": "x\n"}}', r"entry 1 \('a'\): byte 18: Invalid control character"),
        ('{"a": ' + '[' * 100_000, r"entry 1 \('a'\)"),
    ]  # fmt: skip
    for text, message in cases:
        path.write_text(text)
        with pytest.raises(ValueError, match=r"kb\.json: " + message):
            read(path, "evqa")


def test_evqa_cut_anywhere(tmp_path: Path) -> None:
    path, whole = tmp_path / "kb.json", json.dumps(EVQA).encode()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"kb\.json: .*byte \d+: .*the file's end"):
            list(read_knowledge_base(path))


def test_evqa_encodings(tmp_path: Path) -> None:
    path, article = tmp_path / "kb.json", json.dumps({"é": FINE | {"title": "É"}}, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + article.encode())  # a byte order mark is not part of the text
    assert [(entity.id, entity.title) for entity in read_knowledge_base(path)] == [("é", "É")]
    path.write_bytes(article.encode("latin-1"))
    with pytest.raises(ValueError, match=r"kb\.json: byte 2: not UTF-8 \(0xe9: .*convert the file"):
        list(read_knowledge_base(path))
    path.write_bytes(article.encode("utf-16"))
    assert [entity.id for entity in read_knowledge_base(path)] == ["é"]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_evqa_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    rows = EVQA | {"ünï": FINE | {"title": '日本 \\ " 😀', "extra": [1.5e3, True, None, -12]}}
    path = tmp_path / "kb.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(rows, ensure_ascii=False, indent=1).encode() + b"\n ")
    whole = list(read_knowledge_base(path))
    assert whole[2].title == '日本 \\ " 😀'
    monkeypatch.setattr("indexes.knowledge.gone.streams.CHUNK", chunk)
    assert list(read_knowledge_base(path)) == whole
    bad = path.read_bytes().replace("日".encode(), b"\xe6\x97\x22")
    path.write_bytes(bad)
    with pytest.raises(ValueError, match=rf"byte {bad.index(bytes([0xE6, 0x97]))}: not UTF-8 \(0xe6"):
        list(read_knowledge_base(path))


def test_of_entries_with_one_id_the_first_is_kept(tmp_path: Path) -> None:
    text = ", ".join(f'"{key}": {json.dumps(FINE)}' for key in ["a", "b", "c", "b"])
    (tmp_path / "kb.json").write_text(f"{{{text}}}")
    with pytest.raises(ValueError, match=r"kb\.json: entry 4 \('b'\): field 'id': 'b' occurs a second time"):
        read(tmp_path / "kb.json")
    skipped = SkippedEntries(0.25)
    found = read_knowledge_base(tmp_path / "kb.json", skipped=skipped)
    assert [entity.id for entity in found] == ["a", "b", "c"]
    assert (skipped.count, skipped.total) == (1, 4)
    assert skipped.listed == [
        {"place": "entry 4 ('b')", "reason": "field 'id': 'b' occurs a second time; every entity needs its own"}
    ]


def test_the_hash_of_a_folder_sees_names_and_texts(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "a.png").write_text("images count elsewhere")
    first = hash_knowledge_base(tmp_path, "markdown")
    (tmp_path / "a.png").unlink()
    assert hash_knowledge_base(tmp_path, "markdown") == first
    (tmp_path / "a.md").rename(tmp_path / "b.md")
    second = hash_knowledge_base(tmp_path, "markdown")
    (tmp_path / "b.md").write_text("# B")
    assert len({first, second, hash_knowledge_base(tmp_path, "markdown")}) == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "expected an object, but found a list"),
        ({"title": "t", "sections": []}, "field 'id' is missing"),
        ({"id": "", "title": "t", "sections": []}, "field 'id' is empty"),
        ({"id": "a", "title": "t", "sections": [{"title": "s"}]}, r"\('a'\): section 0: field 'text' is missing"),
        ({"id": "ok", "title": "t", "sections": []}, r"'ok' occurs a second time"),
        ({"id": "a", "title": "t", "sections": [], "images": [3]}, r"image 0: expected an object, but found a number"),
        ({"id": "a", "title": "t", "sections": [], "images": [{"url": "b", "section": 0}]}, "'section': 0.*0 sections"),
    ],
)
def test_jsonl_errors_name_file_line_and_field(tmp_path: Path, row: Any, message: str) -> None:
    path = write_lines(tmp_path / "kb.jsonl", [{"id": "ok", "title": "t", "sections": []}, row])
    with pytest.raises(ValueError, match=r"kb\.jsonl: line 2.*" + message):
        read(path)


def test_jsonl_cut_or_of_another_encoding(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "kb.jsonl", [{"id": i, "title": "é", "sections": []} for i in "ab"])
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(ValueError, match=r"kb\.jsonl: line 2: "):
        list(read_knowledge_base(path))
    path.write_bytes(b'{"id": "a", "title": "\xe9", "sections": []}')
    with pytest.raises(ValueError, match=r"kb\.jsonl: line 1: not UTF-8 \(0xe9: .* iconv --from-code WINDOWS-1252 "):
        list(read_knowledge_base(path))


def test_rows_of_an_entity_without_images() -> None:
    entity = Entity("a", "A", (Section("A", "text", 0),))
    assert from_row(to_row(entity)) == entity


def test_atlas_counts() -> None:
    path = SHARED / "atlas" / "kb_wiki.json"
    if not path.exists():
        pytest.skip("the Atlas set is not beside the project")
    entities = list(read_knowledge_base(path))
    assert len(entities) == 320
    assert sum(len(entity.sections) for entity in entities) == 6204 - 1  # one section of the file has no text


def test_a_build_of_an_encyclopedia_needs_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lines(tmp_path / "kb.jsonl", [])
    build = ["build-index", "--kb", str(path), "--kb-format", "evqa", "--out", str(tmp_path / "index")]
    assert main(build) == 2
    assert f"images: name the folder with the images ({tmp_path}" in capsys.readouterr().err


def test_a_build_takes_the_images_beside_its_file(tmp_path: Path) -> None:
    Image.new("RGB", (80, 60), "red").save(tmp_path / "fox.png")
    path = write_lines(tmp_path / "kb.jsonl", [{"title": "Fox", "image": "fox.png", "text": "A fox is red."}])
    assert main(["build-index", "--kb", str(path), "--out", str(tmp_path / "index")]) == 0
    assert Index.open(tmp_path / "index").manifest.counts.with_image == 1
