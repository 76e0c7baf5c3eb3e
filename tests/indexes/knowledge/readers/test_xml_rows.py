"""XML lists of many kinds: which elements are rows, and what their values are."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.readers.xml_rows import XML_ROWS
from tests.fakes.documents import beside, entries, ids, rows

FEED = """<?xml version="1.0" encoding="UTF-8"?>
<rss xmlns:g="http://base.google.com/ns/1.0" xmlns:c="http://purl.org/rss/1.0/modules/content/"
  xmlns:m="http://search.yahoo.com/mrss/"><channel>
<title>A shop</title><owner><name>Ann</name><mail>a@a.example</mail></owner>
<item><g:id>007</g:id><title>Mug</title><description>A &lt;b&gt;big&lt;/b&gt; mug.</description>
  <c:encoded>It holds tea.</c:encoded><m:content url="https://b.example/1.jpg"/>
  <g:shipping><g:country>DE</g:country><g:price>4.90 EUR</g:price></g:shipping></item>
{more}</channel></rss>
"""
MUG = {
    "id": "007",
    "title": "Mug",
    "description": "A <b>big</b> mug.",
    "content": "It holds tea.",
    "media": {"url": "https://b.example/1.jpg"},
    "shipping": {"country": "DE", "price": "4.90 EUR"},
}
OBJECTS = """<collection><rooms><room n="1" floor="2"/><room n="2" floor="2"/></rooms>
<objects>
  <object id="3"><name xml:lang="fr">Bol</name><name xml:lang="en">Bowl</name><images><image>a.jpg</image>
    <image>b.jpg</image></images><height unit="cm">4.5</height><note>Made in <place>Delft</place>, 1650.</note></object>
  <object id="4"><title>Vase</title></object>
  <object id="5"><title>Tile</title></object>
</objects></collection>
"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><title>Loon</title>
<link rel="enclosure" type="image/png" href="https://b.example/loon.png"/><link rel="alternate" href="https://b.example"/>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Fish<br/>and <b>frogs</b>.</p></div>
</content></entry></feed>"""
WORDPRESS = """<rss xmlns:content="http://purl.org/rss/1.0/modules/content/"
  xmlns:excerpt="http://wordpress.org/export/1.2/excerpt/" xmlns:wp="http://wordpress.org/export/1.2/"><channel>
<item><title>Foxes</title><content:encoded><![CDATA[[caption id="1"]<img src="fox.jpg"> A fox[/caption]
  [gallery ids="900,901"] Mice.]]></content:encoded><excerpt:encoded>Red.</excerpt:encoded><wp:post_id>7</wp:post_id>
  <wp:status>publish</wp:status><wp:postmeta><wp:meta_key>_thumbnail_id</wp:meta_key><wp:meta_value>100</wp:meta_value>
  </wp:postmeta><wp:postmeta><wp:meta_key>_edit_last</wp:meta_key><wp:meta_value>1</wp:meta_value></wp:postmeta></item>
<item><title>DSC1</title><wp:post_id>100</wp:post_id><wp:post_type>attachment</wp:post_type></item>
</channel></rss>
"""
ENEX = """<?xml version="1.0"?><!DOCTYPE en-export SYSTEM "http://xml.evernote.com/pub/evernote-export4.dtd">
<en-export><note><title>Basalt</title><content><![CDATA[<en-note><div>Hard.</div></en-note>]]></content>
<resource><data encoding="base64">aGVsbG8=
</data><mime>image/png</mime><resource-attributes><file-name>basalt.png</file-name></resource-attributes></resource>
<resource><data encoding="base64">aGVsbG8=</data><mime>image/png</mime></resource></note></en-export>
"""
OAI = """<OAI-PMH xmlns="http://a.example/oai"><request verb="ListRecords">https://a.example/oai</request><ListRecords>
<record><header><identifier>oai:a:7</identifier></header><metadata><dc xmlns="http://a.example/dc"
  xmlns:xsi="http://a.example/xsi" xsi:schemaLocation="a b"><title>Bowl</title><creator>Ann</creator>
  <creator>Bo</creator></dc></metadata></record></ListRecords></OAI-PMH>"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FEED.format(more=""), [MUG]),
        (FEED.format(more="<item><title>Pot</title></item>"), [MUG, {"title": "Pot"}]),
        (
            OBJECTS,
            [
                {"id": "3", "name": {"fr": "Bol", "en": "Bowl"}, "images": ["a.jpg", "b.jpg"], "height": "4.5 cm",
                 "note": "Made in Delft, 1650."},
                {"id": "4", "title": "Vase"},
                {"id": "5", "title": "Tile"},
            ],
        ),
        (
            ATOM,
            [{"id": "1", "title": "Loon",
              "link": [{"rel": "enclosure", "type": "image/png", "href": "https://b.example/loon.png"},
                       {"rel": "alternate", "href": "https://b.example"}],
              "content": "<div><p>Fish<br>and <b>frogs</b>.</p></div>"}],
        ),
        (
            WORDPRESS,
            [{"title": "Foxes", "gallery_ids": ["900", "901"], "content": '<img src="fox.jpg"> A fox\n   Mice.',
              "excerpt": "Red.", "wp:post_id": "7", "wp:status": "publish", "_thumbnail_id": "100", "_edit_last": "1"},
             {"title": "DSC1", "wp:post_id": "100", "wp:post_type": "attachment"}],
        ),
        (
            ENEX,
            [{"title": "Basalt", "content": "<en-note><div>Hard.</div></en-note>",
              "resource": [{"file-name": "basalt.png", "data": "aGVsbG8=", "mime": "image/png"},
                           {"file-name": "", "data": "aGVsbG8=", "mime": "image/png"}]}],
        ),
        (
            OAI,
            [{"header": ["oai:a:7"],
              "metadata": [{"schemaLocation": "a b", "title": "Bowl", "creator": ["Ann", "Bo"]}]}],
        ),
    ],
    ids=["feed of one", "feed", "objects", "Atom", "WordPress", "Evernote", "OAI-PMH"],
)  # fmt: skip
def test_the_rows_of_every_kind(tmp_path: Path, text: str, expected: list[dict[str, Any]]) -> None:
    assert XML_ROWS.recognizes(tmp_path / "a.xml", text[:4096].encode())
    assert rows(XML_ROWS, written(tmp_path / "a.xml", text)) == expected
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(text.encode()))
    assert rows(XML_ROWS, tmp_path / "a.xml.gz") == expected


