"""Image files that belong to entities though nothing names them: which rule gives them, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from indexes.builder.report import read_report
from indexes.knowledge.image_names import BEGINS, ENDS, NAME, keys_of, loose_key, without_size
from indexes.knowledge.inspection import inspect_knowledge_base, text_lines
from indexes.knowledge.matching import MatchReport, rule_lines, with_matched_images
from indexes.knowledge.sources import FolderImages
from retriever.types import ArticleImage, Entity
from tests.fakes.images import write_image
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.reading import written


def matched(
    folder: Path, entities: Sequence[Entity], *names: str, pattern: str = "", required: bool = False
) -> tuple[dict[str, list[str]], MatchReport]:
    """Returns the images of each entity by its id, the main one first, and the report."""
    for name in names:
        write_image(folder / name, "red")
    report = MatchReport()
    found = with_matched_images(entities, FolderImages(folder), pattern, report, required=required)
    images = {
        one.id: list(dict.fromkeys([*filter(None, [one.image]), *(image.url for image in one.images)])) for one in found
    }
    return images, report


def entity(id: str, title: str = "", *named_after: tuple[str, str], image: str | None = None) -> Entity:
    return Entity(id, title or id, (), image=image, named_after=named_after)


@pytest.mark.parametrize(
    ("stem", "names", "begins", "ends"),
    [
        ("red-fox", {"redfox"}, {"red"}, {"fox"}),
        ("Red_Fox_front-2", {"redfox", "redfoxfront", "redfoxfront2"}, {"red"}, {"foxfront2"}),
        ("fox02", {"fox02", "fox"}, set(), set()),
        ("IMG_fox", {"imgfox", "fox"}, {"img"}, set()),
        ("fox-1024x768@2x", {"fox", "fox1024x768", "fox1024x768-2x"}, set(), set()),
        ("fox-scaled", {"fox", "foxscaled"}, set(), set()),
        ("fox (1)", {"fox", "fox1"}, set(), set()),
        ("photo-12-front", {"photo12", "photo12front", "12"}, {"photo"}, set()),
        ("1-10", {"1-10"}, {"1"}, {"10"}),
        ("007", {"7"}, set(), set()),
        ("wappen Zürich", {"wappenzurich"}, {"wappen"}, {"zurich"}),
        ("ポーランド", {"ポーランド"}, set(), set()),
        ("", set(), set(), set()),
    ],
)
def test_the_keys_of_a_file_name(stem: str, names: set[str], begins: set[str], ends: set[str]) -> None:
    for kind, expected in {NAME: names, BEGINS: begins, ENDS: ends}.items():
        assert {text for text, of_name, _ in keys_of(stem) if of_name == kind} == expected


def test_loose_names() -> None:
    assert loose_key("Red Fox") == loose_key("red-fox") == loose_key("red_fox.") == "redfox"
    assert (loose_key("Citroën"), loose_key("007"), loose_key("0"), loose_key("1-10")) == ("citroen", "7", "0", "1-10")
    assert loose_key("किताब") != loose_key("कताब")  # a vowel sign is part of a word
    assert [without_size(f"{name}.jpg") for name in ("fox-2x", "fox-700", "thumb")] == ["fox", "fox700", "thumb"]


@pytest.mark.parametrize(
    "names",
    [
        ["fox-1.jpg", "fox-2.jpg", "hen.jpg"],
        ["fox_front.webp", "fox_back.webp", "hen_front.webp"],
        ["Fox (1).png", "fox 2.png", "HEN.png"],
        ["img_fox.jpg", "thumb/fox-source.jpg", "img_hen.jpg"],
        ["fox/1.jpg", "fox/2.jpg", "hen/x.jpg"],
        ["photos/Fox/DSC1.jpg", "photos/Fox/DSC2.jpg", "photos/Hen/DSC3.jpg"],
        ["of-a-fox.jpg", "big-red-fox.jpg", "of-a-hen.jpg"],
    ],
)
def test_ways_in_which_people_name_files(tmp_path: Path, names: list[str]) -> None:
    images, _ = matched(tmp_path, [entity("fox"), entity("hen")], *names, "unrelated/tree.jpg", "unrelated/house.jpg")
    assert {id: sorted(found) for id, found in images.items()} == {"fox": sorted(names[:2]), "hen": names[2:]}


COINS = [entity(str(n), f"Coin {n}", ("code", code), ("country", "Ghana")) for n, code in enumerate(["A7", "B9", "C3"])]
PAGES = [entity(str(n), f"Page {n}") for n in range(10)]
SLOTS = [("images.slot", "hero"), ("images.key", "fox-z"), ("images.key", "fox-a")]
NAMED = Entity("fox", "Fox", (), "main.jpg", images=(ArticleImage("main.jpg"), ArticleImage("gone.jpg")))


@pytest.mark.parametrize(
    ("entities", "files", "expected", "used"),
    [
        (  # the longest id counts, and what is no more than the id comes first
            [entity("red-fox", "Vulpes vulpes"), entity("fox", "Another"), entity("hen", "Chicken")],
            "red-fox-closeup.jpg red-fox-in-snow.jpg fox-asleep.jpg hen-running.jpg hen.jpg tree.jpg",
            {
                "red-fox": "red-fox-closeup.jpg red-fox-in-snow.jpg",
                "fox": "fox-asleep.jpg",
                "hen": "hen.jpg hen-running.jpg",
            },
            "{id} {id}*",
        ),
        (  # another field needs more evidence than ids and titles; a file of three coins belongs to none
            COINS,
            "B9.jpg a7_reverse.jpg c3.png ghana.png",
            {"0": "a7_reverse.jpg", "1": "B9.jpg", "2": "c3.png"},
            "{code}",
        ),
        (COINS[:2], "B9.jpg a7.jpg", {}, ""),  # two may be coincidence
        (PAGES, " ".join(["3.jpg", *(f"scan-{n}.jpg" for n in range(30, 50))]), {}, ""),  # so may a number
        (PAGES, " ".join(f"{n:03d}.jpg" for n in range(10)), {str(n): f"{n:03d}.jpg" for n in range(10)}, "{id}"),
        ([entity("c1", "Cup"), entity("c2", "Cup"), entity("c3", "Bowl")], "cup.jpg bowl.jpg", {}, ""),  # in conflict
        (  # what entities name stays; others are added, or replace what is not there
            [NAMED, entity("hen", image="https://a.example/lost.jpg")],
            "main.jpg fox-2.jpg hen-1.jpg",
            {"fox": "main.jpg gone.jpg fox-2.jpg", "hen": "hen-1.jpg"},
            "{id}",
        ),
        (
            [entity("fox", "Fox", *SLOTS)],
            "fox-a.jpg fox-b.jpg fox-z.jpg",
            {"fox": "fox-z.jpg fox-a.jpg fox-b.jpg"},
            "{id}",
        ),
    ],
)
def test_which_rules_are_used(
    tmp_path: Path, entities: list[Entity], files: str, expected: dict[str, str], used: str
) -> None:
    images, report = matched(tmp_path, entities, *files.split())
    assert images == {one.id: expected.get(one.id, "").split() for one in entities}
    assert " ".join(rule.pattern for rule in report.rules if rule.used) == used


def test_a_given_rule(tmp_path: Path) -> None:
    assert matched(tmp_path, COINS[:2], "B9.jpg", "a7.jpg", pattern="{code}")[0] == {"0": ["a7.jpg"], "1": ["B9.jpg"]}
    with pytest.raises(ValueError, match=r"image=\*\.jpg: no such rule; rules are \{FIELD\}, "):
        matched(tmp_path, COINS, pattern="*.jpg")


def test_rules_that_give_nothing_are_not_shown(tmp_path: Path) -> None:
    """A note without an image beside one that names its image is no reason to explain rules."""
    images, report = matched(tmp_path, [entity("cup", "Cup", image="cup.jpg"), entity("list", "List")], "cup.jpg")
    assert images == {"cup": ["cup.jpg"], "list": []} and report.lacking == 1
    assert [*rule_lines(report)] == [] and all(rule.entities == 0 for rule in report.rules) and report.rules


def test_images_that_entities_name_themselves_are_not_counted(tmp_path: Path) -> None:
    named = [entity("yoga strap", image="pictures/yoga strap.jpg"), entity("mat", image="mat.jpg"), entity("brick")]
    files = ["pictures/yoga strap.jpg", "yoga strap-2.jpg", "mat.jpg", "brick.jpg"]
    images, report = matched(tmp_path, named, *files)
    assert images == {"yoga strap": files[:2], "mat": ["mat.jpg"], "brick": ["brick.jpg"]}
    words = "file names that are the id, apart from a number, a size or a view"
    assert report.used() == [f"1 of 1 entity by {words}: 2 images"]  # strap-2 and brick, of four that are called so
    assert report.to_json()[0]["files"] == 2


def test_of_several_sizes_the_largest_is_used(tmp_path: Path) -> None:
    write_image(tmp_path / "small" / "hen_sm.jpg", "red", 20)
    write_image(tmp_path / "large" / "hen_lg.jpg", "red", 200)
    for number in (100, 101, 102):  # no sizes
        write_image(tmp_path / f"elk-{number}.png", "red", 30)
    images, report = matched(tmp_path, [entity("elk"), entity("hen")], "moss.jpg")
    assert images == {"elk": ["elk-100.png", "elk-101.png", "elk-102.png"], "hen": ["large/hen_lg.jpg"]}
    assert "1 image file of no entity, such as moss.jpg" in report.notes()
    for name, width in {"owl.jpg": 600, "owl-300x200.jpg": 300, "owl@2x.jpg": 900, "owl_thumb.jpg": 90}.items():
        write_image(tmp_path / "named" / name, "red", width)
    names = tuple(ArticleImage(f"owl{size}.jpg", 2, "An owl") for size in ("-300x200", "", "@2x", "_thumb"))
    found = with_matched_images(
        [Entity("owl", "Owl", (), "owl-300x200.jpg", "", names)], FolderImages(tmp_path / "named")
    )
    assert [(one.image, one.images) for one in found] == [("owl@2x.jpg", (ArticleImage("owl@2x.jpg", 2, "An owl"),))]


def test_no_image_while_files_are_there_is_an_error(tmp_path: Path) -> None:
    entities = [entity(f"e{n}", f"Thing number {n}") for n in range(6)]
    files = ["e1-of-summer.jpg", "a.jpg", "b.jpg", "c.jpg", "favicon.png"]
    with pytest.raises(
        ValueError, match=r"none of 6 entities has an image, but there are 4 image files: a\.jpg"
    ) as error:
        matched(tmp_path, entities, *files, required=True)
    assert "nearest to a rule are file names that begin with the id, with 1 entity and 0 conflicts: " in str(
        error.value
    )
    assert "--map 'image={id}*'" in str(error.value) and "--map image=none" in str(error.value)
    images, _ = matched(tmp_path, entities, pattern="{id}*", required=True)
    assert images["e1"] == ["e1-of-summer.jpg"]
    images, _ = matched(tmp_path, entities, pattern="none", required=True)
    assert not any(images.values())
    matched(tmp_path / "icons", entities, "icons/home.png", "apple-touch-icon.png", required=True)  # only of the site
    matched(tmp_path / "empty", entities, required=True)


def test_inspection_and_build_say_what_a_rule_gives(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": name, "name": name.title(), "text": "Text."} for name in ("fox", "hen", "elk")]
    kb = written(tmp_path / "kb.json", rows)
    for name in ("fox-1", "fox-2", "hen-1"):
        write_image(tmp_path / "photos" / f"{name}.png", "red", 80)
    said = "\n".join(text_lines(inspect_knowledge_base(kb)))
    assert "3 entities, 3 sections, 2 with an image, 2 of them found" in said
    assert (
        "images of 2 of 3 entities by file names that are the id, apart from a number, a size or a view: 3 images"
        in said
    )
    assert "{id}                     2         3         0  yes   photos/fox-1.png" in said
    models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    index = build_index(kb, tmp_path, tmp_path / "index", **models, image_keys=2, candidates="combined")
    assert [index.entity(row).image for row in range(3)] == ["photos/fox-1.png", "photos/hen-1.png", None]
    assert (index.manifest.counts.with_image, index.manifest.counts.further_keys) == (2, 1)
    found = read_report(index.folder)["pictures"]
    assert (found["files"], found["found"]) == (3, 2)
    assert found["rule"].startswith("2 of 3 entities by file names that ")
    again = build_index(kb, tmp_path, tmp_path / "index", **models, image_keys=2, candidates="combined")
    assert again.manifest == index.manifest
