"""Fields under names of others: given ones, and those of published data."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.knowledge_base import guess_format, hash_knowledge_base
from indexes.knowledge.understanding.fields import parse_names
from retriever.types import ArticleImage, Entity, Section
from tests.fakes.reading import read
from tests.fakes.rows import write_csv, write_jsonl

WIKIPEDIA = {"id": "12", "url": "https://en.wikipedia.org/wiki/Fox", "title": "Fox", "text": "A fox.\n\nIt is red."}


def parquet(path: Path, *rows: dict[str, Any]) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


@pytest.mark.parametrize("write", [write_jsonl, parquet])
def test_the_columns_of_wikimedia_wikipedia(tmp_path: Path, write: Any) -> None:
    (fox,) = read(write(tmp_path / ("kb.jsonl" if write is write_jsonl else "kb.parquet"), WIKIPEDIA))
    assert (fox.id, fox.title, fox.url) == ("12", "Fox", "https://en.wikipedia.org/wiki/Fox")
    assert fox.sections == (Section("Fox", "A fox.\nIt is red.", 0),)


@pytest.mark.parametrize("write", [write_jsonl, parquet])
def test_whole_numbers_as_ids_and_usual_names(tmp_path: Path, write: Any) -> None:
    rows = [
        {"id": 7, "Label": "Fox", "text": "Red.", "logo": {"path": "fox.png", "bytes": None}},
        {"id": 8, "Label": "Hen", "text": "White.", "logo": {"path": "hen.png", "bytes": None}},
    ]
    fox, hen = read(write(tmp_path / ("kb.jsonl" if write is write_jsonl else "kb.parquet"), *rows))
    assert (fox.id, fox.title, fox.image, hen.id) == ("7", "Fox", "fox.png", "8")


def test_dates_and_decimal_numbers_of_parquet_are_facts(tmp_path: Path) -> None:
    row = {"title": "Fox", "born": date(1990, 5, 1), "seen": datetime(2020, 1, 2, 3, 4, 5), "weight": Decimal("4.50")}
    (fox,) = read(parquet(tmp_path / "kb.parquet", row))
    assert fox.sections == (Section("Facts", "Born: 1990-05-01\nSeen: 2020-01-02 03:04:05\nWeight: 4.50", 0),)


@pytest.mark.parametrize(
    ("title", "name", "taken"),
    [
        ("Professor", "Ann Potter", "Ann Potter"),
        ("Sprout of Rebirth", "Collei", "Collei"),
        ("Mouse", "pikachu", "pikachu"),
        ("Astromech droid", "R2-D2", "R2-D2"),
        ("Kiwix", "kiwix", "Kiwix"),
        ("Red fox", "RedFox", "Red fox"),
        ("ACME Rocket 2", "acme-rocket", "ACME Rocket 2"),
        ("Bowl", "1984.21", "Bowl"),
        ("Bowl", "item_12", "Bowl"),
        ("Spotted sandpiper", "ACTMCL", "Spotted sandpiper"),
        ("GREEK GOD", "ARES", "ARES"),
        ("Bowl", "", "Bowl"),
        ("Bowl", {"en": "A", "fr": "B"}, "Bowl"),
    ],
)
def test_of_a_title_and_a_name_that_is_taken_which_people_use(
    tmp_path: Path, title: str, name: str | dict[str, str], taken: str
) -> None:
    (entity,) = read(write_jsonl(tmp_path / "kb.jsonl", {"title": title, "name": name, "text": "Text."}))
    assert entity.title == taken
    (mapped,) = read(write_jsonl(tmp_path / "kb.jsonl", {"title": title, "name": name, "text": "Text."}), title="title")
    assert mapped.title == title
    (own,) = read(write_jsonl(tmp_path / "kb.jsonl", {"id": "1", "title": title, "name": name, "sections": []}))
    assert own.title == title


def test_names_of_ones_own(tmp_path: Path) -> None:
    row = {"key": 3, "title": "wrong", "names": {"en": "Fox"}, "pics": ["a.png", "b.png"], "about": "== Diet ==\nMice."}
    path = write_jsonl(tmp_path / "kb.jsonl", row)
    (fox,) = read(path, id="key", title="names.en", image="pics", text="about")
    assert (fox.id, fox.title, fox.image) == ("3", "Fox", "a.png")
    assert fox.images == (ArticleImage("b.png"),)
    assert fox.sections == (Section("Diet", "Mice.", 0), Section("Facts", "Title: wrong", 1))
    with pytest.raises(ValueError, match=r"kb\.jsonl: --map image=pix: no entry has it; fields are key, title, "):
        read(path, image="pix")
    with pytest.raises(ValueError, match=r"line 1 \('3'\): field 'nme' is missing; .*; it has key, title"):
        read(path, id="key", title="nme")


def test_names_in_the_formats_of_the_data_sets(tmp_path: Path) -> None:
    entry = {"title": "T", "label": "L", "section_titles": [], "section_texts": [], "thumb": "t.png"}
    (tmp_path / "kb.json").write_text(json.dumps({"a": entry}))
    (entity,) = read(tmp_path / "kb.json", title="label", image="thumb")
    assert (entity.id, entity.title, entity.image) == ("a", "L", "t.png")
    page = {"wikidata_id": "Q1", "wikipedia_title": "T", "label": "L", "wikipedia_content": "Text."}
    (entity,) = read(write_jsonl(tmp_path / "wiki.jsonl", page), title="label")
    assert (entity.id, entity.title) == ("Q1", "L")


def test_json_arrays_and_json_lines_under_the_name_json(tmp_path: Path) -> None:
    path = tmp_path / "kb.json"
    path.write_text("\ufeff" + json.dumps([WIKIPEDIA, WIKIPEDIA | {"id": 13}], indent=1), encoding="utf-8")
    assert guess_format(path) == "jsonl" and [entity.id for entity in read(path)] == ["12", "13"]
    path.write_text(json.dumps([WIKIPEDIA, {"id": 13}]))
    with pytest.raises(ValueError, match=r"kb\.json: item 2 \('13'\): no title; .* pass --map title=NAME; it has id$"):
        read(path)
    path.write_text(json.dumps([WIKIPEDIA])[:-9])
    with pytest.raises(ValueError, match=r"kb\.json: item 1: byte \d+: .*cut short"):
        read(path)
    assert guess_format(write_jsonl(path, WIKIPEDIA, WIKIPEDIA | {"id": "13"})) == "jsonl"
    assert len(read(path)) == 2
    path.write_text(json.dumps({"a": {"title": "T", "section_titles": [], "section_texts": []}}))
    assert guess_format(path) == "evqa"


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("title", "expected FIELD=NAME, such as id=name, got 'title'"),
        ("title=", "expected FIELD=NAME"),
        ("heading=name", "unknown field 'heading'; fields are id, title, url, image, text"),
    ],
)
def test_bad_maps(pair: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_names([pair])
    assert parse_names(["title=display_name", "image=a.b=c"]) == {"title": "display_name", "image": "a.b=c"}


def test_names_are_part_of_what_an_index_is_made_from(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "kb.jsonl", WIKIPEDIA)
    plain = hash_knowledge_base(path, "jsonl")
    assert hash_knowledge_base(path, "jsonl", {}) == plain
    mapped = hash_knowledge_base(path, "jsonl", {"title": "id", "url": "id"})
    assert mapped != plain and mapped == hash_knowledge_base(path, "jsonl", {"url": "id", "title": "id"})


def test_other_names_of_an_entity(tmp_path: Path) -> None:
    fox, hen = read(
        write_jsonl(tmp_path / "kb.jsonl", WIKIPEDIA | {"names": ["Foxes", "Vulpes"]}, WIKIPEDIA | {"id": "2"})
    )
    assert (fox.names, hen.names) == (("Foxes", "Vulpes"), ())
    (other,) = read(
        write_jsonl(tmp_path / "kb.jsonl", WIKIPEDIA | {"names": {"de": "Fuchs"}})
    )  # another format's field
    assert other.names == ()


def one_of(folder: Path, row: Any) -> Entity:
    (folder / "kb.json").write_text(json.dumps([row]), encoding="utf-8")
    (entity,) = read(folder / "kb.json")
    return entity


def test_json_ld(tmp_path: Path) -> None:
    row = {
        "@context": "https://schema.org",
        "@id": "https://a.example/#tea",
        "@type": "Recipe",
        "name": {"@value": "Tea", "@language": "en"},
        "author": {"@type": "Person", "name": "Ann"},
        "publisher": {"@type": "Organization", "logo": {"@type": "ImageObject", "url": "https://a.example/logo.jpg"}},
        "step": {"@type": "HowToStep", "photo": {"@type": "ImageObject", "contentUrl": "https://a.example/tea.jpg"}},
        "yield": {"@value": "2 cups"},
    }
    tea = one_of(tmp_path, row)
    assert (tea.id, tea.title, tea.image) == ("https://a.example/#tea", "Tea", "https://a.example/tea.jpg")
    assert tea.sections == (Section("Facts", "Type: Recipe\nAuthor: Ann\nYield: 2 cups", 0),)


def test_the_manifest_of_a_iiif_book(tmp_path: Path) -> None:
    painted = {"type": "Image", "id": "https://a.example/1/full/max/0/default.jpg", "format": "image/jpeg"}
    manifest = {
        "id": "https://a.example/book",
        "type": "Manifest",
        "label": {"en": ["A book"], "de": ["Das Buch"]},
        "summary": {"en": ["It is red."]},
        "metadata": [
            {"label": {"en": ["Author"]}, "value": {"none": ["Ann Potter"]}},
            {"label": {"en": ["Languages"]}, "value": ["Dutch", "Latin"]},
        ],
        "provider": [{"type": "Agent", "label": {"en": ["A library"]}, "logo": [{"type": "Image", "id": "l.png"}]}],
        "items": [{"type": "Canvas", "items": [{"type": "AnnotationPage", "items": [{"body": painted}]}]}],
    }
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "book.json").write_text(json.dumps(manifest), encoding="utf-8")
    (book,) = read(folder)
    assert (book.title, book.names, book.image) == ("A book", ("Das Buch",), painted["id"])
    assert book.sections[:2] == (
        Section("A book", "It is red.", 0),
        Section("Metadata", "Author: Ann Potter\nLanguages: Dutch, Latin", 1),
    )


def test_the_results_of_a_query_of_wikidata(tmp_path: Path) -> None:
    row = {
        "item": {"type": "uri", "value": "http://a.example/Q8332"},
        "image": {"type": "uri", "value": "http://a.example/Red%20fox.jpg"},
        "itemLabel": {"type": "literal", "value": "Red fox", "xml:lang": "en"},
        "mass": {"type": "literal", "value": "6", "datatype": "http://a.example/decimal"},
    }
    path = tmp_path / "query.json"
    path.write_text(json.dumps({"head": {"vars": list(row)}, "results": {"bindings": [row]}}), encoding="utf-8")
    (fox,) = read(path)
    assert (fox.title, fox.image) == ("Red fox", "http://a.example/Red%20fox.jpg")
    assert fox.sections == (Section("Facts", "Mass: 6", 0),)


def test_an_entity_of_wikibase(tmp_path: Path) -> None:
    labels = {"en": {"language": "en", "value": "Fox"}, "fr": {"language": "fr", "value": "Renard"}}
    fox = one_of(tmp_path, {"id": "Q8332", "label": labels})
    assert (fox.id, fox.title, fox.names) == ("Q8332", "Fox", ("Renard",))


def test_pairs_of_names_and_values(tmp_path: Path) -> None:
    row = {
        "name": "Fox",
        "sizes": [{"name": "Height", "value": 40, "unit": "cm"}, {"name": "Mass", "value": [6, 7]}],
        "attributes": [{"trait_type": "Fur", "value": "Red"}, {"trait_type": "Eyes", "value": "Amber"}],
    }
    sizes, attributes = one_of(tmp_path, row).sections
    assert sizes == Section("Sizes", "Height: 40 (unit: cm)\nMass: 6, 7", 0)
    assert attributes == Section("Attributes", "Fur: Red\nEyes: Amber", 1)


def test_images_in_the_html_of_any_column(tmp_path: Path) -> None:
    card = {"country": "France", "flag": '<img src="fr.svg" />', "map": "Here: <IMG src='fr.png'>", "tags": "Europe"}
    (france,) = read(write_csv(tmp_path / "cards.csv", card))
    assert (france.title, france.image, france.images) == ("France", "fr.svg", (ArticleImage("fr.png"),))
    assert france.sections == (Section("Facts", "Map: Here:\nTags: Europe", 0),)


RECORDS = """<wrap xmlns="http://a.example/records">
<record><recID type="local">7</recID><info><kind>bowl</kind>
  <titleWrap><titleSet><value lang="en">Blue bowl</value><value lang="nl">Kom</value></titleSet></titleWrap></info>
  <media><resource><link>https://a.example/7</link></resource></media></record>
