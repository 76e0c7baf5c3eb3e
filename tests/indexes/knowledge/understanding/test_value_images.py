"""Which values are images, whatever their fields are called; sizes of one image; images of others."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from indexes.knowledge.understanding.image_texts import pictures_in
from tests.fakes.images import image_bytes
from tests.fakes.values import dropped, facts, images, read

AT = "https://files.example/v3/AbCd==/xyz"
CODE = base64.b64encode(image_bytes("red", (16, 16))).decode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a.png", ["a.png"]),
        ("'a.png'", ["a.png"]),
        ("a.png;b.png", ["a.png", "b.png"]),
        ("a.png, b.png", ["a.png", "b.png"]),
        ("a.png\nb.png\n", ["a.png", "b.png"]),
        ("a.png b.png", ["a.png", "b.png"]),
        ("a.png | b.png", ["a.png", "b.png"]),
        ("a b.png", ["a b.png"]),
        ("a, b.png", ["a, b.png"]),
        ("a, b (1).png,c.png", ["a, b (1).png", "c.png"]),
        ("https://a.example/a.jpg?w=1,h=2", ["https://a.example/a.jpg?w=1,h=2"]),
        ("https://a.example/a.jpg,https://a.example/b.jpg?x", ["https://a.example/a.jpg", "https://a.example/b.jpg?x"]),
        ("a-400.jpg 400w, a-800.jpg 800w", ["a-400.jpg", "a-800.jpg"]),
        ("![[a.png]]", ["a.png"]),
        ("[[a.png|100]], [[b.png]]", ["a.png", "b.png"]),
        (f"a.jpg ({AT})", ["a.jpg"]),
        (f"a 1.jpg ({AT}),b (2).png ({AT}1)", ["a 1.jpg", "b (2).png"]),
        (f"IMG_7, wood.jpg ({AT}), b.png ({AT})", ["IMG_7, wood.jpg", "b.png"]),
        (f"a.jpg ({AT}),manual.pdf ({AT})", ["a.jpg"]),
        ("[a.jpg](https://a.example/x)", ["a.jpg"]),
        ("[The fox](img/fox.jpg), [Its den](img/den.jpg)", ["img/fox.jpg", "img/den.jpg"]),
        (f"data:image/png;base64,{CODE}", [f"data:image/png;base64,{CODE}"]),
        (f"data:image/png;base64,{CODE}, data:image/gif;base64,R0", None),
        (CODE, [f"data:image/png;base64,{CODE}"]),
        ("embedded:fox.png", ["embedded:fox.png"]),
        ("A fox sits here. See a.png and then", []),
        ("See the den (https://a.example/den)", []),
        ("red", []),
        ("3.5", []),
        ("", []),
    ],
)
def test_texts_that_are_images(value: str, expected: list[str] | None) -> None:
    urls = [url for url, _ in pictures_in(value)]
    assert urls == expected if expected is not None else len(urls) == 2


def test_of_a_name_and_an_address_counts_which_is_there() -> None:
    value = f"a.jpg ({AT})"
    assert pictures_in(value, {AT}.__contains__) == [(AT, "")]
    assert pictures_in(value, {AT, "a.jpg"}.__contains__) == pictures_in(value) == [("a.jpg", "")]
    assert pictures_in("[The fox](img/fox.jpg)") == [("img/fox.jpg", "The fox")]


@pytest.mark.parametrize("field", ["profile_pic", "iconic_photo", "side_profile", "userImage", "editor", "Attachments"])
def test_a_field_of_images_is_the_things_whatever_its_name(field: str) -> None:
    rows = [{"name": f"Kettle {n}", field: f"a{n}.png", "gallery": [f"b{n}.png"]} for n in range(4)]
    for number, kettle in enumerate(read(rows)):
        assert set(images(kettle)) == {f"a{number}.png", f"b{number}.png"} and not kettle.facts
    (alone,) = read([{"name": "Kettle", field: "a.png"}])
    assert images(alone) == ["a.png"]


def test_images_of_people_are_left_out_and_named_where_they_repeat_or_stand_in_a_person() -> None:
    ann = {"name": "Ann", "avatar": "ann.jpg"}
    rows = [{"name": f"Bowl {n}", "image": f"{n}.jpg", "author_photo": f"p{n % 2}.jpg", "maker": ann} for n in range(6)]
    bowl = read(rows)[3]
    assert dropped(bowl)["images of people who made it"] == ["p1.jpg"]
    typed = {"name": "Bowl", "author": ann, "logo": {"@type": "Organization", "image": "org.png"}, "view": "b.jpg"}
    (bowl,) = read([typed])
    assert images(bowl) == ["b.jpg"]
    assert dropped(bowl)["images of people who made it"] == ["ann.jpg"]
    assert images(read([{"name": "Ann", "author": ann}])[0]) == ["ann.jpg"]  # all that there is


def test_the_images_of_all_fields() -> None:
    row = {
        "name": "Fox",
        "small_map": "map.jpg",
        "front": "front.jpg",
        "back": "back.jpg",
        "gallery": ["g1.jpg", "g2.jpg"],
        "image": "main.jpg",
        "manual": "docs/fox.pdf",
        "media": {"print": "print.jpg", "all": ["m1.jpg"]},
        "color": "red",
        "html": '<p>Here:</p><img src="fr.png" alt="The den">',
    }
    (fox,) = read([row])
    names = ["main.jpg", "front.jpg", "back.jpg", "g1.jpg", "g2.jpg", "fr.png"]
    assert [name for name in images(fox) if name in names] == names and images(fox)[-1] == "map.jpg"
    assert {"print.jpg", "m1.jpg"} & set(images(fox)) and ("fr.png", "The den") in fox.images
    assert facts(fox) == ["Color: red", "Html: Here:"]


@pytest.mark.parametrize(
    ("row", "files", "expected"),
    [
        ({"a": "front/1.jpg", "b": "back/1.jpg"}, [], ["front/1.jpg", "back/1.jpg"]),
        ({"thumbnail": "x1.jpg", "medium": "x2.jpg", "large": "x3.jpg"}, [], ["x3.jpg"]),
        ({"thumbnailUrl": "x1.jpg", "image": "x2.jpg"}, ["x1.jpg"], ["x1.jpg"]),
        ({"front_small": "x1.jpg", "front_large": "x2.jpg", "back": "x4.jpg"}, [], ["x2.jpg", "x4.jpg"]),
        ({"photo": "p.jpg", "image": "i.jpg"}, [], ["i.jpg", "p.jpg"]),
        ({"file": "2023/fox.jpg", "address": "https://a.example/2023/fox.jpg"}, [], ["2023/fox.jpg"]),
        ({"image": {"small": "s.png", "large": "https://a.example/l.png"}}, [], ["https://a.example/l.png"]),
    ],
)
def test_fields_of_sizes_are_one_image(row: dict[str, Any], files: list[str], expected: list[str]) -> None:
    (fox,) = read([{"name": "Fox", **row}], files)
    assert images(fox) == expected


def test_images_named_by_an_address_alone() -> None:
    rows = [{"name": f"S {n}", "scan": f"https://a.example/{n}", "page": f"https://b.example/{n}"} for n in range(3)]
    files = [str(row["scan"]) for row in rows]
    assert [images(one) for one in read(rows, files)] == [[file] for file in files]
    assert images(read([{"name": "Post", "image": 17, "text": "An id."}])[0]) == []


def test_objects_that_describe_images() -> None:
    about = {"common_name": "Red fox", "summary": "Its winter coat is much longer than that of summer.", "lat": 4.5}
    photos = [
        {"src": "fox-1.jpg", "caption": "In snow", "view": "side", "credit": "Ann Potter", "detail": about},
        {"src": "fox-2.jpg", "alt": "Asleep", "width": 400},
    ]
    for field in ("photos", "views"):
        (fox,) = read([{"name": "Fox", "cover": "fox.jpg", field: photos}])
        assert set(fox.images) == {("fox-1.jpg", "In snow"), ("fox-2.jpg", "Asleep"), ("fox.jpg", "")}
        said = f"{field.capitalize()}: Red fox: Its winter coat is much longer than that of summer. (lat: 4.5)"
        assert facts(fox) == [said]
        assert dropped(fox)["details of images"] == ["side", "Ann Potter", "400"]
    listed = [{"image_url": "https://a.example/show?id=1"}, {"caption": "Back", "baseimageurl": "https://a.example/2"}]
    (bowl,) = read([{"title": "Bowl", "images": listed}])
    assert bowl.images == [("https://a.example/show?id=1", ""), ("https://a.example/2", "Back")]
    (file,) = read([{"title": "Bowl", "resource": [{"file-name": "a.png", "mime": "image/png", "data": CODE}]}])
    assert images(file) == [f"data:image/png;base64,{CODE}"] and not file.facts


def test_images_of_parts_are_not_the_things() -> None:
    parts = [{"name": {"en": "Gin", "fr": "Genièvre"}, "image": "gin.jpg", "vegan": True}, {"name": "Ice"}]
    (drink,) = read([{"name": "Fizz", "parts": parts}])
    assert (images(drink), facts(drink)) == ([], ["Parts: Gin (vegan: yes), Ice"])
    assert dropped(drink) == {"images of parts": ["gin.jpg"], "texts in other languages": ["Genièvre"]}


def test_images_marked_by_their_type() -> None:
    page = {
        "name": "Tea",
        "publisher": {"@type": "Organization", "logo": {"@type": "ImageObject", "url": "https://a.example/logo.jpg"}},
        "step": {"@type": "HowToStep", "photo": {"@type": "ImageObject", "contentUrl": "https://a.example/tea.jpg"}},
    }
    assert images(read([page])[0]) == ["https://a.example/tea.jpg"]
    painted = {"type": "Image", "id": "https://a.example/1/full/max/0/default", "format": "image/jpeg"}
    items = [{"type": "Canvas", "items": [{"type": "AnnotationPage", "items": [{"body": painted}]}]}]
    provider = [{"type": "Agent", "logo": [{"type": "Image", "id": "l.png"}]}]
    assert images(read([{"label": "A book", "provider": provider, "items": items}])[0]) == [painted["id"]]


def test_recordings_and_documents_are_no_images() -> None:
    rows = [
        {"title": "Talk", "filename": "talk.mp3", "small view": "talk_small.jpg"},
        {"title": "Flyer", "filename": "flyer.PDF", "small view": ""},
        {"title": "Barn", "filename": "barn.jpg", "small view": ""},
    ]
    assert [images(one) for one in read(rows)] == [["talk_small.jpg"], [], ["barn.jpg"]]
