"""MediaWiki's dumps: pages with their redirects, and wikitext as text, tables, pictures and facts."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest

from indexes.ids import canonical_url
from indexes.knowledge.document import Block, Cell, Document, Heading, Part, Picture, Table
from indexes.knowledge.readers import Folder

pytest.importorskip("mwparserfromhell", reason="needs the extra mediawiki")

from indexes.knowledge.readers.mediawiki import MEDIAWIKI, WIKITEXT
from indexes.knowledge.readers.wikitext import read_wikitext

FOX = """{{About|the animal}}
{{Infobox animal
| name = Red fox
| image = Fox in snow.jpg
| image_alt = A fox
| status = {{nowrap|Least concern}}
| first_seen = {{start date|1758|1|7}}
| food = {{ubl|mice|[[Bird|birds]]}}<ref>A book</ref>
| weight = {{convert|6|kg}}
| module = {{Infobox person|height={{convert|6|ft|1|in|m|abbr=on}}}}
}}
'''The red fox''' ({{IPA|x}}) is a [[fox (animal)|fox]].<ref name="a">Someone</ref> [http://x.example It]
lives&nbsp;here.
[[Category:Foxes]][[de:Rotfuchs]][[File:Star icon.png|20px]]
== Diet ==
It eats:
* '''mice'''
* birds<!-- all of them -->
[[Fails:Mouse.png|thumb|200px|A [[mouse|brown mouse]]]]
{| class="wikitable"
! Prey !! Share
|-
| mice || rowspan=2 | {{val|52|u=g}}
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
"""
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en"><siteinfo>
<sitename>W</sitename><base>{base}</base><namespaces><namespace key="0" case="first-letter" />
<namespace key="6">Fails</namespace><namespace key="14">Kategorija</namespace></namespaces></siteinfo>"""
COMMONS = "https://upload.wikimedia.org/wikipedia/commons"


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


def read(path: Path) -> list[Document]:
    entries = [entry for _, entry in MEDIAWIKI.read(path, Folder(path.parent, [path]))]
    assert all(isinstance(entry, Document) for entry in entries), entries
    return entries  # type: ignore[return-value]  # checked above


def parts_of(text: str, title: str = "Fox") -> list[Part]:
    parts, _ = read_wikitext(text, title, {"file", "image"}, {"category"}, lambda name: name)
    assert parts[0] == Heading(1, title)
    return parts[1:]


def text_of(text: str) -> str:
    return "\n".join(part.text for part in parts_of(text) if isinstance(part, Block) and not part.kind)


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
    fox, phoebe = read(path)
    assert fox.id == fox.url == "https://en.wikipedia.org/wiki/Red_fox"
    assert (fox.title, fox.names) == ("Red fox", ("Vulpes vulpes", "Foxes"))
    assert fox.values == {
        **{"image": f"{COMMONS}/5/5c/Fox_in_snow.jpg", "status": "Least concern", "first_seen": "1758-01-07"},
        **{"food": "mice, birds", "weight": "6 kg", "height": "6 ft 1 in"},
    }
    assert [part for part in fox.parts if isinstance(part, Heading) or not part.kind] == [
        Heading(1, "Red fox"),
        Block("The red fox is a fox. It\nlives here.", (Picture(f"{COMMONS}/3/3b/Star_icon.png", sides=(20,)),)),
        Heading(2, "Diet"),
        Block("It eats:\nmice\nbirds"),
        Block("", (Picture(f"{COMMONS}/5/5c/Mouse.png", caption="A brown mouse", sides=(200,)),)),
        Table(((Cell("Prey", True), Cell("Share", True)), (Cell("mice"), Cell("52 g", rows=2)))),
        Heading(3, "Winter"),
        Block("Berries.\nAnd 5 km of walking."),
        Block("", (Picture(f"{COMMONS}/b/be/Berry_one.jpg", caption="Berries"),)),
        Block("", (Picture(f"{COMMONS}/4/4e/Berry_two.jpg"),)),
        Heading(2, "References"),
    ]
    others = {(part.kind, part.text.strip()) for part in fox.parts if isinstance(part, Block) and part.kind}
    assert others >= {("templates", "the animal"), ("templates", "x"), ("settings of infoboxes", "A fox")}
    assert others >= {("footnote marks and references", "A book"), ("categories and languages", "Category:Foxes")}
    assert (phoebe.id, phoebe.values, phoebe.names) == ("https://en.wikipedia.org/wiki/Say's_phoebe", {}, ())


def test_pages_and_images_of_a_wiki_of_ones_own(tmp_path: Path) -> None:
    text = "{{Infobox x|bilde=[[Fails:A.jpg|left]]|map_image=M.png|kind=File server}} [[File:fox in snow.jpg]] A fox."
    (fox,) = read(dump(tmp_path / "own.xml", page("Fox", text), base="http://localhost/index.php/Home"))
    assert fox.id == "http://localhost/index.php/Fox" and list(fox.values) == ["map_image", "bilde", "kind"]
    assert fox.values["bilde"].endswith("/A.jpg") and fox.values["kind"] == "File server"
    assert fox.parts[1:] == [Block("A fox.", (Picture("5/5c/Fox_in_snow.jpg"),))]


def test_titles_with_signs_of_urls(tmp_path: Path) -> None:
    titles = ["? (film)", "100% Wolf", "Who framed it?"]
    films = read(dump(tmp_path / "a.xml", *(page(title, "A film.") for title in titles)))
    start = "https://en.wikipedia.org/wiki/"
    assert [film.id for film in films] == [f"{start}{title.replace(' ', '_')}" for title in titles]
    assert [film.url for film in films] == [
        f"{start}{name}" for name in ("%3F_(film)", "100%25_Wolf", "Who_framed_it%3F")
    ]
    assert canonical_url(films[0].url) == films[0].id  # so that questions with this spelling find it


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{convert|341|-|345|m|ft}} and {{cvt|5|to|9|km|mi}}", "341\u2013345 m and 5 to 9 km"),
        (
            "{{formatnum:330}} km<sup>2</sup>, 3 &nbsp;°C, 10{{sup|6}} t of CO<sub>2</sub>",
            "330 km^2, 3 °C, 10^6 t of CO2",
        ),
        ("A tall one of {{height|ft=6|in=2}}, {{convert|2+1/2|sqmi}}", "A tall one of 6 ft 2 in, 2 1/2 sq mi"),
        ("{{quote|It is deep, said Nora.|Nora Berg}}", "It is deep, said Nora.\nNora Berg"),
        ("{{circa|1620}} {{lang|sv|Vättern}}{{snd}}{{US$|2 million}}", "c. 1620 Vättern \u2013 US$2 million"),
        ("'''''Fox''''' of l''''Europa''', ''{{x}}''ran.\n* ''Far", "Fox of l'Europa, ran.\nFar"),
        (
            'A fox.<ref name="a" group=b / >One</ref> It runs.<ref>A <i>book</ref>\nFar<ref name=c/>.',
            "A fox. It runs.\nFar.",
        ),
        ("A fox<sup>[1]</sup> of the 1<sup>st</sup> kind, x<sup>n+1</sup>", "A fox of the 1st kind, x^(n+1)"),
        ('<div class="x">He runs.</div> The <your name> stays. __TOC__', "He runs.\nThe <your name> stays."),
        ("Keys:\n<DL COMPACT><DT>Enter<DD>Opens <CENTER>a door.", "Keys:\nEnter\nOpens a door."),
        (
            "{{nihongo|Aikido|合気道|Aikidō}} is {{smaller|(old)}} on {{convert|87|acre|km2}}",
            "Aikido (合気道, Aikidō) is (old) on 87 acre",
        ),
        (
            "{{convert|14|st|7|lb|kg}} {{convert|6|ft|m|adj=mid|-high}} {{formatnum:8779}} {{val|12.5|e=3|u=m/s}}",
            "14 st 7 lb 6 ft 8,779 12.5\u00d710^3 m/s",
        ),
        ("{{start date|1909|5|24}} {{frac|3|1|4}} {{ubl|one|two}}", "1909-05-24 3 1/4 one\ntwo"),
        ("Nora ({{langx|no|Nora}}; {{IPAc-en|n}}; born 1950) ({{IPA|x}})", "Nora (Nora; born 1950)"),
    ],
)
def test_words(source: str, text: str) -> None:
    assert text_of(source) == text