def test_what_is_beside_the_rows_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "feed.xml", FEED.format(more="<item><title>Pot</title></item>"))
    assert beside(XML_ROWS, path) == [("elements outside of the list", "A shop Ann a@a.example")]
    assert [where for where, _ in entries(XML_ROWS, path)] == [f"{path}: <item> 1", f"{path}: <item> 2", str(path)]


FOX = """<a:wrap xmlns:a="http://a.example/"><a:record><name>{name}</name><actor><n>Ann</n></actor>
<actor><n>Bo</n></actor></a:record></a:wrap>"""


def test_a_folder_with_a_record_per_file(tmp_path: Path) -> None:
    (tmp_path / "animals").mkdir()
    fox, owl = written(tmp_path / "animals" / "fox.xml", FOX.format(name="Fox")), tmp_path / "owl.xml"
    written(owl, FOX.format(name="Owl"))
    birds = written(
        tmp_path / "birds.xml", "<birds><bird><name>Hen</name></bird><bird><name>Teal</name></bird></birds>"
    )
    pom = written(tmp_path / "pom.xml", "<project><build><target>x</target></build><version>2</version></project>")
    files = [fox, owl, birds, pom]
    assert [row["name"] for row in rows(XML_ROWS, *files, root=tmp_path)] == ["Fox", "Owl", "Hen", "Teal"]
    assert ids(XML_ROWS, *files, root=tmp_path) == ["animals/fox", "owl", "", ""]
    assert beside(XML_ROWS, pom, birds) == [("files without rows", "x 2")]
    assert [
        row["name"] for row in rows(XML_ROWS, written(tmp_path / "one.xml", "<a><name>Fox</name><b>c</b></a>"))
    ] == ["Fox"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<a><b>1</b></a>", "contains no list"),
        ("<rss><channel><title>Empty</title><link>x</link></channel></rss>", "contains no list"),
        (FEED[:300], "damaged or cut short"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a><b><name>&x;</name></b></a>', "undefined entity"),
        (
            "<!DOCTYPE a [<!ENTITY e0 'ha'>"
            + "".join(f"<!ENTITY e{n + 1} '{f'&e{n};' * 20}'>" for n in range(9))
            + "]><a><b><name>&e9;</name></b></a>",
            "damaged or cut short.*amplification",
        ),
    ],
)
def test_xml_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entries(XML_ROWS, written(tmp_path / "bad.xml", content))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<mediawiki><page/></mediawiki>", False),
        ('<?xml version="1.0"?><!-- a <html> --><!DOCTYPE html><html/>', False),
        ("\ufeff<?xml version='1.0'?>\n<!DOCTYPE a [<!ENTITY b 'c'>]><x:list/>", True),
        ('{"a": 1}', False),
    ],
)
def test_pages_and_dumps_of_wikis_are_not_recognized(text: str, expected: bool) -> None:
    assert XML_ROWS.recognizes(Path("a.xml"), text.encode()) == expected
    assert XML_ROWS.recognizes(Path("a.xml"), text.lstrip("\ufeff").encode("utf-16")) == expected
