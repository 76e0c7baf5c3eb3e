"""Whose an image is that nothing names, or that several entities name: the innermost thing's, never a list's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.knowledge.image_owners import Claim, losers
from indexes.knowledge.image_rules import OWN_FILE, OWN_TABLE
from indexes.knowledge.matching import MatchReport, with_matched_images
from indexes.knowledge.sources import FolderImages
from retriever.types import ArticleImage, Entity
from tests.fakes.images import write_image
from tests.indexes.knowledge.test_matching import matched


def document(file: str, title: str, *images: str, is_row: bool = False) -> Entity:
    more, home = tuple(map(ArticleImage, images)), (OWN_TABLE if is_row else OWN_FILE, file)
    id = f"{file}#{title}" if is_row else file
    return Entity(id, title, (), images[0] if images else None, images=more, named_after=(home,))


THINGS = ["Brass Lantern", "Copper Kettle", "Tin Whistle", "Iron Stove"]


@pytest.mark.parametrize("folder", ["{n:02}", "{name}", "things/{n}", "things/{name}"])
@pytest.mark.parametrize("file", ["index.md", "info.json", "{name}.html", "info.yaml"])
@pytest.mark.parametrize(
    "image", ["{k:02}.png", "{k}.jpg", "img/{k}.png", "{name}-{k}.png", "front/a{k}.png", "photo.png"]
)
def test_a_folder_of_each_thing(tmp_path: Path, folder: str, file: str, image: str) -> None:
    entities, expected = [], {}
    for n, title in enumerate(THINGS, 1):
        name = title.lower().replace(" ", "-")
        path = folder.format(n=n, name=name)
        entities.append(document(f"{path}/{file.format(name=name)}", title))
        count = 1 if image == "photo.png" else 4 - n % 2
        expected[entities[-1].id] = [f"{path}/{image.format(n=n, name=name, k=k)}" for k in range(1, count + 1)]
    images, report = matched(
        tmp_path, [*entities, document("README.md", "All")], *chain.from_iterable(expected.values())
    )
    assert images == {**expected, "README.md": []}
    assert report.used()[0].startswith("4 of 5 entities by the folder of the entity's own file: ")


def test_the_first_image_stands_for_all_of_the_thing(tmp_path: Path) -> None:
    images, _ = matched(tmp_path, [document("ore/index.md", "Ore 60")], "ore/b.jpg", "ore/cover.jpg", "ore/in/b.jpg")
    assert images == {"ore/index.md": ["ore/cover.jpg", "ore/b.jpg", "ore/in/b.jpg"]}


def test_a_thing_that_names_one_of_its_images_has_the_others_too(tmp_path: Path) -> None:
    images, _ = matched(tmp_path, [document("1/a.md", "A", "1/2.png"), document("2/b.md", "B")], "1/1.png", "1/2.png")
    assert images == {"1/a.md": ["1/2.png", "1/1.png"], "2/b.md": []}


@pytest.mark.parametrize(
    "entities",
    [
        [document("tools/saw.md", "Saw"), document("tools/index.md", "Tools")],  # two in the folder
        [document("tools/index.md", "Tools"), document("tools/saw/saw.md", "Saw")],  # another one below it
        [document("about.md", "About"), Entity("saw", "Saw", ())],  # whose file is not known
        [document("tools/about.md", "About"), document("tools/saws.csv", "Saw", is_row=True)],  # a row of a table
        [document("tools/about.md", "About"), document("tools/img/of/saws.csv", "Saw", is_row=True)],
    ],
)
def test_a_folder_of_several_entities_is_none_of_theirs(tmp_path: Path, entities: list[Entity]) -> None:
    images, _ = matched(tmp_path, entities, "tools/img/a.jpg", "tools/img/b.jpg", "tools/img/c.jpg", "tools/img/d.jpg")
    assert not any(images.values())


def test_a_page_about_images_that_are_called_like_others(tmp_path: Path) -> None:
    """Such as a gallery: what the files are called is surer than where they are."""
    rows = [Entity(f"t{n}", title, ()) for n, title in enumerate(THINGS)]
    files = [f"gallery/{title}.jpg" for title in THINGS]
    images, _ = matched(tmp_path, [document("gallery/about.md", "About"), *rows], *files, "gallery/other.jpg")
    assert images == {"gallery/about.md": [], **{one.id: [file] for one, file in zip(rows, files, strict=True)}}


def test_a_file_beside_photographs_that_rows_name_in_a_field_of_theirs(tmp_path: Path) -> None:
    rows = [entity_named(f"t{n}", title, ("photo.file", f"p{n}07a")) for n, title in enumerate(THINGS)]
    files = [f"photos/p{n}07a.jpg" for n in range(len(THINGS))]
    images, _ = matched(tmp_path, [document("photos/codes.txt", "codes"), *rows], *files)
    assert images == {"photos/codes.txt": [], **{one.id: [file] for one, file in zip(rows, files, strict=True)}}


def test_a_page_that_lists_things_does_not_keep_what_is_called_like_them(tmp_path: Path) -> None:
    files = [f"notes/img/{title}-1.jpg" for title in THINGS]
    remote = [document(f"notes/{title}.md", title, f"https://a.example/{title}.jpg") for title in THINGS]
    images, report = shared(tmp_path, [document("lists/all.md", "All", *files), *remote], files)
    assert images["lists/all.md"] == (None, []) and report.lost[0] == 1
    assert [main for main, _ in images.values()][1:] == files


def entity_named(id: str, title: str, *named_after: tuple[str, str]) -> Entity:
    return Entity(id, title, (), named_after=named_after)


def shared(
    folder: Path, entities: Sequence[Entity], files: Sequence[str]
) -> tuple[dict[str, tuple[str | None, list[str]]], MatchReport]:
    for name in files:
        write_image(folder / name, "red")
    report = MatchReport()
    found = with_matched_images(entities, FolderImages(folder), "", report)
    return {one.id: (one.image, [image.url for image in one.images]) for one in found}, report


@pytest.mark.parametrize("of_things", ["things/{}.md", "{}.md", "{}/index.md"])
@pytest.mark.parametrize("of_others", ["compare/{}.md", "things/{}.md", "things/{}/index.md", "{}.md"])
@pytest.mark.parametrize("image", ["img/{name}.png", "img/IMG_{n}.png", "img/{name}-front-view.png", "{n}.png"])
@pytest.mark.parametrize("order", [1, -1])
def test_pages_that_compare_things_own_none_of_their_images(
    tmp_path: Path, of_things: str, of_others: str, image: str, order: int
) -> None:
    names = [title.lower().replace(" ", "-") for title in THINGS]
    files = [image.format(name=name, n=n) for n, name in enumerate(names)]
    things = [document(of_things.format(name), *pair) for name, *pair in zip(names, THINGS, files, strict=True)]
    others = [
        document(of_others.format(f"{names[a]}-or-{names[b]}"), f"{THINGS[a]} or {THINGS[b]}", files[a])
        for a, b in permutations(range(4), 2)
    ]
    overview = document("overview.md", "Overview", *files)
    images, report = shared(tmp_path, [*things, *others, overview][::order], files)
    assert {one.id: images[one.id][0] for one in things} == {one.id: one.image for one in things}
    assert all(images[one.id] == (None, []) for one in (*others, overview))
    assert report.lost[0] == 13 and "13 entities lost images that belong to others" in "".join(report.notes())


def test_another_image_becomes_the_main_one(tmp_path: Path) -> None:
    entities = [document("fox.md", "Fox", "fox.png"), document("pets.md", "Pets", "fox.png", "all.png", "gone.png")]
    images, _ = shared(tmp_path, entities, ["fox.png", "all.png"])
    assert images == {"fox.md": ("fox.png", ["fox.png"]), "pets.md": ("all.png", ["all.png", "gone.png"])}


def test_rows_and_pages_of_equal_standing_share_their_image(tmp_path: Path) -> None:
    rows = [document("mugs.csv", title, "mug.png", is_row=True) for title in ("Mug", "Mug, red", "Mug, blue")]
    versions = [document("en/fox.md", "Fox", "fox.png"), document("de/fox.md", "Fox", "fox.png")]
    images, report = shared(tmp_path, [*rows, *versions], ["mug.png", "fox.png"])
    assert [main for main, _ in images.values()] == ["mug.png"] * 3 + ["fox.png"] * 2 and report.lost == (0, "")


CLAIMS = st.builds(
    Claim,
    st.integers(0, 9),
    st.sampled_from(("a/x.md", "a/y.md", "b/index.md", "z.md")),
    st.tuples(st.sampled_from(("Fox", "Fox or hen", "Hen", "7", "", "狐"))),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)


@given(
    image=st.sampled_from(("fox.png", "a/7.png", "b/img/x.png", "狐.png")),
    claims=st.lists(CLAIMS, min_size=1, max_size=6),
)
def test_somebody_keeps_each_image(image: str, claims: list[Claim]) -> None:
    claims = [claim._replace(row=row) for row, claim in enumerate(claims)]
    lost = losers(image, claims)
    assert len(lost) < len(claims) and lost <= {claim.row for claim in claims if claim.document}
    assert lost == losers(image, claims[::-1])
