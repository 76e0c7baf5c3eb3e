from __future__ import annotations

from pathlib import Path

from retriever.types import ArticleImage
from tests.fakes.reading import facts, read, written


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
