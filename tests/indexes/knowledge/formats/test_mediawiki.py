from __future__ import annotations

import bz2
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from PIL import Image

from indexes.knowledge.knowledge_base import guess_format, name_of
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.ids import canonical_url
from indexes.knowledge.sources import find_main, open_images
from retriever.types import ArticleImage, Section

pytest.importorskip("mwparserfromhell", reason="needs the extra mediawiki")

FOX = """{{About|the animal}}
{{Infobox animal
| name = Red fox
| image = Fox in snow.jpg
| image_alt = A fox
| status = {{nowrap|Least concern}}
| first_seen = {{start date|1758|1|7}}
| food = {{ubl|mice|[[Bird|birds]]}}<ref>A book</ref>
| weight = {{convert|6|kg}}
}}
'''The red fox''' ({{IPA|x}}) is a [[fox (animal)|fox]].<ref name="a">Someone</ref> [http://x.example It]
lives&nbsp;here.
[[Category:Foxes]][[de:Rotfuchs]][[File:Star icon.png|20px]]
== Diet ==
It eats:
* '''mice'''
* birds<!-- all of them -->
[[File:Mouse.png|thumb|200px|A [[mouse|brown mouse]]]]
{| class="wikitable"
| 12
|}
=== Winter ===
Berries.<br/>And {{convert|5|km}} of walking. __NOTOC__
<gallery>
File:Berry one.jpg|Berries
Fails:berry two.jpg
notes.txt
</gallery>
== References ==
{{reflist}}
=== Books ===
* A book
"""
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en"><siteinfo>
<sitename>W</sitename><base>{base}</base><namespaces><namespace key="0" case="first-letter" />
<namespace key="6">Fails</namespace><namespace key="14">Kategorija</namespace></namespaces></siteinfo>"""


def page(title: str, text: str, space: int = 0, redirect: str = "", model: str = "wikitext") -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    to = f'<redirect title="{redirect}" />' if redirect else ""
    return (
        f"<page><title>{title}</title><ns>{space}</ns><id>1</id>{to}<revision><id>2</id><model>{model}</model>"
        f"<text xml:space='preserve'>{text}</text></revision></page>"
    )


def dump(path: Path, *pages: str, base: str = "https://en.wikipedia.org/wiki/Main_Page") -> Path:
    data = (HEAD.format(base=base) + "".join(pages) + "</mediawiki>").encode()
    path.write_bytes(bz2.compress(data[:300]) + bz2.compress(data[300:]) if path.suffix == ".bz2" else data)
    return path


def test_a_dump_with_redirects(tmp_path: Path) -> None:
    path = dump(
        tmp_path / "foxes.xml.bz2",  # of several streams, as published
        page("Vulpes vulpes", "#REDIRECT [[Red fox]]", redirect="Red fox"),
        page("Red fox", FOX),
        page("Talk:Red fox", "Words", space=1),
        page("Module:Fox", "return 1", model="Scribunto"),
        page("Say's phoebe", "A [[w:bird|bird]]."),
        page("Foxes", "#REDIRECT [[Red fox#Diet]]", redirect="Red fox#Diet"),
    )
    assert guess_format(path) == "mediawiki" and name_of(path) == "foxes"
    fox, phoebe = read_knowledge_base(path)
    assert fox.id == fox.url == "https://en.wikipedia.org/wiki/Red_fox"
    assert fox.names == ("Vulpes vulpes", "Foxes")
    assert fox.sections == (
        Section("Red fox", "The red fox is a fox. It\nlives here.", 0),
        Section("Diet", "It eats:\nmice\nbirds\n12", 1),
        Section("Winter", "Berries.\nAnd 5 km of walking.", 2),
        Section("Facts", "Status: Least concern\nFirst seen: 1758-01-07\nFood: mice, birds\nWeight: 6 kg", 5),
    )
    commons = "https://upload.wikimedia.org/wikipedia/commons"
    assert fox.image == f"{commons}/5/5c/Fox_in_snow.jpg"
    assert fox.images == (
        ArticleImage(f"{commons}/5/5c/Mouse.png", 1, "A brown mouse"),
        ArticleImage(f"{commons}/b/be/Berry_one.jpg", 2, "Berries"),
        ArticleImage(f"{commons}/4/4e/Berry_two.jpg", 2),
    )
    assert (phoebe.id, phoebe.image, phoebe.names) == ("https://en.wikipedia.org/wiki/Say's_phoebe", None, ())


def test_images_of_a_wiki_of_ones_own(tmp_path: Path) -> None:
    home = "http://localhost/index.php/Home"
    path = dump(tmp_path / "own.xml", page("Fox", "[[File:fox in snow.jpg]] A fox."), base=home)
    (fox,) = read_knowledge_base(path)
    assert fox.id == "http://localhost/index.php/Fox" and fox.image == "5/5c/Fox_in_snow.jpg"
    for place in ("5/5c/Fox_in_snow.jpg", "Fox_in_snow.jpg"):  # as MediaWiki stores it, or without its folders
        file = tmp_path / place.replace("/", "-") / place
        file.parent.mkdir(parents=True)
        Image.new("RGB", (90, 90)).save(file)
        source = open_images(tmp_path / place.replace("/", "-"), path, "mediawiki")
        assert source is not None and find_main(source, fox) == place


def test_the_map_names_the_image_of_infoboxes(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.xml", page("Fox", "{{Infobox x|bilde=[[Fails:A.jpg|left]]|image=B.jpg}} A fox."))
    (fox,) = read_knowledge_base(path, names={"image": "bilde"})
    assert fox.image is not None and fox.image.endswith("/A.jpg")


def test_an_image_by_an_unusual_name_is_no_fact(tmp_path: Path) -> None:
    box = "{{Infobox x|map_image=M.png|static_image_name=A b.jpg|kind=File server}}"
    (fox,) = read_knowledge_base(dump(tmp_path / "a.xml", page("Fox", f"{box} A fox.")))
    assert fox.sections[1:] == (Section("Facts", "Kind: File server", 1),)
    assert fox.image is not None and fox.image.endswith("/A_b.jpg")


def test_emphasis(tmp_path: Path) -> None:
    """Unclosed emphasis must not turn the infobox and the headings after it into text."""
    box = "{{Infobox person|image=A.jpg|successor=[[Olaf]] <small>(designated)''</small>}}"
    text = f"{box} '''''Fox''''' of l''''Europa''', ''{{{{x}}}}''ran.\n* ''Far\n== The ''den'' ==\nDeep."
    (fox,) = read_knowledge_base(dump(tmp_path / "a.xml", page("Fox", text)))
    assert fox.image is not None and fox.image.endswith("/A.jpg")
    assert [(section.title, section.text) for section in fox.sections] == [
        ("Fox", "Fox of l'Europa, ran.\nFar"),
        ("The den", "Deep."),
        ("Facts", "Successor: Olaf (designated)"),
    ]


def test_galleries_by_names_for_files_that_are_not_declared(tmp_path: Path) -> None:
    gallery = "<gallery>\nSlika:The gate.jpg|A gate\nAlien: the film.jpg\n</gallery>"
    (fox,) = read_knowledge_base(dump(tmp_path / "a.xml", page("Fox", f"A fox. {gallery}")))
    assert [one.url.rpartition("/")[2] for one in fox.images] == ["The_gate.jpg", "Alien%3A_the_film.jpg"]


def test_titles_with_signs_of_urls(tmp_path: Path) -> None:
    pages = [page(title, "A film.") for title in ("? (film)", "100% Wolf", "Who framed it?")]
    found = list(read_knowledge_base(dump(tmp_path / "a.xml", *pages)))
    assert [one.id for one in found] == [
        "https://en.wikipedia.org/wiki/?_(film)",
        "https://en.wikipedia.org/wiki/100%_Wolf",
        "https://en.wikipedia.org/wiki/Who_framed_it?",
    ]
    assert [one.url for one in found] == [
        "https://en.wikipedia.org/wiki/%3F_(film)",
        "https://en.wikipedia.org/wiki/100%25_Wolf",
        "https://en.wikipedia.org/wiki/Who_framed_it%3F",
    ]
    assert canonical_url(found[0].url) == found[0].id  # so that questions with this spelling find it


def test_references_that_are_not_well_formed(tmp_path: Path) -> None:
    text = """A fox.<ref name="a" group=b / >One</ref> It ''runs.<ref>A <i>book''</ref>
