from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from indexes.knowledge.knowledge_base import guess_format, hash_knowledge_base
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.bad_entries import SkippedEntries
from retriever.types import ArticleImage, Entity
from tests.fakes.reading import texts

FEED = """<?xml version="1.0" encoding="UTF-8"?>
<rss xmlns:g="http://base.google.com/ns/1.0"><channel>
<title>A shop</title><owner><name>Ann</name><mail>a@a.example</mail></owner>
<item><g:id>007</g:id><title>Mug</title><description>A &lt;b&gt;big&lt;/b&gt; mug.</description>
  <link>https://a.example/mug</link><g:image_link>https://a.example/mug.jpg</g:image_link>
  <g:price>12.50 EUR</g:price><g:shipping><g:country>DE</g:country><g:price>4.90 EUR</g:price></g:shipping></item>
<item><title>Pot</title></item>
</channel></rss>
"""
OBJECTS = """<collection><rooms><room n="1" floor="2"/><room n="2" floor="2"/></rooms>
<objects>
  <object id="3"><title lang="en">Bowl</title><images><image>bowl.jpg</image><image>back.jpg</image></images>
    <height unit="cm">4.5</height><note>Made in <place>Delft</place>, 1650.</note></object>
  <object id="4"><title>Vase</title></object>
  <object id="5"><title>Tile</title></object>
</objects></collection>
"""
WORDPRESS = """<rss xmlns:content="http://purl.org/rss/1.0/modules/content/"
  xmlns:wp="http://wordpress.org/export/1.2/"><channel>
<item><title>Foxes</title><link>https://a.example/foxes</link><description></description>
  <content:encoded><![CDATA[[caption id="1"]<img src="https://a.example/fox.jpg"> A fox[/caption]<h2>Food</h2>Mice.]]>
  </content:encoded><wp:status>publish</wp:status><wp:post_type>post</wp:post_type>
  <wp:comment><wp:comment_author_email>b@a.example</wp:comment_author_email></wp:comment></item>
<item><title>Draft</title><wp:status>draft</wp:status><wp:post_type>post</wp:post_type></item>
<item><title>Home</title><wp:status>publish</wp:status><wp:post_type>nav_menu_item</wp:post_type></item>
</channel></rss>
"""


def read(path: Path) -> list[Entity]:
    assert guess_format(path) == "xml"
    return list(read_knowledge_base(path, skipped=SkippedEntries(0)))


