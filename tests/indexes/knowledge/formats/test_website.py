from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from indexes.knowledge.formats import guess_format, hash_knowledge_base, read_knowledge_base
from indexes.knowledge.sources import find_main, open_images
from retriever.types import Section


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