Far<ref name=c/>. <REF>{{x|</REF>"""
    (fox,) = read_knowledge_base(dump(tmp_path / "a.xml", page("Fox", text)))
    assert fox.sections == (Section("Fox", "A fox. It runs.\nFar.", 0),)


def test_other_encodings_and_no_site(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(f"<mediawiki>{page('Лисица', 'Животно.')}</mediawiki>".encode("utf-16"))
    (fox,) = read_knowledge_base(path)
    assert (fox.id, fox.url, fox.sections) == ("Лисица", "", (Section("Лисица", "Животно.", 0),))


def test_damaged_dumps(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.xml", page("One", "Text."), page("Two", "Text."))
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(ValueError, match=r"a\.xml: after page 1: damaged or cut short .*; fetch it again"):
        list(read_knowledge_base(path))
    path.write_text("<html><body>No</body></html>")
    with pytest.raises(ValueError, match=r"a\.xml: not MediaWiki's XML: its first element is <html>"):
        list(read_knowledge_base(path, "mediawiki"))
    dump(path, page("", "Text."), page("Two", "Text."))
    skipped = SkippedEntries(0.5)
    assert [one.title for one in read_knowledge_base(path, skipped=skipped)] == ["Two"]
    assert skipped.listed == [{"place": "page 1 ('')", "reason": "field 'title' is missing"}]
    packed = dump(tmp_path / "b.xml.bz2", page("One", "Text."))
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"b\.xml\.bz2: "):
        list(read_knowledge_base(packed))


def test_a_dump_that_does_not_declare_its_namespaces(tmp_path: Path) -> None:
    # such as a sample with another wiki's header
    text = """[[Bestand:Fuchs im Schnee.jpg|mini|links|Roter [[Fuchs]]]]
[[ไฟล์:Den.png|thumb]]
Der Fuchs. [[Star: Film.png|A film]]

<div class="x">Er läuft.
{| class="wikitable"
| 12
== Weblinks ==
* [http://x.example Fuchs]
[[Roinn-seòrsa:Tiere]]
[[Kategorie:Tiere|Fuchs]] [[de:Fuchs]]
"""
    page = f"<page><title>Fuchs</title><ns>0</ns><revision><text>{escape(text)}</text></revision></page>"
    path = tmp_path / "a.xml"
    path.write_text(f"<mediawiki>{page}</mediawiki>", encoding="utf-8")
    (fox,) = read_knowledge_base(path, skipped=SkippedEntries(0))
    assert [(section.title, section.text) for section in fox.sections] == [("Fuchs", "Der Fuchs. A film\nEr läuft.")]
    assert fox.image is not None and fox.image.endswith("Fuchs_im_Schnee.jpg")
    assert [image.caption for image in fox.images] == ["Roter Fuchs", ""]


def test_lists_in_html_without_their_end(tmp_path: Path) -> None:
    text = "Keys:\n<DL COMPACT><DT>Enter<DD>Opens <CENTER>a door.\nThe <your name> stays."
    (keys,) = read_knowledge_base(dump(tmp_path / "a.xml", page("Keys", text)))
    assert keys.sections[0].text == "Keys:\nEnter\nOpens a door.\nThe <your name> stays."
