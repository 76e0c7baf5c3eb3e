"""Only navigation is furniture: never a sentence, a fact or an image in the body of a page or a note."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from indexes.knowledge.formats import read_knowledge_base
from indexes.knowledge.formats.losses import Losses
from tests.fakes.reading import read, texts

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
    found = list(read_knowledge_base(fish_site(tmp_path / "site"), losses=losses))
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
    (page,) = read_knowledge_base(tmp_path, losses=losses)
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
    (page,) = read_knowledge_base(tmp_path, losses=losses)
    assert texts(page) == [("Fox", "It is red.\nNo den")] and page.images[0].caption == "A den"
    assert losses.to_json()["words"] == {"source": 7, "kept": 7}
    assert losses.left_out["text beside the main part"].count == 3


def test_pages_that_are_no_articles_are_named(tmp_path: Path) -> None:
    moved = "<html><head><meta http-equiv=refresh content='0; url=a.html'></head><body>moved</body></html>"
    for name, html in {"a": "<p>Text.</p>", "b": moved, "c": "<p> </p>", "d": "(function () {})()"}.items():
        (tmp_path / f"{name}.html").write_text(html)
    losses = Losses(str(tmp_path))
    assert len(list(read_knowledge_base(tmp_path, losses=losses))) == 1
    assert {name: (one.unit, one.count, one.example) for name, one in losses.left_out.items()} == {
        "pages that lead to others": ("files", 1, "b.html: b.html"),
        "pages without text": ("files", 1, "c.html: c.html"),
        "files that are no pages": ("files", 1, "d.html: d.html"),
    }
