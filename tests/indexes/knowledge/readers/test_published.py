"""The formats of whole articles: values as they are written, and errors that name file, entry and field."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.knowledge_base import hash_knowledge_base
from indexes.knowledge.readers import Entry, Folder
from indexes.knowledge.readers.published import EVQA, INFOSEEK, WIKI6M, entry_of, read_evqa, read_wiki6m
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sections import WORDS
from retriever.types import ArticleImage, Entity, Section
from tests.fakes.reading import read
from tests.paths import SHARED

IBEX = "https://en.wikipedia.org/wiki/Alpine_ibex"
ARTICLE: dict[str, Any] = {
    "title": "Alpine ibex",
    "url": IBEX,
    "section_titles": ["Alpine ibex", "External links (selection)", "Habitat", "Diet"],
    "section_texts": ["A wild goat.", "See elsewhere.", "Steep rocks.", "  \n"],
    "image_urls": ["https://upload.example/a/ibex.jpg", "https://upload.example/b/second.jpg"],
    "image_reference_descriptions": ["An ibex", "Another"],
    "image_section_indices": [0, 2],
}
NOTHING: dict[str, Any] = {"title": "Nothing", "section_titles": [], "section_texts": []}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def folder_of(path: Path) -> Folder:
    return Folder(path.parent, [path])


def evqa(path: Path, **names: str) -> list[Entry]:
    return list(read_evqa(path, Folder(path.parent, [path], names)))


def test_sections_and_images_keep_their_positions(tmp_path: Path) -> None:
    path = write(tmp_path / "kb.json", {IBEX: ARTICLE, "key": NOTHING})
    assert evqa(path) == list(INFOSEEK.read(path, folder_of(path)))
    (place, ibex), (_, nothing) = evqa(path)
    assert place == f"{path}: entry 1 ({IBEX!r})"
    assert ibex == Entity(
        IBEX,
        "Alpine ibex",
        (
            Section("Alpine ibex", "A wild goat.", 0),
            Section("External links (selection)", "See elsewhere.", 1),
            Section("Habitat", "Steep rocks.", 2),
        ),
        "https://upload.example/a/ibex.jpg",
        IBEX,
        (
            ArticleImage("https://upload.example/a/ibex.jpg", 0, "An ibex"),
            ArticleImage("https://upload.example/b/second.jpg", 2, "Another"),
        ),
    )
    assert nothing == Entity("key", "Nothing", (), None, "key")
    turned = write(tmp_path / "turned.json", {IBEX: dict(reversed(ARTICLE.items())), "key": NOTHING})
    assert [entry for _, entry in evqa(turned)] == [ibex, nothing]


def test_images_without_an_address_or_a_section(tmp_path: Path) -> None:
    entry = ARTICLE | {"image_urls": ["", "https://e.example/b.jpg"]}
    odd = entry | {"image_section_indices": [0, 9], "image_reference_descriptions": [None, None]}
    del entry["image_section_indices"], entry["image_reference_descriptions"]
    for _, ibex in evqa(write(tmp_path / "kb.json", {"a": entry, "b": odd})):
        assert isinstance(ibex, Entity)
        assert ibex.images == (ArticleImage("https://e.example/b.jpg"),) and ibex.image == "https://e.example/b.jpg"


def test_names_of_fields(tmp_path: Path) -> None:
    row = NOTHING | {"name": "Other", "qid": "Q1", "page": "https://x.example", "pic": "a.jpg"}
    ((_, entity),) = evqa(write(tmp_path / "kb.json", {"a": row}), title="name", id="qid", url="page", image="pic")
    assert entity == Entity("Q1", "Other", (), "a.jpg", "https://x.example")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": 3}, "'title': expected text, but found a number"),
        ({"title": None}, "'title' is missing"),
        ({"section_titles": ["a"], "section_texts": []}, "1 'section_titles' but 0 'section_texts'"),
        ({"section_titles": "a"}, "'section_titles': expected a list, but found text"),
        ({"section_titles": ["a", 1], "section_texts": ["b", "c"]}, "'section_titles[1]'"),
        ({"image_urls": [None]}, "'image_urls[0]': expected text, but found null"),
        ({"title": "\ud83d"}, "'title': not valid Unicode"),
        ({"image_urls": ["a"], "image_section_indices": [0, 1]}, "1 'image_urls' but 2 'image_section_indices'"),
        ({"image_urls": ["a"], "image_reference_descriptions": ["b", "c"]}, "but 2 'image_reference_descriptions'"),
        ({"image_urls": ["a"], "image_section_indices": [True]}, "'image_section_indices[0]': expected a whole number"),
        ({"image_urls": ["a"], "image_reference_descriptions": [1]}, "'image_reference_descriptions[0]'"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "kb.json", {"broken": NOTHING | change, "fine": NOTHING})
    (place, broken), (_, fine) = evqa(path)
    assert isinstance(fine, Entity) and isinstance(broken, ValueError)
    assert (
        str(broken).startswith(f"{path}: entry 1 ('broken'): ") and message in str(broken) and str(broken)[:9] in place
    )


def test_files_are_recognized_by_their_beginning(tmp_path: Path) -> None:
    def recognized(reader: Any, value: object, *, encoding: str = "utf-8", lines: bool = False) -> bool:
        path = tmp_path / "kb.json"
        path.write_text(json.dumps(value) + "\n" * lines, encoding=encoding)
        return bool(reader.recognizes(path, path.read_bytes()[:4096]))

    assert recognized(EVQA, {IBEX: ARTICLE}) and recognized(EVQA, {"é": ARTICLE}, encoding="utf-16")
    assert recognized(EVQA, {"a": {"text": "word " * 1000} | ARTICLE})  # what tells it comes later
    assert not recognized(EVQA, {"a": {"text": "word " * 1000}}) and not recognized(EVQA, {"a": {"title": "A"}})
    assert not recognized(EVQA, [ARTICLE]) and not recognized(EVQA, {"title": "A"}) and not recognized(EVQA, {})
    assert recognized(WIKI6M, {"wikidata_id": "Q1"}, lines=True)
    assert recognized(WIKI6M, {"wikipedia_title": "A", "wikipedia_content": "word " * 1000, "wikidata_id": "Q1"})
    assert not recognized(WIKI6M, {"id": "Q1"}, lines=True) and not recognized(WIKI6M, [{"wikidata_id": "Q1"}])
    assert not recognized(INFOSEEK, {IBEX: ARTICLE})


def test_wiki6m(tmp_path: Path) -> None:
    summary, rest = "The fox is red.", "\n".join(["It runs far and wide."] * 100)
    rows = [
        {
            "wikidata_id": "Q8332",
            "wikipedia_title": "Red fox",
            "wikipedia_summary": summary,
            "wikipedia_content": f"{summary}\n{rest}",
            "wikipedia_image_url": "https://upload.example/fox.jpg",
        },
        {"wikidata_id": "Q2", "wikipedia_title": "Ä", "wikipedia_content": "== Diet ==\nMice."},
        {"wikipedia_title": "No id"},
    ]
    path = tmp_path / "wiki.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows) + "\n{broken\n")
    (place, fox), (_, other), (_, missing), (last, broken) = read_wiki6m(path, folder_of(path))
    assert isinstance(fox, Entity) and isinstance(other, Entity)
    assert (place, last) == (f"{path}: line 1 ('Q8332')", f"{path}: line 5")
    assert fox.sections[0] == Section("Red fox", summary, 0)
    assert "\n".join(section.text for section in fox.sections[1:]) == rest
    assert all(len(section.text.split()) <= WORDS for section in fox.sections)
    assert fox.images == (ArticleImage("https://upload.example/fox.jpg", 0),) and fox.image == fox.images[0].url
    assert (fox.id, fox.url) == ("Q8332", "https://en.wikipedia.org/wiki/Red_fox")
    assert other.sections == (Section("Diet", "Mice.", 0),) and other.url.endswith("/%C3%84") and other.image is None
    assert str(missing) == f"{path}: line 3: field 'wikidata_id' is missing"
    assert isinstance(broken, ValueError) and str(broken).startswith(f"{path}: line 5: Expecting property name")


def own(row: object, **names: str) -> Entity:
    _, entity = entry_of(row, "kb.jsonl: line 2", names)
    assert isinstance(entity, Entity), entity
    return entity


def test_rows_of_the_projects_own_format() -> None:
    sections = [{"title": "REFERENCES", "text": "x"}, {"title": "Flag", "text": "Blue."}]
    france = {"id": "fr", "title": "France", "image": "flag/fr.jpg", "sections": sections, "names": ["La France", 3]}
    assert own(france) == Entity(
        "fr",
        "France",
        (Section("REFERENCES", "x", 0), Section("Flag", "Blue.", 1)),
        "flag/fr.jpg",
        names=("La France",),
    )
    images = [{"url": "it.jpg", "section": 0, "caption": "Flag"}, "rome.jpg"]
    italy = own({"id": 7, "title": "Italy", "sections": sections, "images": images, "url": "https://e.example"})
    assert (italy.id, italy.url, italy.image) == ("7", "https://e.example", "it.jpg")
    assert italy.images == (ArticleImage("it.jpg", 0, "Flag"), ArticleImage("rome.jpg"))
    both = own({"id": "a", "title": "A", "image": ["b.jpg", "c.jpg"], "sections": []})
    assert (both.image, both.images) == ("b.jpg", (ArticleImage("c.jpg"),))
    assert own({"id": "a", "title": "A", "name": "B", "sections": []}).title == "A"
    assert own({"key": "a", "title": "A", "words": "Text."}, id="key", text="words").sections == (
        Section("A", "Text.", 0),
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "kb.jsonl: line 2: expected an object, but found a list"),
        ({"title": "t", "sections": []}, "field 'id' is missing; if it has another name, pass --map id=NAME"),
        ({"id": "", "title": "t", "sections": []}, "field 'id' is empty"),
        ({"id": "a", "title": "t", "sections": [{"title": "s"}]}, "('a'): section 0: field 'text' is missing"),
        ({"id": "a", "title": "t", "sections": [], "images": [3]}, "image 0: expected an object, but found a number"),
        (
            {"id": "a", "title": "t", "sections": [], "images": [{"url": "b", "section": 0}]},
            "field 'section': 0, but the article has 0 sections",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named(row: Any, message: str) -> None:
    _, error = entry_of(row, "kb.jsonl: line 2", {})
    assert isinstance(error, ValueError) and message in str(error)


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_a_file_is_read_in_pieces_and_may_not_be_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    path = tmp_path / "kb.json"
    rows = {IBEX: ARTICLE, "\u00fc": NOTHING | {"title": '日本 \\ " 😀', "extra": [1.5e3, True, None]}}
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(rows, ensure_ascii=False, indent=1).encode() + b"\n ")
    whole = evqa(path)
    monkeypatch.setattr("indexes.json_streams.CHUNK", chunk)
    assert evqa(path) == whole and str(getattr(whole[1][1], "title", "")) == '日本 \\ " 😀'
    content = path.read_bytes().rstrip()
    for end in (4, 30, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"kb\.json: .*line \d+: .*(?:end|not UTF-8)"):
            evqa(path)


def test_of_entries_with_one_id_the_first_is_kept(tmp_path: Path) -> None:
    text = ", ".join(f'"{key}": {json.dumps(NOTHING)}' for key in "abcb")
    (tmp_path / "kb.json").write_text(f"{{{text}}}")
    with pytest.raises(ValueError, match=r"kb\.json: entry 4 \('b'\): field 'id': 'b' occurs a second time"):
        read(tmp_path / "kb.json")
    skipped = SkippedEntries(0.25)
    entities = read_knowledge_base(tmp_path / "kb.json", skipped=skipped)
    assert [entity.id for entity in entities] == ["a", "b", "c"] and skipped.listed[0]["place"] == "entry 4 ('b')"


def test_the_hash_of_a_folder_sees_names_and_texts(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "a.png").write_text("images count elsewhere")
    hashes = [hash_knowledge_base(tmp_path, "markdown")]
    (tmp_path / "a.png").unlink()
    assert hash_knowledge_base(tmp_path, "markdown") == hashes[0]
    (tmp_path / "a.md").rename(tmp_path / "b.md")
    hashes.append(hash_knowledge_base(tmp_path, "markdown"))
    (tmp_path / "b.md").write_text("# B")
    assert len({*hashes, hash_knowledge_base(tmp_path, "markdown")}) == 3


def test_the_atlas_is_read_whole() -> None:
    path = SHARED / "atlas" / "kb_wiki.json"
    if not path.exists():
        pytest.skip("the Atlas set is not beside the project")
    entities = [entry for _, entry in evqa(path) if isinstance(entry, Entity)]
    assert len(entities) == 320