def test_unclosed_emphasis_does_not_swallow_the_infobox() -> None:
    box = "{{Infobox person|successor=[[Olaf]] <small>(designated)''</small>}}"
    parts, values = read_wikitext(f"{box} Text.\n== The ''den'' ==\nDeep.", "Fox", set(), set(), str)
    assert parts[1:] == [Block("Text."), Heading(2, "The den"), Block("Deep.")]
    assert values == {"successor": "Olaf (designated)"}


def test_captions_and_names_of_files() -> None:
    gallery = "<gallery>\nSlika:The gate.jpg|A {{nowrap|gate {{=}} 1}} of [[Oak|oak]]\nAlien: the film.jpg\n</gallery>"
    text = f"[[Star: Film.png|A film]] [[Bestand:Den.png|mini|Ein\nBau|alt=x]] {gallery}"
    parts = [part for part in parts_of(text) if isinstance(part, Block)]
    assert [picture for part in parts for picture in part.pictures] == [
        Picture("Den.png", caption="Ein Bau"),
        Picture("The gate.jpg", caption="A gate = 1 of oak"),
        Picture("Alien: the film.jpg"),
    ]
    assert [part.text for part in parts if part.text] == ["A film"]


def test_a_table_in_a_table_is_a_table_of_its_own() -> None:
    inner = "{|\n! Code\n! Sign\n|-\n| 40 || (\n|}"
    sign = (Cell("Code", True), Cell("Sign", True)), (Cell("40"), Cell("("))
    assert parts_of("{|\n|\n" + inner + "\n|}") == [Table(sign)]