<record><recID type="local">8</recID><info><kind>vase</kind>
  <titleWrap><titleSet type="main"><value>Tall vase</value><source>A book</source></titleSet></titleWrap></info>
  <media><resource><link>https://a.example/8</link><size>3</size></resource></media></record>
</wrap>"""


def test_fields_deep_in_xml(tmp_path: Path) -> None:
    path = tmp_path / "records.xml"
    path.write_text(RECORDS, encoding="utf-8")
    with pytest.raises(ValueError, match=r"no title; .*; it has recID, info\.kind, info\.titleWrap, media"):
        read(path)
    bowl, vase = read(path, title="info.titleWrap.titleSet.value", image="media.resource.link", id="recID")
    assert (bowl.id, bowl.title, bowl.image) == ("7", "Blue bowl", "https://a.example/7")
    assert (vase.id, vase.title, vase.image) == ("8", "Tall vase", "https://a.example/8")
    assert "Info, kind: bowl" in bowl.sections[0].text


def test_an_object_that_is_nested_deeply_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kb.jsonl"
    path.write_text('{"name": "Fox", "a": ' + '{"a": [' * 240 + "1" + "]}" * 240 + "}\n", encoding="utf-8")
    (fox,) = read(path)
    assert (fox.title, fox.image) == ("Fox", None)
    path.write_text('{"a": ' + '{"a": [' * 240 + "1" + "]}" * 240 + "}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"no title; .*; it has a"):
        read(path)
