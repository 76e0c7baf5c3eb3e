"""What the pages of a site share, what no reader wants, and documents that describe many things."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from indexes.knowledge.document import Block, Document, Heading, Part, Picture
from indexes.knowledge.ledger import Ledger
from indexes.knowledge.meanings import describe_things, things_in
from indexes.knowledge.reading import read_knowledge_base
from retriever.types import Section
from tests.fakes.reading import read, texts

PAGE = """<html><head><title>{0} | Fish site</title><meta property="og:image" content="card.png"></head><body>
<div id="top"><a href="/">Home</a> <a href="/all">All fish</a></div><div>The site for fish</div>
<img src="../pages/logo.png"><h1>{0}</h1><p>{0} lives in a tank.</p><ul><li>Minimum tank: 200 l</li><li>Omnivore</li>
</ul><p>It eats plants and animals.</p><img src="tank.png"><h2>More</h2><p>Words.</p>
<p><a href="/a">Back to the list</a></p><p>© 2020 Fish site</p></body></html>"""


def draw(folder: Path, *names: str, side: int = 120) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side, side), "red").save(folder / name)


def test_what_all_pages_say_of_their_subject_stays(tmp_path: Path) -> None:
    draw(tmp_path / "pages", "logo.png", "tank.png", "card.png")
    for number in range(8):
        (tmp_path / "pages" / f"{number}.html").write_text(PAGE.format(f"Fish{number}"), encoding="utf-8")
    ledger = Ledger()
    for number, fish in enumerate(read_knowledge_base(tmp_path, ledger=ledger)):
        body = f"Fish{number} lives in a tank.\nMinimum tank: 200 l\nOmnivore\nIt eats plants and animals."
        assert (fish.id, texts(fish)) == (f"pages/{number}.html", [(f"Fish{number}", body), ("More", "Words.")])
        assert [image.url for image in fish.images] == ["pages/tank.png"] and fish.image == "pages/tank.png"
    assert ledger.left_out["navigation"].places == 8 * 4  # links, the site's name, the way back, and the rights
    whole = list(read_knowledge_base(tmp_path, keep_navigation=True))
    assert all("Back to the list" in fish.sections[-1].text and len(fish.images) == 2 for fish in whole)


@pytest.mark.parametrize(
    ("title", "shared", "heading", "expected"),
    [
        ("Foxes at night - The Daily Fox", "", "Foxes at night", "Foxes at night"),
        ("The Daily Fox", "Foxes at night", "Foxes", "Foxes at night"),
        ("Fox (animal)", "", "Fox", "The Daily Fox"),
    ],
)
def test_the_title_of_a_page_without_its_site(
    tmp_path: Path, title: str, shared: str, heading: str, expected: str
) -> None:
    (tmp_path / "a.html").write_text(
        f"<head><title>{title}</title><meta property='og:title' content='{shared}'></head><body><h1>The Daily Fox</h1>"
        f"<div class=top-menu>News Weather</div><h1>{heading}<a href='#x'>¶</a></h1><p>Foxes run at night.</p>"
        "<aside class='related-links'><p>Ten cats you must see</p></aside></body>"
    )
    (page,) = read(tmp_path)
    assert page.title == expected and [section.text for section in page.sections] == ["Foxes run at night."]


@pytest.mark.parametrize(
    ("markup", "image"),
    [
        ("<img src='PICS/A.PNG'>", "pics/a.png"),
        ("<img src='../pics/b%231.png?v=2#top'>", "pics/b#1.png"),
        ("<picture><source srcset='pics/none.avif'><img src='pics/a.png'></picture>", "pics/a.png"),
        ("<a href='pics/a.png'><img src='pics/small.png' width=60 height=40></a>", "pics/a.png"),
        ("<img src='pics/small.png'>", None),
        ("<img src='pics/gone.png' width=300>", None),
    ],
)
def test_images_as_pages_show_them(tmp_path: Path, markup: str, image: str | None) -> None:
    draw(tmp_path / "pics", "a.png", "b#1.png")
    draw(tmp_path / "pics", "small.png", side=60)
    (tmp_path / "fox.html").write_text(f"<title>Fox</title><body><h1>Fox</h1><p>It is red.</p>{markup}</body>")
    (fox,) = read_knowledge_base(tmp_path)
    assert (fox.image, fox.sections) == (image, (Section("Fox", "It is red.", 0),))


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    draw(tmp_path, "dot.png", side=20)
    moved = "<html><head><meta http-equiv=refresh content='0; url=a.html'></head><body>moved</body></html>"
    owl = "<img src='gone.png'><figure><img src=dot.png><figcaption>A dot</figcaption></figure><p>It hoots.</p>"
    for name, html in {
        "a": owl,
        "b": moved,
        "c": "<p> </p>",
        "d": "(function () {})()",
        "e": "<img src='//x/y.png'>",
    }.items():
        (tmp_path / f"{name}.html").write_text(html)
    ledger = Ledger()
    (page,) = read_knowledge_base(tmp_path, ledger=ledger)
    assert page.sections[0].text == "A dot\nIt hoots."
    assert {name: loss.count for name, loss in ledger.left_out.items()} == {
        **{"images that are not there": 1, "small images": 1, "pages that lead to others": 1},
        **{"files that are no pages": 1, "pages and notes without text": 2},
    }


def thing(name: str, *pictures: str) -> list[Part]:
    return [Heading(2, name), Block(f"The {name} is old.", tuple(map(Picture, pictures)))]


def test_each_heading_with_its_own_text_and_image_is_a_thing() -> None:
    parts = [part for name in ("red vase", "bowl", "cup") for part in thing(name, f"{name}.png")]
    catalog = Document([Heading(1, "Pots"), Block("Three pots."), *parts], id="pots", title="Pots")
    assert [part.id for part in things_in(catalog)] == ["pots", "pots#red-vase", "pots#bowl", "pots#cup"]
    assert things_in(catalog)[1].parts == thing("red vase", "red vase.png")
    for others in ([], thing("jug"), thing("jug", "cup.png"), [Heading(1, "End")]):
        article = Document([Block("", (Picture("pots.png"),)) if not others else Block("Pots."), *parts, *others])
        assert things_in(article) == [article]
    illustrated = [Document(thing(str(number), f"{number}.png")) for number in range(5)]
    assert describe_things([catalog, *illustrated[:4]]) and not describe_things([catalog, *illustrated])
