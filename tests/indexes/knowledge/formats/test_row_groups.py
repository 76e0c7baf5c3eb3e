"""Rows that are one thing, and what fields of rows are: images, text, sections, facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.bad_entries import SkippedEntries
from retriever.types import ArticleImage, Entity
from tests.fakes.reading import facts, read, texts, written


def images(entity: Entity) -> list[str]:
    return [*filter(None, [entity.image]), *(one.url for one in entity.images)]


def test_children_of_a_compound_object(tmp_path: Path) -> None:
    (tmp_path / "kb.csv").write_text(
        "objectid,parentid,filename,title,format,description\n"
        "azul_rules,azul,azul_rules.jpg,,image/jpeg,\n"  # before its parent
        "azul,,,Azul,compound_object,A tile game.\n"
        "azul_box,azul,azul_box.jpg,The box,image/jpeg,Front\n"  # an image with a title of its own
        "azul_corner,azul_box,azul_corner.jpg,,image/jpeg,\n"
        "go,,go.jpg,Go,image/jpeg,Stones.\n"
        "stones,go,stones.jpg,Stones,image/jpeg,\n"  # an image of an image is a thing of its own
        "lost,gone,lost.jpg,,image/jpeg,\n"
    )
    skipped = SkippedEntries(1)
    azul, go, stones = read_knowledge_base(tmp_path / "kb.csv", skipped=skipped)
    assert (azul.id, images(azul)) == ("azul", ["azul_rules.jpg", "azul_box.jpg", "azul_corner.jpg"])
    assert azul.images[0] == ArticleImage("azul_box.jpg", None, "The box Front")
    assert texts(azul) == [("Azul", "A tile game.")]
    assert (images(go), images(stones)) == (["go.jpg"], ["stones.jpg"])
    assert [one["reason"][:8] for one in skipped.listed] == ["no title"]  # its parent does not exist


def test_a_taxonomy_keeps_its_entries(tmp_path: Path) -> None:
    rows = [{"id": 1, "name": "Animals"}, {"id": 2, "parent_id": 1, "name": "Fox", "image": "fox.jpg"}]
    assert [one.title for one in read(written(tmp_path / "kb.json", rows))] == ["Animals", "Fox"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "f", "name": "Fox", "photo": "1.jpg"}, {"id": "f", "name": "Fox", "photo": "2.jpg"}],
        [{"id": "f", "name": "Fox", "photo": "1.jpg"}, {"id": "f", "name": "", "photo": "2.jpg"}],
        [{"name": "Fox", "color": "red", "photo": "1.jpg"}, {"name": "Fox", "color": "red", "photo": "2.jpg"}],
        [{"name": "Fox", "color": "red", "photo": "1.jpg"}, {"name": "Fox", "color": "", "photo": "2.jpg"}],
    ],
)
def test_a_row_for_each_image(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    (fox,) = read(written(tmp_path / "kb.json", rows))
    assert (fox.title, images(fox)) == ("Fox", ["1.jpg", "2.jpg"])


def test_other_things_of_the_same_title_stay(tmp_path: Path) -> None:
    rows = [{"name": "Cup", "year": 1800, "photo": "1.jpg"}, {"name": "Cup", "year": 1900, "photo": "2.jpg"}]
    assert [one.id for one in read(written(tmp_path / "kb.json", rows))] == ["Cup", "Cup (2)"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("'a.png'", ["a.png"]),
        ("['a.png', 'b.png']", ["a.png", "b.png"]),
        ('["a.png", "b.png"]', ["a.png", "b.png"]),
        ("a.png;b.png", ["a.png", "b.png"]),
        ("a.png, b.png", ["a.png", "b.png"]),
        ("a.png\nb.png", ["a.png", "b.png"]),
        ("a.png b.png", ["a.png", "b.png"]),
        ("a.png|b.png", ["a.png", "b.png"]),
        ("a b.png", ["a b.png"]),
        ("a, b.png", ["a, b.png"]),
        (" a.png ", ["a.png"]),
    ],
)
def test_lists_of_images_in_one_value(tmp_path: Path, value: str, expected: list[str]) -> None:
    (fox,) = read(written(tmp_path / "kb.json", [{"name": "Fox", "image": value}]))
    assert images(fox) == expected


def test_the_images_of_all_fields(tmp_path: Path) -> None:
    row = {
        "name": "Fox",
        "thumb": "t/fox.jpg",
        "front": "front.jpg",
        "back": "back.jpg",
        "gallery": ["g1.jpg", "g2.jpg"],
        "image": "main.jpg",
        "author_photo": "ann.jpg",
        "manual": "docs/fox.pdf",
        "color": "red",
    }
    (fox,) = read(written(tmp_path / "kb.json", [row]))
    assert images(fox) == ["main.jpg", "front.jpg", "back.jpg", "g1.jpg", "g2.jpg", "t/fox.jpg"]
    assert facts(fox) == ["Color: red"]
    (ann,) = read(written(tmp_path / "kb.json", [{"name": "Ann", "avatar": "ann.jpg"}]))
    assert images(ann) == ["ann.jpg"]  # all that there is


def test_without_a_usual_name_the_longest_prose_is_the_text(tmp_path: Path) -> None:
    rows = [
        {
            "name": name,
            "note": "Every row says the same words about where all of this was read and when it was read.",
            "habitat": f"{name} is found in open woods, on sunny slopes and beside old roads of the north.",
            "leaves": "Long and thin.",
        }
        for name in ("Iris", "Phlox", "Aster")
    ]
    iris = read(written(tmp_path / "kb.json", rows))[0]
    assert texts(iris)[0] == ("Iris", "Iris is found in open woods, on sunny slopes and beside old roads of the north.")
    assert facts(iris)[1:] == ["Leaves: Long and thin."]
    (fox,) = read(written(tmp_path / "kb.json", [{"name": "Fox", "blurb": "Red.", "habitat": rows[0]["habitat"]}]))
    assert texts(fox)[0] == ("Fox", "Red.")  # a usual name goes before length


def test_a_field_is_a_section_or_a_fact_for_all_alike(tmp_path: Path) -> None:
    rows = [
        {"name": f"Thing {number}", "text": "Text.", "history": "It is old. " * length, "color": "red"}
        for number, length in enumerate((1, 1, 40))
    ]
    for number, entity in enumerate(read(written(tmp_path / "kb.json", rows))):
        assert [title for title, _ in texts(entity)] == [f"Thing {number}", "History", "Facts"]
        assert facts(entity) == ["Color: red"]
    rows = [{"name": f"Thing {number}", "text": "Text.", "size": "word " * 20} for number in range(60)]
    rows[55]["size"] = "word " * 60  # 300 characters, after the rows that decide
    entities = read(written(tmp_path / "kb.json", rows))
    assert [title for title, _ in texts(entities[55])] == ["Thing 55", "Facts"]


def test_what_is_no_fact_is_counted(tmp_path: Path) -> None:
    row = {
        "id": 7,
        "name": "Fox",
        "layout": "item",
        "slug": "red-fox",
        "format": "image/jpeg",
        "object_location": "/objects/a/fox.tif",
        "audio": "bark.mp3",
        "rights": "CC0",
        "ratio": "3/4",
        "scale": "and/or",
    }
    losses = Losses()
    (fox,) = read_knowledge_base(written(tmp_path / "kb.json", [row]), ledger=losses)
    assert facts(fox) == ["Ratio: 3/4", "Scale: and/or"]
    assert {reason: loss.count for reason, loss in losses.left_out.items()} == {
        "settings": 2,
        "names and types of files": 2,
        "licenses and rights": 1,
    }


def test_objects_that_describe_images(tmp_path: Path) -> None:
    about = {"common_name": "Red fox", "summary": "Its winter coat is much longer than that of summer.", "lat": 4.5}
    photos = [
        {"src": "fox-1.jpg", "caption": "In snow", "view": "side", "credit": "Ann Potter", "detail": about},
        {"src": "fox-2.jpg", "alt": "Asleep", "width": 400},
    ]
    losses = Losses()
    path = written(tmp_path / "kb.json", [{"name": "Fox", "cover": "fox.jpg", "photos": photos}])
    (fox,) = read_knowledge_base(path, ledger=losses)
    assert images(fox) == ["fox-1.jpg", "fox-1.jpg", "fox-2.jpg", "fox.jpg"]
    assert [one.caption for one in fox.images] == ["In snow", "Asleep", ""]
    assert texts(fox) == [("Photos", "Red fox: Its winter coat is much longer than that of summer. (lat: 4.5)")]
    assert losses.left_out["details of images"].count == 4  # side Ann Potter 400
    assert losses.to_json()["words"] == {"source": 16, "kept": 16}  # with captions, without labels


def test_images_of_parts_and_other_languages_are_counted(tmp_path: Path) -> None:
    parts = [{"name": {"en": "Gin", "fr": "Genièvre"}, "image": "gin.jpg", "vegan": True}, {"name": "Ice"}]
    losses = Losses()
    (drink,) = read_knowledge_base(written(tmp_path / "kb.json", [{"name": "Fizz", "parts": parts}]), ledger=losses)
    assert (drink.image, facts(drink)) == (None, ["Parts: Gin (vegan: yes), Ice"])
    assert losses.left_out["images of parts"].example.endswith("gin.jpg")
    assert losses.left_out["texts in other languages"].count == 1


def test_parts_without_images_keep_their_text(tmp_path: Path) -> None:
    rows = [
        {"objectid": "go", "title": "Go", "parentid": "", "note": "Two players."},
        {"objectid": "go-2", "title": "", "parentid": "go", "description": "The board has nineteen lines."},
    ]
    (go,) = read(written(tmp_path / "kb.json", rows))
    assert "The board has nineteen lines." in " ".join(text for _, text in texts(go))


def test_objects_in_lists_say_all_they_know(tmp_path: Path) -> None:
    maker = {"artist_id": "p:7", "full_name": "Ann Potter", "born": "1951-03-05", "alive": True, "role": None}
    row = {
        "title": "Bowl",
        "creator": [maker],
        "cameras": [{"flash": "LED", "info": "50 MP"}, {"info": "2 MP"}],
        "glaze": {"id": 3, "name": "Celadon", "url": "https://a.example/3"},
        "words": {"deu": {"one": "Schale", "many": "Schalen"}, "fra": {"one": "bol"}},
        "parts": [{"part": {"name": "Lid", "url": "https://a.example/lid"}, "slot": 1}],
    }
    (bowl,) = read(written(tmp_path / "kb.json", [row]))
    assert facts(bowl) == [
        "Creator: Ann Potter (born: 1951-03-05; alive: yes)",
        "Glaze: Celadon",
        "Words: deu (one: Schale; many: Schalen); fra (one: bol)",
        "Parts: part: Lid; slot: 1",
    ]
    (cameras,) = [section.text for section in bowl.sections if section.title == "Cameras"]
    assert cameras == "flash: LED; info: 50 MP\ninfo: 2 MP"


def test_images_that_objects_name_by_keys_of_their_own(tmp_path: Path) -> None:
    given = [{"image_url": "https://a.example/show?id=1"}, {"caption": "Back", "baseimageurl": "https://a.example/2"}]
    (bowl,) = read(written(tmp_path / "kb.json", [{"title": "Bowl", "images": given}]))
    assert bowl.image == "https://a.example/show?id=1"
    assert bowl.images == (ArticleImage("https://a.example/2", None, "Back"),)


def test_html_in_values_leaves_words_and_images(tmp_path: Path) -> None:
    row = {
        "title": "Fish &amp; <i>chips</i>",
        "body_html": '<p>Cod, 5 &lt; 6.</p><img alt="" src="/a/cod.jpg">',
        "note": "<p>Hot</p>",
        "from": "R&amp;D <2020>",
    }
    (dish,) = read(written(tmp_path / "kb.json", [row]))
    assert dish.title == "Fish & chips"
    assert dish.image == "/a/cod.jpg"
    assert [section.text for section in dish.sections] == ["Cod, 5 < 6.", "Note: Hot\nFrom: R&D <2020>"]


def test_a_text_in_several_forms_is_not_a_fact_as_well(tmp_path: Path) -> None:
    page = {
        "id": 1,
        "title": {"rendered": "Fox &#038; cub"},
        "content": {"rendered": "<p>Red.</p>\n<h2>Food</h2><p>Mice.</p>", "protected": False},
    }
    owl = {"id": 2, "title": "Owl", "text": ["It is grey.", "It flies."]}
    gull = {"id": 3, "title": "Gull", "text": {"en": "White.", "de": "Weiß."}}
    pages = read(written(tmp_path / "pages.json", [page, owl, gull]))
    assert [one.title for one in pages] == ["Fox & cub", "Owl", "Gull"]
    texts = [[(part.title, part.text) for part in one.sections] for one in pages]
    assert texts == [
        [("Fox & cub", "Red."), ("Food", "Mice."), ("Facts", "Content, protected: no")],
        [("Owl", "It is grey.\nIt flies.")],
        [("Gull", "White."), ("Facts", "Text, de: Weiß.")],
    ]


def test_a_named_object_that_says_one_thing_more_has_it_as_its_text(tmp_path: Path) -> None:
    bite = {"name": "Bite", "entries": ["The fox bites one target within five feet of it."]}
    row = {"title": "Fox", "actions": [bite, {"name": "Run", "speed": 30}], "maker": {"name": "Ann", "born": 1951}}
    (fox,) = read(written(tmp_path / "kb.json", [row]))
    assert facts(fox) == [
        "Actions: Bite: The fox bites one target within five feet of it., Run (speed: 30)",
        "Maker, name: Ann",
        "Maker, born: 1951",
    ]


def test_each_file_of_a_folder_has_its_own_fields(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "crew.json": [{"id": f"c{n}", "full name": f"Ann {n}", "rank": "cook", "bio": "word " * 20} for n in range(60)],
        "ships.json": [{"id": f"s{n}", "name": {"english": f"Tern {n}", "french": f"Sterne {n}"}} for n in range(2)],
        "ports.json": [{"id": f"p{n}", "harbour": f"Bay {n}", "depth": f"{n} m"} for n in range(3)],
        "towns/one.json": {"id": "t1", "title": "Ayr", "depth": "9 m"},
        "towns/two.json": {"id": "t2", "title": "Wick", "depth": "8 m"},
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    found = {one.id: one for one in read_knowledge_base(tmp_path, skipped=SkippedEntries(0))}
    assert len(found) == 67
    assert [found[id].title for id in ("c59", "p2", "s1", "t2")] == ["Ann 59", "Bay 2", "Tern 1", "Wick"]
    assert found["s1"].names == ("Sterne 1",) and found["c1"].sections[0].text.startswith("word word")


def test_the_only_file_of_a_folder_names_the_images(tmp_path: Path) -> None:
    (tmp_path / "codes.json").write_text(json.dumps({"fi": "Finland", "no": "Norway"}))
    assert [one.title for one in read_knowledge_base(tmp_path)] == ["Finland", "Norway"]


def test_recordings_and_documents_are_no_images(tmp_path: Path) -> None:
    table = tmp_path / "kb.csv"
    table.write_text("title,filename,small view\nTalk,talk.mp3,talk_small.jpg\nFlyer,flyer.PDF,\nBarn,barn.jpg,\n")
    found = {one.title: images(one) for one in read_knowledge_base(table)}
    assert found == {"Talk": ["talk_small.jpg"], "Flyer": [], "Barn": ["barn.jpg"]}


@pytest.mark.parametrize("folder", [False, True])
def test_the_list_of_things_counts_not_that_of_marks_on_them(folder: bool, tmp_path: Path) -> None:
    marks = [{"id": number, "category_id": 1, "bbox": [0, 0, 1, 1]} for number in range(5)]
    path = tmp_path / "instances.json"
    path.write_text(
        json.dumps({"annotations": marks, "categories": [{"id": 1, "name": "Owl"}, {"id": 2, "name": "Hen"}]})
    )
    losses = Losses()
    found = read_knowledge_base(tmp_path if folder else path, ledger=losses)
    assert [one.title for one in found] == ["Owl", "Hen"]
    assert losses.left_out["objects in other lists than the longest"].count == 5


def test_names_of_images_as_keys_are_no_titles(tmp_path: Path) -> None:
    words = "It is a brown bird that lives near water."
    texts = {f"{name}.jpg": words for name in ("Barn owl", "Hen")}
    things = {f"{number}.PNG": {"kind": f"Bird {number}", "text": words, "legs": 2} for number in range(2)}
    found = [one.title for one in read(written(tmp_path / "texts.json", texts))]
    assert found == ["Barn owl", "Hen"]
    assert [one.title for one in read(written(tmp_path / "things.json", things))] == ["Bird 0", "Bird 1"]
    bare = {f"{number}.png": {"legs": 2} for number in range(2)}
    assert [one.title for one in read(written(tmp_path / "bare.json", bare))] == ["0", "1"]


def test_a_caption_is_title_and_text(tmp_path: Path) -> None:
    rows = [{"file_name": f"{number}.jpg", "text": f"a photo of an owl on branch {number}"} for number in range(2)]
    found = read(written(tmp_path / "metadata.json", rows))
    assert [one.sections[0].text for one in found] == [one.title for one in found] == [row["text"] for row in rows]


def test_files_that_number_their_entries_alike_can_be_read_one_by_one(tmp_path: Path) -> None:
    for name in ("hens", "owls"):
        rows = [{"id": number, "name": f"{name} {number}"} for number in (1, 2)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    skipped = SkippedEntries(1)
    assert len(list(read_knowledge_base(tmp_path, skipped=skipped))) == 2
    assert skipped.listed[0]["reason"].endswith("every entity needs its own; to read one file: --only FILE")
    found = read_knowledge_base(tmp_path, names={"only": "owls.json"}, skipped=SkippedEntries(0))
    assert [one.title for one in found] == ["owls 1", "owls 2"]
