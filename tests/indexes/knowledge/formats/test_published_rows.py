"""Rows in formats of the web and of museums: JSON-LD, SPARQL results, IIIF, LIDO, Anki cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retriever.types import ArticleImage, Entity, Section
from tests.fakes.reading import read
from tests.fakes.rows import write_csv


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
