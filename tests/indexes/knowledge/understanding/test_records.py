"""Records of one source that are one thing, and those that are no things."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.document import Block, Document
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.understanding import records
from indexes.knowledge.understanding.records import Entry, related
from retriever.types import Entity, Section
from tests.fakes.values import documents, facts, images, read

BIRDS = ("Heron", "Kestrel", "Lapwing")


def test_children_of_a_compound_object() -> None:
    fields = ("objectid", "parentid", "filename", "title", "format", "description")
    rows = [
        ("azul_rules", "azul", "azul_rules.jpg", "", "image/jpeg", ""),  # before its parent
        ("azul", "", "", "Azul", "compound_object", "A tile game."),
        ("azul_box", "azul", "azul_box.jpg", "The box", "image/jpeg", "Front"),  # an image with a title of its own
        ("azul_corner", "azul_box", "azul_corner.jpg", "", "image/jpeg", ""),
        ("azul_note", "azul", "", "", "", "The board has nineteen lines."),
        ("go", "", "go.jpg", "Go", "image/jpeg", "Stones."),
        ("stones", "go", "stones.jpg", "Stones", "image/jpeg", ""),  # an image of an image is a thing of its own
        ("lost", "gone", "lost.jpg", "", "image/jpeg", ""),  # its parent does not exist
    ]
    azul, go, stones, lost = read([dict(zip(fields, row, strict=True)) for row in rows])
    assert (azul.id, azul.text, lost.title) == ("azul", [("", "A tile game.")], "")
    assert azul.images == [("azul_rules.jpg", ""), ("azul_box.jpg", "The box Front"), ("azul_corner.jpg", "")]
    assert facts(azul) == ["Description: The board has nineteen lines."]
    assert (images(go), images(stones)) == (["go.jpg"], ["stones.jpg"])


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "f", "name": "Fox", "photo": "1.jpg"}, {"id": "f", "name": "Fox", "photo": "2.jpg"}],
        [{"id": "f", "name": "Fox", "photo": "1.jpg"}, {"id": "f", "name": "", "photo": "2.jpg"}],
        [{"Handle": "f", "Title": "Fox", "Image Src": "1.jpg"}, {"Handle": "f", "Title": "", "Image Src": "2.jpg"}],
        [{"name": "Fox", "color": "red", "photo": "1.jpg"}, {"name": "Fox", "color": "red", "photo": "2.jpg"}],
        [{"name": "Fox", "color": "red", "photo": "1.jpg"}, {"name": "Fox", "color": "", "photo": "2.jpg"}],
    ],
)
def test_a_row_for_each_image(rows: list[dict[str, Any]]) -> None:
    (fox,) = read(rows)
    assert (fox.title, images(fox)) == ("Fox", ["1.jpg", "2.jpg"])


@pytest.mark.parametrize(
    "rows",
    [
        [{"name": "Cup", "year": 1800, "photo": "1.jpg"}, {"name": "Cup", "year": 1900, "photo": "2.jpg"}],
        [{"id": 1, "name": "Animals"}, {"id": 2, "parent_id": 1, "name": "Fox", "image": "fox.jpg"}],
        [{"id": 1, "Latin Name": "Canis"}, {"id": 2, "parent_id": 1, "Latin Name": "Fox", "image": "fox.jpg"}],
        [{"id": n, "name": f"Fox {n}", "image": f"{n}.jpg", "next_id": n % 3} for n in range(3)],
        [{"id": n, "name": f"Fox {n}", "image": f"{n}.jpg", "legs": 4 - n % 2} for n in range(9)],
        [{"name": "Vulpes", "image": "v.jpg"}, *({"name": f"Fox {n}", "genus": "Vulpes"} for n in range(9))],
        [{"rank": n, "id": n, "name": f"Fox {n}", "image": f"{n}.jpg"} for n in range(5)],
    ],
)
def test_things_of_their_own_stay(rows: list[dict[str, Any]]) -> None:
    found = read(rows)
    assert len(found) == len(rows) and all(len(images(one)) < 2 for one in found)


@pytest.mark.parametrize("with_portraits", [False, True])
@pytest.mark.parametrize("with_photos", [False, True])
@pytest.mark.parametrize("key", ["maker_id", "categoryID", "brand key"])
def test_things_are_no_parts_of_what_they_refer_to(
    key: str, with_photos: bool, with_portraits: bool, tmp_path: Path
) -> None:
    other = [f"{10 + n},Kind {n}" + (f",k{n}.jpg" if with_portraits else "") for n in range(3)]
    (tmp_path / "others.csv").write_text("\n".join([f"{key},name" + (",image" if with_portraits else ""), *other]))
    things = [f"{n},Thing {n},{10 + n % 3}" + (f",t{n}.jpg" if with_photos else "") for n in range(6)]
    (tmp_path / "things.csv").write_text("\n".join([f"id,title,{key}" + (",photo" if with_photos else ""), *things]))
    entities = list(read_knowledge_base(tmp_path))
    assert {entity.title: entity.image for entity in entities} == {
        f"Thing {n}": f"t{n}.jpg" if with_photos else None for n in range(6)
    } | {f"Kind {n}": f"k{n}.jpg" if with_portraits else None for n in range(3)}
    texts = {entity.title: entity.sections[0].text for entity in entities if entity.title.startswith("Thing")}
    label = {"maker_id": "Maker", "categoryID": "Category", "brand key": "Brand key"}[key]
    assert {title: text.split("\n")[-1] for title, text in texts.items()} == {
        f"Thing {n}": f"{label}: Kind {n % 3}" for n in range(6)
    }


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("id,name\n1,Ann\n2,Bob", "maker", "1"),  # numbers of a field that names no key
        ("id,name,price\n1,Ann,3.50\n2,Bob,4.50", "price", "3.50"),  # values that are unique by chance
        ("id,name\n1,Ann\n2,Bob", "room_id", "1"),  # the key of another table, which is not there
        ("code,name\nann,Ann\nbob,Bob", "color", "ann"),
    ],
)
def test_a_value_that_is_a_key_by_chance_stays(table: str, field: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "makers.csv").write_text(table)
    (tmp_path / "things.csv").write_text(
        f"slug,title,{field}\n" + "".join(f"t{n},Thing {n},{value}\n" for n in range(4))
    )
    texts = [one.sections[0].text for one in read_knowledge_base(tmp_path) if one.title.startswith("Thing")]
    assert len(texts) == 4 and all(text.endswith(f": {value}") for text in texts)


def test_a_value_that_is_a_key_is_called_by_its_title(tmp_path: Path) -> None:
    (tmp_path / "categories.yml").write_text("- {slug: lamps, title: Lamps}\n- {slug: chairs, title: Chairs}\n")
    of = ["lamps", "chairs", "lamps", "[lamps, chairs]"]
    things = "".join(f"- {{id: w{n}, title: Work {n}, category: {category}}}\n" for n, category in enumerate(of))
    (tmp_path / "works.yml").write_text(things)
    texts = [one.sections[0].text for one in read_knowledge_base(tmp_path) if one.title.startswith("Work")]
    assert texts == ["Category: Lamps", "Category: Chairs", "Category: Lamps", "Category: Lamps, Chairs"]


def posts() -> list[dict[str, Any]]:
    """Returns an export of WordPress: posts, images in records of their own, a draft, and a menu."""

    def record(title: str, number: int, kind: str, status: str = "publish", **more: Any) -> dict[str, Any]:
        common = {"title": title, "guid": f"https://b.example/?p={number}", "wp:post_parent": "0"}
        return {**common, "wp:post_id": str(number), "wp:post_type": kind, "wp:status": status, **more}

    birds = [
        record(name, 10 + n, "post", content=f"<p>The {name} is a bird.</p>", _thumbnail_id=str(100 + n))
        for n, name in enumerate(BIRDS)
    ]
    birds[1] |= {"gallery_ids": ["103", "104"]}
    path = "2023/05/DSC{}.jpg"
    attachments = [
        {**record(f"DSC{n}", 100 + n, "attachment", "inherit"), "_wp_attached_file": path.format(n),
         "wp:attachment_url": f"https://b.example/uploads/{path.format(n)}"}
        for n in range(6)
    ]  # fmt: skip
    others = [record("Secret Owl", 50, "post", "draft", content="Sold."), record("Home", 60, "nav_menu_item")]
    return [*birds, *attachments, *others]


def test_images_of_posts_are_records_of_their_own() -> None:
    found = read(posts())
    assert [one.title for one in found] == list(BIRDS)
    assert [images(one) for one in found] == [
        ["2023/05/DSC0.jpg"],
        ["2023/05/DSC1.jpg", "2023/05/DSC3.jpg", "2023/05/DSC4.jpg"],
        ["2023/05/DSC2.jpg"],
    ]
    assert found[0].text == [("", "The Heron is a bird.")] and not any(one.facts for one in found)
    blocks = [part for document in documents(posts()) for part in document.parts if isinstance(part, Block)]
    assert {block.kind for block in blocks} == {records.UNPUBLISHED}
    assert [block.text.split()[0] for block in blocks] == ["DSC5", "Secret", "Home"]
    assert len(blocks[0].pictures) == 2


def test_an_image_within_the_text_comes_after_the_featured_one() -> None:
    rows = posts()
    rows[0]["content"] += '<img src="inline.jpg">'
    assert images(read(rows)[0]) == ["2023/05/DSC0.jpg", "inline.jpg"]


@pytest.mark.parametrize("key", ["id", "code"])
@pytest.mark.parametrize("backwards", [False, True])
def test_rows_of_images_by_the_keys_of_things(key: str, backwards: bool) -> None:
    animals = [{key: f"x{n}", "name": f"Animal {n}", "text": "It is an animal."} for n in range(4)]
    name, by = "coreid" if key == "id" else "shows", "Photograph by Ann Lee, in the woods beside the river, in May 2019"
    media = [{name: f"x{n % 4}", "identifier": f"m{n}.jpg", "img_credits": by} for n in range(8)]
    found = read([*media, *animals] if backwards else [*animals, *media])
    assert [images(one) for one in found] == [[f"m{n}.jpg", f"m{n + 4}.jpg"] for n in range(4)]


def test_tables_of_one_folder_may_refer_to_each_other(tmp_path: Path) -> None:
    things = ["id,name,habitat", *(f"x{n},Animal {n},Woods" for n in range(4))]
    (tmp_path / "occurrences.csv").write_text("\n".join(things))
    media = ["coreid,identifier,photographer_name,licenseName", *(f"x{n % 4},m{n}.jpg,Ann,CC BY" for n in range(8))]
    (tmp_path / "multimedia.csv").write_text("\n".join(media))
    found = list(read_knowledge_base(tmp_path))
    assert [entity.title for entity in found] == [f"Animal {n}" for n in range(4)]
    assert [entity.image for entity in found] == [f"m{n}.jpg" for n in range(4)]
    assert [[image.url for image in entity.images] for entity in found] == [[f"m{n + 4}.jpg"] for n in range(4)]


@pytest.mark.parametrize("key", ["taxonID", "TaxonId", "taxon_id", "taxonKey"])
@pytest.mark.parametrize("name", ["scientificName", "Common Name", "name", "label"])
def test_images_in_another_table_by_any_spelling_of_a_key(tmp_path: Path, key: str, name: str) -> None:
    rows = [f"{100 + n},Genus species{n},Wareidae" for n in range(5)]
    (tmp_path / "taxa.csv").write_text("\n".join([f"{key},{name},family", *rows]))
    media = [f"{key},type,identifier", *(f"{100 + n},StillImage,m{n}.jpg" for n in range(5))]
    (tmp_path / "media.csv").write_text("\n".join(media))
    assert [(entity.title, entity.image) for entity in read_knowledge_base(tmp_path)] == [
        (f"Genus species{n}", f"m{n}.jpg") for n in range(5)
    ]


def test_images_in_another_file_by_number() -> None:
    def entries() -> Iterator[Entry]:
        for n in range(5):
            yield f"animals.csv: line {n}", Document(values={"id": n, "name": f"Animal {n}"})
        for n in range(9):
            row = {"id": n, "animal_id": n % 5, "file": f"{n}.jpg", "width": 4}
            yield f"photos.csv: line {n}", Document(values=row)

    found = [document for _, document in related(entries(), {}) if isinstance(document, Document)]
    assert [[part["file"] for part in document.values["_parts"]] for document in found] == [
        *[[f"{n}.jpg", f"{n + 5}.jpg"] for n in range(4)],
        ["4.jpg"],
    ]


@pytest.mark.parametrize(
    ("rows", "titles"),
    [
        ([{"title": "A", "status": "draft"}, {"title": "B", "status": "published"}], ["B"]),
        ([{"title": "A", "status": "private"}, {"title": "B", "status": "ruined"}], ["A", "B"]),
        ([{"title": "A", "draft": True}, {"title": "B", "draft": False}], ["B"]),
        ([{"title": "A", "draft": True}], ["A"]),
    ],
)
def test_only_records_that_say_so_are_not_published(rows: list[dict[str, Any]], titles: list[str]) -> None:
    assert [one.title for one in read(rows)] == titles


def test_other_entries_stay_in_order_and_are_not_held() -> None:
    def articles(count: int) -> Iterator[Entry]:
        for number in range(count):
            text = Section("T", f"{number} word" * 200, 0)
            yield f"kb.json: line {number}", Entity(str(number), "T", (text,))

    tracemalloc.start()
    assert sum(1 for _ in related(articles(20_000), {})) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    mixed: list[Entry] = [
        ("a", ValueError("bad")),
        ("b", Document(values={"name": "B"})),
        ("c", Document(parts=[Block("outside", kind="x")])),
        ("d", Document(parts=[Block("note")], values={"title": "D"})),
        ("e", Document(values={"name": "E"})),
    ]
    assert list(related(mixed, {})) == mixed


def test_of_many_rows_only_neighbors_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MOST_ROWS", 3)
    rows = [{"name": f"Animal {n}", "id": f"x{n}"} for n in range(4)]
    media = [{"shows": f"x{n}", "file": f"{n}.jpg"} for n in range(4)]
    assert len(read([*rows, *media])) == 8
    assert len(read([*rows, *({"parentid": f"x{n}", "file": f"{n}.jpg"} for n in range(4))])) == 8
