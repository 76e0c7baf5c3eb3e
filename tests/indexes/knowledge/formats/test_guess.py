"""The format of files and folders, and what is said about those that are not read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.knowledge_base import guess_format
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.bad_entries import SkippedEntries

KML = """<?xml version="1.0"?><kml xmlns="http://a.example/kml"><Document><name>Walks</name>
<Placemark><name>Tower</name><description><![CDATA[<img src="tower.jpg"> It is tall.]]></description></Placemark>
<Placemark><name>Bridge</name><description>It is old.</description></Placemark></Document></kml>"""
BLOB = "\n".join(["iVBORw0KGgo" * 7] * 4 + ["iVBORw0K="])
NOTES = f"""<?xml version="1.0"?><en-export><note><title>Fox</title><content>&lt;p&gt;It is red.&lt;/p&gt;</content>
<resource><data encoding="base64">{BLOB}</data>
<mime>image/png</mime></resource></note><note><title>Hen</title><content>Brown.</content></note></en-export>"""


@pytest.mark.parametrize(
    ("name", "content", "format", "title", "text"),
    [
        ("walks.kml", KML, "xml", "Tower", "It is tall."),
        ("notes.enex", NOTES, "xml", "Fox", "It is red."),
        ("taxon.txt", "taxonID\tscientificName\trank\n7\tVulpes vulpes\tspecies\n", "csv", "Vulpes vulpes", ""),
        ("old.tab", "id|label|rank\r\r7|Fox|species\r", "csv", "Fox", ""),
        ("foxes.txt", "id,name,rank\n7,Fox,species\n", "csv", "Fox", ""),
        ("a.geojson", '{"features": [{"properties": {"name": "Den", "text": "A hole."}}]}', "jsonl", "Den", "A hole."),
        ("a.jsonld", '[{"@type": "Thing", "name": "Den", "description": "A hole."}]', "jsonl", "Den", "A hole."),
    ],
)
def test_files_of_other_extensions_are_known_by_their_content(
    tmp_path: Path, name: str, content: str, format: str, title: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    assert guess_format(path) == format
    first = next(iter(read_knowledge_base(path, skipped=SkippedEntries(0))))
    assert first.title == title
    assert not text or first.sections[0].text == text
    assert not any("iVBOR" in section.text for section in first.sections)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("fox.md", "one article; name the folder that it is in"),
        ("guide.adoc", "AsciiDoc; make pages of it, as with: asciidoctor --destination-dir pages guide.adoc"),
        ("guide.rst", "pandoc guide.rst --to gfm --extract-media . --output guide.md"),
        ("book.epub", "a book; unpack it, and name the folder: unzip book.epub -d book"),
        ("kb.tar.gz", "an archive; unpack it"),
        ("Fox.tid", r"a tiddler; make pages, as with: tiddlywiki \. --rendertiddlers"),
        ("foxes.bib", "a bibliography; .*pandoc foxes.bib --to csljson --output foxes.json"),
        ("foxes.arrow", r"a data frame; .*pandas: read_feather\('foxes.arrow'\)\.to_parquet\('foxes.parquet'\)"),
        ("foxes.gpkg", "geodata; .*ogr2ogr foxes.geojson foxes.gpkg"),
        ("foxes.pickle", "a pickle, which could run programs"),
        ("notes.txt", r"unknown extension; known are folders of Markdown \(.md\) or pages"),
    ],
)
def test_what_is_not_read_says_what_to_do(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).write_text("A fox.\nIt is red.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=advice):
        guess_format(tmp_path / name)


def test_a_folder_of_articles_that_are_not_read(tmp_path: Path) -> None:
    for name in ("a.rst", "b.rst", "index.html", ".hidden/c.org"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("<p>Hi</p>", encoding="utf-8")
    with pytest.raises(ValueError, match=r"holds 2 files \*\.rst, reStructuredText; build its pages"):
        guess_format(tmp_path)


def test_a_wiki_in_one_page_is_named(tmp_path: Path) -> None:
    (tmp_path / "wiki.html").write_text("<body><div id='storeArea'><div title='Fox'><pre>Red.</pre></div></div></body>")
    skipped = SkippedEntries(1)
    assert not list(read_knowledge_base(tmp_path, skipped=skipped))
    assert "a whole TiddlyWiki in one page" in skipped.listed[0]["reason"]


def test_a_readme_beside_what_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Foxes\n\nData of foxes.", encoding="utf-8")
    assert guess_format(tmp_path) == "markdown"
    (tmp_path / "foxes.json").write_text('[{"name": "Red fox"}]', encoding="utf-8")
    assert guess_format(tmp_path) == "jsonl"
    (tmp_path / "metadata.csv").write_text("file_name,text\na.jpg,A fox\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"name the file in it: .*metadata\.csv"):
        guess_format(tmp_path)
    (tmp_path / "den.md").write_text("A hole.", encoding="utf-8")
    assert guess_format(tmp_path) == "markdown"


def test_a_folder_of_tables_beside_what_describes_them(tmp_path: Path) -> None:
    """Such as a Darwin Core archive."""
    for name in ("meta.xml", "eml.xml"):
        (tmp_path / name).write_text("<archive/>", encoding="utf-8")
    (tmp_path / "media.txt").write_text("id\turl\n7\ta.jpg\n", encoding="utf-8")
    (tmp_path / "taxon.txt").write_text("id\tscientificName\n7\tVulpes vulpes\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"name one of its 4 files, such as .*taxon\.txt$"):
        guess_format(tmp_path)


BIRD = "The {0} sings before dawn."
FORMATS = {
    "markdown": (".md", "# {0}\n\n" + BIRD + "\n"),
    "website": (".html", "<html><body><h1>{0}</h1><p>" + BIRD + "</p></body></html>"),
    "jsonl": (".json", '{{"name": "{0}", "text": "' + BIRD + '"}}'),
    "xml": (".xml", "<bird><name>{0}</name><text>" + BIRD + "</text></bird>"),
}


def write(folder: Path, format: str, *names: str) -> None:
    suffix, text = FORMATS[format]
    for name in names:
        path = folder / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(path.stem))


def titles(path: Path, format: str, skipped: SkippedEntries | None = None, losses: Losses | None = None) -> list[str]:
    skipped = skipped or SkippedEntries(0)
    return [one.title for one in read_knowledge_base(path, format, skipped=skipped, ledger=losses)]


@pytest.mark.parametrize("format", FORMATS)
def test_files_of_systems_are_not_read(tmp_path: Path, format: str) -> None:
    write(
        tmp_path,
        format,
        "robin",
        "north/wren",
        "._robin",
        ".git/owl",
        "__MACOSX/crow",
        "@eaDir/kite",
        ".Trash-1000/tit",
    )
    write(tmp_path, format, ".thumbnails/finch", "node_modules/emu", "$RECYCLE.BIN/swan", "north/.obsidian/hen")
    assert guess_format(tmp_path) == format
    assert titles(tmp_path, format) == ["wren", "robin"]


@pytest.mark.parametrize("format", FORMATS)
def test_what_cannot_be_read_is_one_bad_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    write(tmp_path, format, "robin", "secret", "wren", "closed/owl")
    scandir, open_file = os.scandir, Path.open

    def refusing_folder(path: Any) -> Any:
        if str(path).endswith("closed"):  # root may read everything
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    def refusing_file(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.stem == "secret":
            raise PermissionError(13, "Permission denied")
        return open_file(path, *args, **kwargs)

    monkeypatch.setattr(os, "scandir", refusing_folder)
    monkeypatch.setattr(Path, "open", refusing_file)
    skipped = SkippedEntries(1)
    assert guess_format(tmp_path) == format
    assert titles(tmp_path, format, skipped) == ["robin", "wren"]
    assert [(one["place"], one["reason"]) for one in skipped.listed] == [
        ("closed", "cannot be read: Permission denied"),
        (f"secret{FORMATS[format][0]}", "cannot be read: Permission denied"),
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_links(tmp_path: Path, format: str) -> None:
    kb, elsewhere, losses = tmp_path / "kb", tmp_path / "elsewhere", Losses()
    write(kb, format, "robin", "north/wren")
    write(elsewhere, format, "owl", "crow")
    suffix = FORMATS[format][0]
    (kb / "owls").symlink_to(elsewhere)
    (kb / "again").symlink_to(kb / "north")  # its files come once
    (kb / f"owl{suffix}").symlink_to(elsewhere / f"owl{suffix}")
    assert titles(kb, format, ledger=losses) == ["wren", "owl", "robin"]
    (loss,) = [one for reason, one in losses.left_out.items() if "linked folders" in reason]
    assert loss.count == 2 and f"owls leads to {elsewhere}".startswith(loss.example)  # long examples are cut


@pytest.mark.parametrize(
    ("format", "beside"),
    [
        ("jsonl", ["data/wren.yml", "birds.csv"]),
        ("markdown", ["_data/birds.csv", "pages/wren.html", "data.json", "wren.txt", "table.parquet", "birds.xlsx"]),
        ("website", ["birds.tsv", "feed.xml"]),
    ],
)
def test_files_of_other_formats_are_counted(format: str, beside: list[str], tmp_path: Path) -> None:
    write(tmp_path, format, "robin")
    for name in (*beside, "README.md", "node_modules/x.json", ".obsidian/app.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if format != "markdown" or name != "README.md":
            (tmp_path / name).write_text("A wren is a small bird that sings.")
    losses = Losses(str(tmp_path))
    assert titles(tmp_path, format, ledger=losses) == ["robin"]
    [loss] = losses.left_out.values()
    assert (loss.unit, loss.count) == ("files", len(beside)) and loss.example in beside


@pytest.mark.parametrize(
    ("texts", "is_wiki"),
    [
        (["====== Fox ======\nIt is //red//.", "== Hen ==\nIt lays eggs."], True),
        (["Fox\n===\nIt is red.", "Hen\n=====\nIt lays eggs."], False),
        (["It is red: a == b.\n\n=======\n", "Hens lay eggs, and are brown."], False),
    ],
)
def test_texts_in_a_wikis_markup_are_refused(texts: list[str], is_wiki: bool, tmp_path: Path) -> None:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    if is_wiki:
        with pytest.raises(ValueError, match="--from dokuwiki --to gfm"):
            guess_format(tmp_path)
    else:
        assert guess_format(tmp_path) == "markdown"