def test_the_items_of_a_feed(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml.gz"
    path.write_bytes(gzip.compress(FEED.encode()))
    mug, pot = read(path)
    assert (mug.id, mug.title, mug.url, mug.image) == (
        *("007", "Mug", "https://a.example/mug"),
        "https://a.example/mug.jpg",
    )
    facts = "Price: 12.50 EUR\nShipping, country: DE\nShipping, price: 4.90 EUR"
    assert texts(mug) == [("Mug", "A big mug."), ("Facts", facts)]
    assert (pot.id, pot.sections) == ("Pot", ())


def test_the_most_frequent_elements_of_those_next_to_the_root_that_repeat(tmp_path: Path) -> None:
    path = tmp_path / "objects.xml"
    path.write_text(OBJECTS)
    bowl, vase, tile = read(path)
    assert (bowl.id, bowl.title, vase.title, tile.id) == ("3", "Bowl", "Vase", "5")
    assert (bowl.image, bowl.images) == ("bowl.jpg", (ArticleImage("back.jpg"),))
    assert texts(bowl) == [("Facts", "Height: 4.5 cm\nNote: Made in Delft, 1650.")]


def test_an_export_of_wordpress_without_drafts_menus_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "export.xml"
    path.write_text(WORDPRESS)
    (foxes,) = read(path)
    assert (foxes.url, foxes.image) == ("https://a.example/foxes", "https://a.example/fox.jpg")
    assert texts(foxes) == [("Foxes", "A fox"), ("Food", "Mice.")]


@pytest.mark.parametrize(
    ("content", "message"), [("<a><b>1</b></a>", "contains no list"), (FEED[:300], "damaged or cut short")]
)
def test_xml_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read(path)


FOX = """<wrap xmlns:a="http://a.example/"><a:record>
<a:name xml:lang="fr">Renard</a:name><a:name xml:lang="en">Fox</a:name>
<a:description xml:lang="fr">{fr}</a:description>
<a:description xml:lang="en">{en}</a:description>
<photo>fox.jpg</photo></a:record></wrap>"""


def test_a_folder_with_a_record_per_file(tmp_path: Path) -> None:
    (tmp_path / "animals").mkdir()
    (tmp_path / "animals" / "fox.xml").write_text(FOX.format(fr="Il est roux. " * 9, en="It is red. " * 9))
    (tmp_path / "birds.xml").write_text("<birds><bird><name>Owl</name></bird><bird><name>Hen</name></bird></birds>")
    (tmp_path / ".hidden.xml").write_text("<a/>")
    fox, owl, hen = read(tmp_path)
    assert (fox.id, fox.title, fox.names, fox.image) == ("animals/fox", "Fox", ("Renard",), "fox.jpg")
    assert texts(fox) == [("Fox", ("It is red. " * 9).strip())]
    assert [one.id for one in (owl, hen)] == ["Owl", "Hen"]
    (tmp_path / "birds.xml").write_text("<birds>")
    before = hash_knowledge_base(tmp_path, "xml")
    with pytest.raises(ValueError, match=r"birds\.xml: damaged or cut short"):
        read(tmp_path)
    (tmp_path / "animals" / "fox.xml").write_text("<record><name>Fox</name></record>")
    assert hash_knowledge_base(tmp_path, "xml") != before


OAI = """<OAI-PMH xmlns="http://a.example/oai"><request verb="ListRecords">https://a.example/oai</request><ListRecords>
<record><header><identifier>oai:a:7</identifier><datestamp>2016-03-01</datestamp></header><metadata>
  <dc xmlns="http://a.example/dc" xmlns:xsi="http://a.example/xsi" xsi:schemaLocation="a b"><title>Bowl</title>
    <creator>Ann</creator><creator>Bo</creator><description>It is blue.</description></dc></metadata></record>
<record><header><identifier>oai:a:8</identifier></header><metadata><mods><titleInfo><title>Vase</title></titleInfo>
  <titleInfo type="alternative"><title>Tall vase</title></titleInfo>
  <name type="personal"><namePart>Ann</namePart></name>
  <genre>vase</genre></mods></metadata></record>
</ListRecords></OAI-PMH>"""


def test_a_harvest_of_records(tmp_path: Path) -> None:
    (tmp_path / "harvest.xml").write_text(OAI, encoding="utf-8")
    bowl, vase = read(tmp_path / "harvest.xml")
    assert bowl.title == "Bowl" and texts(bowl)[0] == ("Bowl", "It is blue.")
    assert "Creator: Ann, Bo" in texts(bowl)[1][1]
    assert (vase.title, vase.names) == ("Vase", ("Tall vase",)) and "Genre: vase" in texts(vase)[0][1]


def test_what_names_of_feeds_mean(tmp_path: Path) -> None:
    atom = """<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><title>Loon</title>
    <link rel="enclosure" type="image/png" href="https://b.example/loon.png"/><link rel="alternate" href="https://b.example/loon"/>
    <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><h2>Diet</h2><p>Fish<br/>and <b>frogs</b>.</p></div>
    </content></entry><entry><id>2</id><title>Teal</title><link href="https://b.example/teal"/></entry></feed>"""
    (tmp_path / "atom.xml").write_text(atom)
    loon, teal = read(tmp_path / "atom.xml")
    assert (loon.url, loon.image) == ("https://b.example/loon", "https://b.example/loon.png")
    assert texts(loon)[0] == ("Diet", "Fish\nand frogs.") and teal.url == "https://b.example/teal"
    rss = """<rss xmlns:c="http://purl.org/rss/1.0/modules/content/" xmlns:m="http://search.yahoo.com/mrss/"><channel>
    <item><title>Loon</title><c:encoded>It dives.</c:encoded><m:content url="https://b.example/1.jpg"/></item>
    <item><title>Teal</title><c:encoded>It dabbles.</c:encoded></item></channel></rss>"""
    (tmp_path / "rss.xml").write_text(rss)
    loon, teal = read(tmp_path / "rss.xml")
    assert texts(loon) == [("Loon", "It dives.")] and loon.image == "https://b.example/1.jpg"
