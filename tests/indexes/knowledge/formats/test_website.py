"""Websites: their pages, and what many of them share."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from indexes.knowledge.knowledge_base import guess_format, hash_knowledge_base
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.sources import find_main, open_images
from retriever.types import Section
from tests.fakes.reading import read, texts


def write_site(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / "pages").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (120, 110), "red").save(folder / "pages" / f"{number}.png")
        (folder / "pages" / f"{number}.html").write_text(
            f"<html><head><title>Site: page {number}</title></head><body><h1>Our site</h1>"
            "<ul><li><a href='/'>Home</a></li></ul>"
            f"<img src='../logo.png'><h1>Page {number}</h1><p>Text {number}.</p><img src='{number}.png'>"
            f"<h3>More</h3><p>Words {number}.</p><p>All rights reserved</p></body></html>"
        )
    Image.new("RGB", (120, 110), "blue").save(folder / "logo.png")
    (folder / "frame.htm").write_text("<html><body></body></html>")
    return folder


def test_a_website(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", 7)
    assert guess_format(site) == "website"
    found = list(read_knowledge_base(site))
    assert [entity.id for entity in found] == [f"pages/{number}.html" for number in range(7)]
    third = found[3]
    assert third.title == "Page 3" and third.image == "pages/3.png" and len(third.images) == 1
    assert third.sections == (Section("Page 3", "Text 3.", 0), Section("More", "Words 3.", 1))
    source = open_images(None, site, "website")
    assert source is not None and find_main(source, third) == "pages/3.png"
    before = hash_knowledge_base(site, "website")
    (site / "pages" / "0.html").write_text("<p>Changed</p>")
    assert hash_knowledge_base(site, "website") != before


def test_folders_with_markdown_are_notes(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", 1)
    (site / "note.md").write_text("# Note\n")
    assert guess_format(site) == "markdown"
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty: the folder is empty$"):
        guess_format(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"empty: no page \(\*\.html\) in this folder"):
        list(read_knowledge_base(tmp_path / "empty", "website"))


SAVED = """<html><head><title>{title}</title><meta property="og:title" content="{shared}"></head><body>
<h1>The Daily Fox</h1><div class="top-menu">News Weather</div>
<div class="article-body"><h1>{heading}<a href="#x">¶</a></h1><p>Foxes run at night, as everybody knows by now.</p>
<h2>Dens #</h2><p>They are deep, dry and warm.</p></div>
<div id="comments"><p>First!</p></div><aside class="related-links"><p>Ten cats you must see</p></aside>
</body></html>"""


@pytest.mark.parametrize(
    ("title", "shared", "heading", "expected"),
    [
        ("Foxes at night - The Daily Fox", "", "Foxes at night", "Foxes at night"),
        ("The Daily Fox", "Foxes at night", "Foxes", "Foxes at night"),
        ("Fox (animal)", "", "Fox", "The Daily Fox"),
    ],
)
def test_a_saved_page_without_its_site(tmp_path: Path, title: str, shared: str, heading: str, expected: str) -> None:
    (tmp_path / "a.html").write_text(SAVED.format(title=title, shared=shared, heading=heading), encoding="utf-8")
    (page,) = read_knowledge_base(tmp_path)
    assert page.title == expected
    texts = [section.text for section in page.sections]
    assert texts == ["Foxes run at night, as everybody knows by now.", "They are deep, dry and warm."]
    assert page.sections[1].title == "Dens"


def test_pages_beside_a_readme_are_a_website(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", 7)
    (site / "README.md").write_text("# How to build the site")
    assert guess_format(site) == "website"
    (site / "fox.md").write_text("# Fox")
    assert guess_format(site) == "markdown"


def test_what_some_sites_have(tmp_path: Path) -> None:
    pages = 12
    for number in range(pages):
        Image.new("RGB", (120, 110), "red").save(tmp_path / f"{number}.png")
        own = f"<img src=.\\{number}.png>" if number else ""
        shared = "<img src='grid.png'>" if number < 4 else ""
        (tmp_path / f"{number}.html").write_text(
            f"<html><head><meta property='og:image' content='https://x.example/images/'></head><body>"
            f"<h1>Page {number}<div>Our site</div></h1>{shared}<p>Text {number}.</p><svg><text>Logo</text></svg>"
            f"<textarea>&lt;p&gt;x</textarea><h2>More<br>words</h2><p>Of {number}.</p>"
            f"{own}</body></html>"
        )
    Image.new("RGB", (120, 110), "blue").save(tmp_path / "grid.png")
    found = {entity.id: entity for entity in read_knowledge_base(tmp_path)}
    first, second = found["0.html"], found["1.html"]
    assert (first.title, first.image) == ("Page 0 Our site", "grid.png")  # it has no other
    assert (second.image, [image.url for image in second.images]) == ("1.png", ["grid.png", "1.png"])
    assert second.sections == (Section("Page 1 Our site", "Text 1.", 0), Section("More words", "Of 1.", 1))


@pytest.mark.parametrize(
    ("markup", "image"),
    [
        ("<img src='pics/a.png'>", "pics/a.png"),
        ("<img src='PICS/A.PNG'>", "pics/a.png"),
        ("<img src='../pics/a.png'>", "pics/a.png"),
        ("<img src='pics/b%231.png'>", "pics/b#1.png"),
        ("<img src='pics/a.png?v=2#top'>", "pics/a.png"),
        ("<img srcset='pics/a.png 300w, pics/large.png 600w'>", "pics/large.png"),
        ("<img src='data:image/gif;base64,AA' data-src='pics/a.png'>", "pics/a.png"),
        ("<img src='img/blank.gif' data-original='pics/a.png'>", "pics/a.png"),
        ("<img src='img/spacer.gif' data-srcset='pics/a.png 1x, pics/large.png 2x'>", "pics/large.png"),
        ("<img src='data:image/gif;base64,AA'><noscript><img src='pics/a.png'></noscript>", "pics/a.png"),
        ("<picture><source srcset='pics/large.png'><img alt='x'></picture>", "pics/large.png"),
        ("<picture><source srcset='pics/none.avif'><img src='pics/a.png'></picture>", "pics/a.png"),
        ("<a href='pics/large.png'><img src='pics/small.png' width=60 height=40></a>", "pics/large.png"),
        ("<div style=\"background-image: url('pics/a.png')\"></div>", "pics/a.png"),
        ("<img src='pics/small.png'>", None),
    ],
)
def test_images_as_pages_show_them(tmp_path: Path, markup: str, image: str | None) -> None:
    sizes = {"pics/a.png": 120, "pics/b#1.png": 120, "pics/large.png": 240, "pics/small.png": 60}
    for name, side in sizes.items():
        (tmp_path / "pics").mkdir(exist_ok=True)
        Image.new("RGB", (side, side), "red").save(tmp_path / name)
    (tmp_path / "fox.html").write_text(f"<title>Fox</title><body><h1>Fox</h1><p>It is red.</p>{markup}</body>")
    (fox,) = read_knowledge_base(tmp_path)
    assert fox.image == image and [section.text for section in fox.sections] == ["It is red."]


def test_paths_are_relative_to_the_base(tmp_path: Path) -> None:
    (tmp_path / "a" / "pics").mkdir(parents=True)
    for name in ("a/pics/fox.png", "fox.png"):
        Image.new("RGB", (120, 120), "red").save(tmp_path / name)
    for base, image in {
        "pics/": "a/pics/fox.png",
        "/": "fox.png",
        "https://a.example/a/pics/": "a/pics/fox.png",
    }.items():
        page = f"<head><base href='{base}'><title>Fox</title></head><body><p>Red.</p><img src='fox.png'></body>"
        (tmp_path / "a" / "fox.html").write_text(page)
        (fox,) = read_knowledge_base(tmp_path)
        assert fox.image == image


def test_the_image_for_links_to_a_site_is_no_image_of_its_pages(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.html").write_text(
            f"<html><head><meta property='og:image' content='card.png'></head><body><h1>Bird {number}</h1>"
            f"<p>It sings {number} songs.</p></body></html>"
        )
    Image.new("RGB", (1200, 630), "blue").save(tmp_path / "card.png")
    assert {entity.image for entity in read_knowledge_base(tmp_path, "website")} == {None}


BODY = "<p>{0} lives in a tank.</p><ul><li>Minimum tank: 200 l</li><li>Lifespan</li><li>Omnivore</li></ul>"
PAGE = """<html><head><title>{0} | Fish site</title></head><body>
<div id="top"><a href="/">Home</a> <a href="/all">All fish</a></div><div>The site for fish</div><img src="logo.png">
<h1>{0}</h1>{1}<p>It eats plants and animals.</p><img src="tank.png">
<p><a href="/a">Back to the list</a></p><p>© 2020 Fish site</p></body></html>"""


def fish_site(folder: Path, count: int = 8) -> Path:
    folder.mkdir()
    for name in ("logo", "tank"):
        Image.new("RGB", (200, 200), "blue").save(folder / f"{name}.png")
    for number in range(count):
        name = f"Fish{number}"
        (folder / f"{name}.html").write_text(PAGE.format(name, BODY.format(name)), encoding="utf-8")
    return folder


def test_what_all_pages_say_of_their_subject_stays(tmp_path: Path) -> None:
    losses = Losses()
    found = list(read_knowledge_base(fish_site(tmp_path / "site"), ledger=losses))
    lines = ["Minimum tank: 200 l", "Lifespan", "Omnivore", "It eats plants and animals."]
    for number, entity in enumerate(found):
        name = f"Fish{number}"
        assert texts(entity) == [(name, "\n".join([f"{name} lives in a tank.", *lines]))]
        assert [image.url for image in entity.images] == ["tank.png"]
    # Home, All fish; The site for fish; Back to the list; (c) 2020 Fish site
    assert losses.left_out["navigation"].count == 8 * (3 + 4 + 4 + 4)
    assert losses.to_json()["words"] == {"source": 8 * 16, "kept": 8 * 16}


def test_a_setting_keeps_all(tmp_path: Path) -> None:
    found = list(read_knowledge_base(fish_site(tmp_path / "site"), keep_navigation=True))
    assert all("Back to the list" in one.sections[0].text and len(one.images) == 2 for one in found)
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(6):
        (notes / f"n{number}.md").write_text(f"Text {number}.\n\n[Home](a.md) | [Next](b.md)\n")
    kept = list(read_knowledge_base(notes, keep_navigation=True))
    assert [texts(one)[0][1] for one in kept] == [f"Text {number}.\nHome | Next" for number in range(6)]
    assert [texts(one)[0][1] for one in read(notes)] == [f"Text {number}." for number in range(6)]


@pytest.mark.parametrize(
    "names",
    [
        *("overflow-hidden", "hidden md:block", "sm:hidden flex", "hero-banner", "banner", "share-of-market", "menu"),
        *("widget", "related-facts", "social-life", "footer-note", "tag", "comments-free", "modal-verb", "shared"),
    ],
)
def test_class_names_hide_no_facts(tmp_path: Path, names: str) -> None:
    html = f"<h1>Fox</h1><p>A fox.</p><div class='{names}'>It is red and lives in a den.</div>"
    html += f"<ul class='{names}'><li>Height: 40 cm</li></ul><p>{'It runs. ' * 30}</p>"
    (tmp_path / "a.html").write_text(html)
    (page,) = read(tmp_path)
    assert "It is red and lives in a den.\nHeight: 40 cm" in page.sections[0].text


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("<nav>Gone words</nav>", "navigation"),
        ("<div class='site-menu'><a href=a>Gone</a> <a href=b>words</a></div>", "navigation"),
        ("<div class='breadcrumbs'>Gone words</div>", "navigation"),
        ("<header><a href=a>Gone words</a></header>", "navigation"),
        ("<footer>Gone words</footer>", "navigation"),
        ("<div class='comments'><p>Gone words.</p></div>", "comments"),
        ("<div id='cookie-notice'><p>Gone words.</p></div>", "advertisements"),
        ("<form>Gone words</form>", "forms and buttons"),
        ("<button>Gone</button> <select><option>words</select>", "forms and buttons"),
        ("<div class=hatnote>Gone words</div>", "notices"),
    ],
)
def test_what_is_left_out_is_counted(tmp_path: Path, html: str, reason: str) -> None:
    (tmp_path / "a.html").write_text(f"<h1>Fox</h1><p>It is red and old.</p>{html}<p>It runs. It eats. It sleeps.</p>")
    losses = Losses(str(tmp_path))
    (page,) = read_knowledge_base(tmp_path, ledger=losses)
    assert page.sections[0].text == "It is red and old.\nIt runs. It eats. It sleeps."
    assert losses.to_json()["words"] == {"source": 11, "kept": 11}
    assert {name: loss.count for name, loss in losses.left_out.items()} == {reason: 2}


def test_what_is_in_the_body_stays(tmp_path: Path) -> None:
    quote = "<blockquote><p>Deep.</p><footer>Nora</footer></blockquote>"
    form = "<form action=x><p>It runs. It eats. It sleeps.</p></form>"
    (tmp_path / "a.html").write_text(f"<h1>Fox</h1><article>{quote}</article>{form}")
    (tmp_path / "b.html").write_text(f"<h1>Hen</h1>{form}")
    fox, hen = read(tmp_path)
    assert fox.sections[0].text == "Deep.\nNora" and hen.sections[0].text == "It runs. It eats. It sleeps."


def test_text_beside_the_main_part_and_captions(tmp_path: Path) -> None:
    Image.new("RGB", (200, 200)).save(tmp_path / "a.png")
    figures = "<figure><img src=a.png><figcaption>A den</figcaption></figure>"
    figures += "<figure><img src=none.png width=9 height=9><figcaption>No den</figcaption></figure>"
    html = f"<div>Beside it.</div><main><h1>Fox</h1><p>It is red.</p>{figures}</main><div>Below</div>"
    (tmp_path / "a.html").write_text(html)
    losses = Losses(str(tmp_path))
    (page,) = read_knowledge_base(tmp_path, ledger=losses)
    assert texts(page) == [("Fox", "It is red.\nNo den")] and page.images[0].caption == "A den"
    assert losses.to_json()["words"] == {"source": 7, "kept": 7}
    assert losses.left_out["text beside the main part"].count == 3


def test_pages_that_are_no_articles_are_named(tmp_path: Path) -> None:
    moved = "<html><head><meta http-equiv=refresh content='0; url=a.html'></head><body>moved</body></html>"
    for name, html in {"a": "<p>Text.</p>", "b": moved, "c": "<p> </p>", "d": "(function () {})()"}.items():
        (tmp_path / f"{name}.html").write_text(html)
    losses = Losses(str(tmp_path))
    assert len(list(read_knowledge_base(tmp_path, ledger=losses))) == 1
    assert {name: (one.unit, one.count, one.example) for name, one in losses.left_out.items()} == {
        "pages that lead to others": ("files", 1, "b.html: b.html"),
        "pages without text": ("files", 1, "c.html: c.html"),
        "files that are no pages": ("files", 1, "d.html: d.html"),
    }


def test_a_site_that_is_named_in_every_title_and_shows_no_heading(tmp_path: Path) -> None:
    for number, name in enumerate(("Adze", "Burin", "Chisel", "Drawknife", "Eyelet", "Froe", "Gouge")):
        (tmp_path / f"{number}.html").write_text(
            f"<html><head><title>Tool shed 3: {name} page</title></head><body><div>Tool shed 3</div><div>No match</div>"
            f"<div class='name'>{name} page</div><div>Used for wood.</div><div>Stored in drawer {number}.</div></body>"
        )
    (tmp_path / "search.html").write_text("<div>Tool shed 3</div><div>No match</div>")
    losses = Losses(str(tmp_path))
    found = list(read_knowledge_base(tmp_path, ledger=losses))
    assert [one.title for one in found[:2]] == ["Adze page", "Burin page"] and len(found) == 7
    assert texts(found[2]) == [("Chisel page", "Used for wood.\nStored in drawer 2.")]
    assert losses.left_out["navigation"].count == 40 and losses.left_out["pages without text"].count == 1


def test_words_in_angle_brackets_of_a_page(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<html><head><title>Rack<Hat></title></head><body><h1>Rack<Hat></h1><b>A <dl><dt>Rack<T, U></dt>"
        "<dd>holds</dd></dl><p>Hats of <your name> if 0<n<9</p></body></html>"
    )
    (entity,) = read(tmp_path)
    assert entity.title == "Rack<Hat>"
    assert texts(entity) == [("Rack<Hat>", "A\nRack<T, U>: holds\nHats of <your name> if 0<n<9")]


def test_the_signature_of_a_function_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<h1>Kiln</h1><table><tr><td>int fire</td><td>(</td><td>int</td><td>hours</td><td>)</td></tr></table>"
    )
    (entity,) = read(tmp_path)
    assert texts(entity) == [("Kiln", "int fire ( int hours )")]


def test_links_of_sphinx_are_words_and_its_sources_no_notes(tmp_path: Path) -> None:
    (tmp_path / "_sources").mkdir()
    (tmp_path / "_sources" / "kiln.md").write_text("# Kiln\n")
    (tmp_path / "kiln.html").write_text(
        "<div class='onlyprint'><h2>Contents</h2></div><h1>Kiln<a class='headerlink' href='#kiln'>¶</a></h1>"
        "<p>See <a class='reference internal' href='clay.html'>clay</a> first<sup class='reference'>[1]</sup>.</p>"
    )
    assert guess_format(tmp_path) == "website"
    (entity,) = read(tmp_path)
    assert texts(entity) == [("Kiln", "See clay first.")]


def test_images_that_are_not_there_are_not_called_small(tmp_path: Path) -> None:
    Image.new("RGB", (20, 20)).save(tmp_path / "dot.png")
    images = "<img src='gone.png' width='300'><img src='dot.png'><img src='https://a.example/owl.png'>"
    (tmp_path / "a.html").write_text(f"<h1>Owl</h1><p>It hoots. {images}</p>")
    losses = Losses(str(tmp_path))
    list(read_knowledge_base(tmp_path, ledger=losses))
    assert list(losses.left_out) == ["images that are not there", "small images", "remote images of unknown size"]
