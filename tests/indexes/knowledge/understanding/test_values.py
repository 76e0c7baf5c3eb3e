"""What labeled values say: title, names, text, facts, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

import pytest

from indexes.knowledge.document import Document
from indexes.knowledge.understanding.facts import label_of
from indexes.knowledge.understanding.values import Understood, fields_listed, shape_of, understood
from tests.fakes.values import dropped, facts, images, read, sections

PROSE = "is found in open woods, on sunny slopes and beside old roads of the north."


KEYS = (
    *("id", "name", "url", "text", "image", "en", "de", "author", "parts", "photos", "caption", "value", "label"),
    *("thumb", "large", "type", "slug", "license", "color", "name_en", "name_de", "other", "names", "file", "src"),
)


def test_names_in_several_languages_and_values_of_all_types() -> None:
    row = {
        "id": 1,
        "name": {"japanese": "キツネ", "english": "Fox", "french": "Renard"},
        "kinds": ["Land", "Red"],
        "base": {"HP": 45, "Attack": 4.0},
        "isWild": True,
        "homepage": "https://a.example/fox",
        "empty": None,
        "none": "N/A",
    }
    (fox,) = read([row])
    assert (fox.id, fox.title, set(fox.names)) == ("1", "Fox", {"キツネ", "Renard"})
    assert facts(fox) == ["Kinds: Land, Red", "Base, HP: 45", "Base, attack: 4", "Is wild: yes", "None: N/A"]
    assert list(fox.left_out) == [("addresses and ids", "https://a.example/fox")]
    assert ("base.HP", "45") in fox.named_after


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("yearOfBirth", "Year of birth"), ("leaf_margin", "Leaf margin"), ("taxonID", "Taxon ID"),
        ("photoURLs", "Photo URLs"), ("heightCM", "Height CM"), ("GDPPerCapita", "GDP per capita"),
        ("isDIY", "Is DIY"), ("frequencyMHz", "Frequency MHz"), ("energy_kWh", "Energy kWh"), ("mAh", "MAh"),
        ("pH", "PH"), ("ISBN", "ISBN"), ("Length in cm", "Length in cm"),
    ],
)  # fmt: skip
def test_the_name_of_a_field_is_read_as_words(name: str, label: str) -> None:
    assert label_of(name) == label


def test_long_values_and_lists_of_described_things_are_sections() -> None:
    row = {
        "name": "Fox",
        "desc": "<p>It is <b>red</b>.</p><h2>Den</h2><p>A hole.</p>",
        "how_it_hunts": "word " * 60,
        "calls": [{"name": "Bark", "desc": "At night."}, {"name": "Scream", "desc": "In winter."}],
        "words": {"de": {"name": "Fuchs"}, "fr": {"name": "Renard"}},
        "kin": [{"id": 3, "name": "Wolf"}, {"id": 4, "name": "Dog"}],
    }
    (fox,) = read([row])
    assert sections(fox) == [
        ("", "It is red.\n== Den ==\nA hole."),
        ("How it hunts", ("word " * 60).strip()),
        ("Calls", "Bark: At night.\nScream: In winter."),
        ("Facts", "Words: Fuchs, Renard\nKin: Wolf, Dog"),
    ]


def test_a_field_is_a_section_or_a_fact_for_all_alike() -> None:
    rows = [{"name": f"T {number}", "text": "Text.", "history": "It is old. " * number} for number in (1, 1, 40)]
    shape = shape_of([Document(values=row) for row in rows], {})
    for number, row in enumerate(rows):
        assert [title for title, _ in sections(understood(row, shape, str(number)), shape)] == ["", "History"]


@pytest.mark.parametrize(
    ("rows", "titles"),
    [
        ([{"code": "A1", "Airport name": "Adak"}, {"code": "B2", "Airport name": ""}], ["Adak", ""]),
        ([{"Art": "Fuchs", "Länge": 70}], ["Fuchs"]),
        ([{"Länge": 70, "Breite": 20}], [""]),
        ([{"emoji": s, "description": w, "category": "Animals"} for s, w in ("🦊a", "🐔b")], ["a", "b"]),
        ([{"group": "Birds", "species": one} for one in ("Hen", "Owl")], ["Hen", "Owl"]),
        ([{"make": "Atari" if n else "Oric", "model": f"M{n % 7}", "note": "Old" * (40 * n)} for n in range(9)],
         [f"M{n % 7}" for n in range(9)]),
        ([{"brand": "Atari" if n else "Oric", "caption": f"Photo {n % 3}"} for n in range(9)],
         ["Oric", *["Atari"] * 8]),
        ([{"recId": f"R{n}", "titles": {"main": {"title": "A"}}} for n in range(9)], [""] * 9),
        ([{"recId": f"R{n}", "height": n} for n in range(9)], [f"R{n}" for n in range(9)]),
        ([{"photoId": f"fox-{n}", "format": "jpg"} for n in range(9)], [f"fox-{n}" for n in range(9)]),
        ([{"group": "Birds", "kind": "Hen"}, {"group": "Birds", "kind": "Hen", "x": 1}], ["Birds", "Birds"]),
        ([{"a.name": "Afghani", "country": "Afghanistan"}, {"country": "Albania"}, {"country": "Cuba"}],
         ["Afghanistan", "Albania", "Cuba"]),
        ([{"Object ID": 1, "Object Name": "Jug", "Title": "Blue Jug"}, {"Object ID": 2, "Object Name": "Bowl"}],
         ["Blue Jug", "Bowl"]),
        ([{"Common name": "Elk", "Latin name": "Alces"}, {"Latin name": "Castor"}, {"x": "a"}], ["Elk", "Castor", ""]),
        ([{"type": "Feature", "geometry": {}, "properties": {"name": "Old mill", "built": 1803}}], ["Old mill"]),
        ([{"id": "wall", "strings": {"name": {"ar-EG": "سور", "en-GB": "Wall"}}}], ["Wall"]),
        ([{"file": f"{n}.jpg", "caption": f"A loon on lake {n}", "labels": ["bird"]} for n in range(2)],
         ["A loon on lake 0", "A loon on lake 1"]),
        ([{"title": "Nan"}, {"title": "NA"}, {"title": "None"}], ["Nan", "NA", "None"]),
    ],
)  # fmt: skip
def test_the_title_is_found(rows: list[dict[str, Any]], titles: list[str]) -> None:
    assert [entity.title for entity in read(rows)] == titles


@pytest.mark.parametrize(
    ("keys", "titles"),
    [
        (["Blue Teapot", "Boeing 747"], ["", ""]),  # then they are called by their keys
        (["evo-item/metal-coat", "trona"], ["", ""]),
        (["Дом", "Храм Солнца", "Собор"] + ["Ворота"] * 17, [""] * 20),
        (["deu", "fra"], ["Maker 0", "Maker 1"]),
        (["KJFK", "EDDM"], ["Maker 0", "Maker 1"]),
        (["Q42", "Q182910"], ["Maker 0", "Maker 1"]),
        (["item_0113", "item_0114"], ["Maker 0", "Maker 1"]),
        (["heron.jpg", "fox.jpg"], ["Maker 0", "Maker 1"]),
        (["teapot"], ["Maker 0"]),
        (["", ""], ["Maker 0", "Maker 1"]),
    ],
)
def test_keys_that_are_names_are_titles_rather_than_the_first_text(keys: list[str], titles: list[str]) -> None:
    rows = [{"maker": f"Maker {number}", "made": 1890 + number} for number in range(len(keys))]
    for more, expected in (({}, titles), ({"label": "A"}, ["A"] * len(keys)), ({"Ship name": "B"}, ["B"] * len(keys))):
        shape = shape_of([Document(values=row | more, id=key) for row, key in zip(rows, keys, strict=True)], {})
        assert [understood(row | more, shape, "").title for row in rows] == expected


def test_fields_of_json_ld_are_known_without_the_prefix_of_their_namespace() -> None:
    row = {
        "@type": "schema:Thing",
        "o:title": "Red fox",
        "dcterms:description": [{"type": "literal", "@value": "It has a white tip."}, {"@value": "It barks."}],
        "schema:image": {"@id": "fox.jpg"},
        "dwc:bodyMass": "6 kg",
        "16:9": "yes",
    }
    (fox,) = read([row])
    assert (fox.title, images(fox)) == ("Red fox", ["fox.jpg"])
    assert sections(fox) == [
        ("", "It has a white tip.\nIt barks."),
        ("Facts", "Type: schema:Thing\nDwc:body mass: 6 kg\n16:9: yes"),
    ]
    assert read([{"@type": "A", "dc:title": "A", "title": "B", "x:name": "C"}])[0].title == "B"
    (church,) = read(
        [{"@id": "way/1", "seamark:name": "Light", "Name": "St. Anne", "building:levels": 3, "a:image": "b"}]
    )
    assert (church.title, facts(church)) == ("St. Anne", ["Seamark:name: Light", "Building:levels: 3", "A:image: b"])


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
def test_of_a_title_and_a_name_that_is_taken_which_people_use(title: str, name: Any, taken: str) -> None:
    row = {"title": title, "name": name, "text": "Text."}
    assert read([row])[0].title == taken
    assert read([row], title="title")[0].title == title


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("<I>", "<I>"),
        ("<a>: The Anchor element", "<a>: The Anchor element"),
        ("<br>", "<br>"),
        ("<i>Felis  catus</i>", "Felis catus"),
        ("Red<br>apple", "Red apple"),
        ("R&amp;D", "R&D"),
    ],
)
def test_tags_that_are_words_of_a_title_stay(written: str, title: str) -> None:
    assert read([{"title": written, "text": "Some text."}])[0].title == title


def test_names_of_ones_own() -> None:
    row = {"key": 3, "title": "wrong", "names": {"en": "Fox"}, "pics": ["a.png", "b.png"], "about": "== Diet ==\nMice."}
    (fox,) = read([row], id="key", title="names.en", image="pics", text="about")
    assert (fox.id, fox.title, images(fox), fox.text) == ("3", "Fox", ["a.png", "b.png"], [("", "== Diet ==\nMice.")])
    assert facts(fox) == ["Title: wrong"]
    with pytest.raises(ValueError, match=r"kb\.json: item 1: field 'pics': expected text, but found a number"):
        read([{"title": "Fox", "pics": 3}], image="pics")
    assert fields_listed(row) == "key, title, names.en, pics, about"
    assert fields_listed({f"f{number}": 1 for number in range(40)}).endswith("f29, …")
    with pytest.raises(ValueError, match="field 'title': not valid Unicode"):
        read([{"title": "x\ud83d"}])


def test_without_a_usual_name_the_longest_prose_is_the_text() -> None:
    note = "Every row says the same words about where all of this was read and when it was read."
    names = ("Iris", "Phlox", "Aster")
    rows = [{"name": name, "note": note, "habitat": f"{name} {PROSE}", "leaves": "Long."} for name in names]
    assert read(rows)[0].text == [("", f"Iris {PROSE}")]
    assert read([{"name": "Fox", "blurb": "Red.", "habitat": f"It {PROSE}"}])[0].text == [("", "Red.")]


def test_a_text_in_several_forms_is_not_a_fact_as_well() -> None:
    page = {
        "id": 1,
        "title": {"rendered": "Fox &#038; cub"},
        "content": {"rendered": "<p>Red.</p>", "protected": False},
    }
    gull = {"id": 3, "title": "Gull", "text": {"de": "Weiß.", "en": "White."}}
    owl = {"id": 2, "title": "Owl", "text": ["It is grey.", "It flies."]}
    found = read([page, owl, gull])
    assert [one.title for one in found] == ["Fox & cub", "Owl", "Gull"]
    assert [sections(one) for one in found] == [
        [("", "Red."), ("Facts", "Content, protected: no")],
        [("", "It is grey.\nIt flies.")],
        [("", "White.")],
    ]
    assert list(found[2].left_out) == [("texts in other languages", "Weiß.")]
    parts = {"name": "Bolete", "description": {"cap": "<p>Whitish.</p>", "stem": "Red.", "notes": ""}}
    assert facts(read([parts])[0]) == ["Description, cap: Whitish.", "Description, stem: Red."]


def test_a_caption_is_title_and_text() -> None:
    rows = [{"file_name": f"{number}.jpg", "text": f"a photo of an owl on branch {number}"} for number in range(2)]
    assert [(one.title, one.text) for one in read(rows)] == [(row["text"], [("", row["text"])]) for row in rows]


@pytest.mark.parametrize(
    ("columns", "title", "text", "names"),
    [
        ({"name_en": "Fox", "name_de": "Fuchs", "text_de": "Rot.", "text_en": "Red."}, "Fox", "Red.", ("Fuchs",)),
        ({"title:fr": "Renard", "title:en": "Fox", "text": "Red."}, "Fox", "Red.", ("Renard",)),
        ({"name": "Fox", "name (de)": "Fuchs", "text": "Red."}, "Fox", "Red.", ("Fuchs",)),
        ({"nameEn": "Fox", "nameDe": "Fuchs", "textEn": "Red.", "textDe": "Rot."}, "Fox", "Red.", ("Fuchs",)),
        ({"name_de": "Fuchs", "name_nl": "Vos", "text_nl": "Rood.", "text_de": "Rot."}, "Fuchs", "Rot.", ("Vos",)),
        ({"name": {"de": "Fuchs", "en": "Fox"}, "text": {"en": "Red.", "de": "Rot."}}, "Fox", "Red.", ("Fuchs",)),
        ({"name": "Fox", "text": [{"@language": "de", "@value": "Rot."}, {"@language": "en", "@value": "Red."}]},
         "Fox", "Red.", ()),
    ],
)  # fmt: skip
def test_several_languages_are_one_thing(
    columns: dict[str, Any], title: str, text: str, names: tuple[str, ...]
) -> None:
    more = {key: "" for key in columns if key.endswith(("nl", "Nl"))}
    fox, *_ = read([columns, {**columns, **more}])
    assert (fox.title, fox.text, fox.names, fox.facts) == (title, [("", text)], names, [])
    others = dropped(fox).get("texts in other languages", [])
    assert others == ([] if isinstance(columns.get("text"), str) else [{"Red.": "Rot.", "Rot.": "Rood."}[text]])


def test_names_of_languages_are_no_translations() -> None:
    rows = [{"name": "Belgium", "languages": {"deu": "German", "fra": "French"}, "demonym": {"eng": "Belgian"}}]
    brand = {"name": "Just Eat", "aliases": {"loc": {"de-DE": "Lieferando", "en-AU": "Menulog"}}}
    assert facts(read(rows)[0]) == ["Languages, deu: German", "Languages, fra: French", "Demonym: Belgian"]
    assert facts(read([brand])[0]) == ["Aliases, loc, de DE: Lieferando", "Aliases, loc, en AU: Menulog"]


def test_values_that_repeat_are_no_ids() -> None:
    rows = [{"ID": f"{kind} identity", "name": f"Hero {n}"} for n, kind in enumerate(("Secret", "Public") * 9)]
    hero, *_ = read(rows)
    assert (hero.id, hero.title, facts(hero)) == ("", "Hero 0", ["ID: Secret identity"])
    assert read(rows, id="ID")[0].id == "Secret identity"


def test_columns_that_only_look_like_languages() -> None:
    row = {"name": "Fox", "value_hi": "High end", "value_lo": "Low end", "size_in": "4", "year_de": "1990", "year": 3}
    assert facts(read([row])[0]) == [
        *("Value hi: High end", "Value lo: Low end", "Size in: 4", "Year de: 1990", "Year: 3"),
    ]


def test_what_is_left_out_is_said_with_its_reason() -> None:
    row = {
        "id": 7,
        "title": "Fox",
        "text": "A red fox.",
        "maker": {"name": "Ann Potter", "id": "p 7"},
        "numbers": list(range(40)),
        "words": [f"w{number}" for number in range(40)],
        "deep": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": "far down"}}}}}}}},
        "twice": ["one", "one"],
        "license": "CC0 as is",
        "_v": "3",
        "layout": "item",
        "slug": "red-fox",
        "format": "image/jpeg",
        "object_location": "/objects/a/fox.tifx",
        "audio": "bark.mp3",
        "code": "A" * 300,
        "ratio": "3/4",
        "scale": "and/or",
    }
    (fox,) = read([row])
    words = f"Words: {', '.join(f'w{n}' for n in range(40))}"
    assert facts(fox) == ["Maker: Ann Potter", words, "Twice: one", "Ratio: 3/4", "Scale: and/or"]
    assert dropped(fox) == {
        "addresses and ids": ["p 7"],
        "long lists of numbers": [" ".join(map(str, range(40)))],
        "values nested too deeply": ["far down"],
        "licenses and rights": ["CC0 as is"],
        "settings": ["item", "red-fox"],
        "names and types of files": ["image/jpeg", "/objects/a/fox.tifx", "bark.mp3"],
        "files within values": ["A" * 300],
    }


def test_json_ld_iiif_and_wikidata() -> None:
    tea, wikidata, query = (
        read([row])[0]
        for row in (
            {
                "@context": "https://schema.org",
                "@id": "https://a.example/#tea",
                "@type": "Recipe",
                "name": {"@value": "Tea", "@language": "en"},
                "author": {"@type": "Person", "name": "Ann"},
                "yield": {"@value": "2 cups"},
            },
            {
                "id": "Q7",
                "type": "item",
                "labels": {c: {"language": c, "value": v} for c, v in (("en", "Loon"), ("de", "Seetaucher"))},
                "descriptions": {c: {"language": c, "value": v} for c, v in (("de", "ein Vogel"), ("en", "a bird"))},
            },
            {
                "item": {"type": "uri", "value": "http://a.example/Q8332"},
                "image": {"type": "uri", "value": "http://a.example/Red%20fox.jpg"},
                "itemLabel": {"type": "literal", "value": "Red fox", "xml:lang": "en"},
                "mass": {"type": "literal", "value": "6", "datatype": "http://a.example/decimal"},
            },
        )
    )
    assert (tea.id, tea.title, facts(tea)) == (
        *("https://a.example/#tea", "Tea"),
        ["Type: Recipe", "Author: Ann", "Yield: 2 cups"],
    )
    assert (wikidata.title, wikidata.names, wikidata.text) == ("Loon", ("Seetaucher",), [("", "a bird")])
    assert (query.title, images(query), facts(query)) == ("Red fox", ["http://a.example/Red%20fox.jpg"], ["Mass: 6"])
    metadata = [
        {"label": {"en": ["Author"]}, "value": {"none": ["Ann Potter"]}},
        {"label": {"en": ["Languages"]}, "value": ["Dutch", "Latin"]},
    ]
    (book,) = read([{"label": {"en": ["A book"], "de": ["Das Buch"]}, "metadata": metadata}])
    assert (book.title, book.names) == ("A book", ("Das Buch",))
    assert facts(book) == ["Metadata: Author: Ann Potter\nLanguages: Dutch, Latin"]


def note(**values: Any) -> Understood:
    return read([values], is_note=True)[0]


def test_front_matter_has_settings_links_and_aliases() -> None:
    own = {"category": "mammal", "status": "rare", "type": "animal", "info": {"legs": "4"}, "weight": "5 kg"}
    site = {"layout": "post", "date": "2020-01-02", "order": "3", "draft": "true", "build": {"render": "never"}}
    fox = note(title="[[The Fox]]", Aliases=["Red  fox", 3], alias="Vulpes, Todd", kin="[[x|Wolf]]", **own, **site)
    assert (fox.title, fox.names) == ("The Fox", ("Red fox", "Vulpes", "Todd"))
    assert facts(fox) == ["Kin: Wolf", "Category: mammal", "Status: rare", "Type: animal", "Info, legs: 4",
                          "Weight: 5 kg"]  # fmt: skip
    assert {"post", "2020-01-02", "true", "never"} <= set(dropped(fox)["settings"])
    page = note(description="A tale.", license="CC0", see="b/c.md", is_open=True, rating="9", cover="![[cover.png]]")
    assert (page.title, page.text, facts(page), images(page)) == (
        *("", [("Description", "A tale.")], ["Rating: 9"], ["cover.png"]),
    )
    assert "b/c.md" in str(page.left_out)
    hugo = note(title="The Tower", resources=[{"src": "a.png"}, {"src": "img/cover.png", "name": "cover"}])
    assert images(hugo)[0] == "img/cover.png"
    assert note(title={"any": "thing"}, slug="fox").id == note(title=["Fox"]).title == ""


@pytest.mark.parametrize("seed", range(0, 400, 100))
def test_every_image_is_there_or_left_out_with_a_reason(seed: int) -> None:
    for number in range(seed, seed + 100):
        random, numbers = Random(number), count()
        row = {"title": "Title", **{random.choice(KEYS): _nested(random, numbers) for _ in range(6)}}
        (entity,) = read([row])
        said = {*images(entity), *(text for _, text in entity.left_out), entity.id, entity.url, *entity.names}
        said |= {text for _, text in (*entity.text, *entity.facts)}
        assert set(re.findall(r"w\d+\.jpg", str(row))) <= set(re.findall(r"w\d+\.jpg", " ".join(said)))


def _nested(random: Random, numbers: Iterator[int], depth: int = 0) -> Any:
    kind = random.randrange(6 if depth < 4 else 3)
    if kind == 3:
        return [_nested(random, numbers, depth + 1) for _ in range(random.randrange(4))]
    if kind > 3:
        return {random.choice(KEYS): _nested(random, numbers, depth + 1) for _ in range(random.randrange(4))}
    number = f"w{next(numbers)}"
    return [number, f"{number}.jpg", f"https://a.example/{number}", f"{number} {PROSE}"][random.randrange(4)]