def test_damaged_dumps(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.xml", page("One", "Text."), page("Two", "Text."))
    assert MEDIAWIKI.recognizes(path, path.read_bytes()[:4096]) and not MEDIAWIKI.recognizes(path, b"<gpx>")
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(ValueError, match=r"a\.xml: after page 1: damaged or cut short .*; fetch it again"):
        read(path)
    path.write_text("<html><body>No</body></html>")
    with pytest.raises(ValueError, match=r"a\.xml: not MediaWiki's XML: its first element is <html>"):
        read(path)
    dump(path, page("", "Text."), page("Two", "Text."))
    (place, error), (_, two) = MEDIAWIKI.read(path, Folder(tmp_path, [path]))
    assert str(error) == f"{place}: field 'title' is missing" and isinstance(two, Document)
    packed = dump(tmp_path / "b.xml.bz2", page("One", "Text."))
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"b\.xml\.bz2: "):
        read(packed)


def test_other_encodings_and_no_site(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(f"<mediawiki>{page('Лисица', 'Животно.')}</mediawiki>".encode("utf-16"))
    assert MEDIAWIKI.recognizes(path, path.read_bytes())
    (fox,) = read(path)
    assert (fox.id, fox.url, fox.parts) == ("Лисица", "", [Heading(1, "Лисица"), Block("Животно.")])


def test_a_page_in_a_file_of_its_own(tmp_path: Path) -> None:
    page = tmp_path / "en" / "Steam engine.mediawiki"
    page.parent.mkdir()
    page.write_text(
        "A [[en/Train|train]].\n[[File:en/Engine.png|thumb|Old]]<img src='a/b.png'></img>\n[[Category:en/Trains]]"
    )
    ((place, document),) = WIKITEXT.read(page, Folder(tmp_path, [page]))
    assert isinstance(document, Document) and (place, document.id) == (str(page), "en/Steam engine")
    assert document.parts[0] == Heading(1, "Steam engine")
    blocks = [part for part in document.parts if isinstance(part, Block)]
    assert "A train." in blocks[0].text and blocks[-1] == Block("Category:en/Trains", kind="categories and languages")
    assert [(one.url, one.caption) for part in blocks for one in part.pictures] == [
        ("en/Engine.png", "Old"),
        ("a/b.png", ""),
    ]
    page.write_bytes(b"\xff\xfeA")
    ((_, error),) = WIKITEXT.read(page, Folder(tmp_path, [page]))
    assert isinstance(error, ValueError) and "Steam engine.mediawiki" in str(error)
