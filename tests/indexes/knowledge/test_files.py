"""Which reader reads a file, judged by its name and content; files of systems, links, and files that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.knowledge_base import guess_format
from indexes.knowledge.ledger import Ledger
from indexes.knowledge.reading import read_knowledge_base

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
        ("old.tab", "id|label|rank\r\n7|Fox|species\r\n", "csv", "Fox", ""),
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
        ("guide.adoc", "AsciiDoc; make pages of it, as with: asciidoctor --destination-dir pages guide.adoc"),
        ("guide.rst", "pandoc guide.rst --to gfm --extract-media . --output guide.md"),
        ("kb.tar.gz", "an archive; unpack it"),
        ("Fox.tid", r"a tiddler; make pages, as with: tiddlywiki \. --rendertiddlers"),
        ("foxes.bib", "a bibliography; .*pandoc foxes.bib --to csljson --output foxes.json"),
        ("foxes.arrow", r"a data frame; .*pandas: read_feather\('foxes.arrow'\)\.to_parquet\('foxes.parquet'\)"),
        ("foxes.gpkg", "geodata; .*ogr2ogr foxes.geojson foxes.gpkg"),
        ("foxes.pickle", "a pickle, which could run programs"),
    ],
)
def test_what_is_not_read_says_what_to_do(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).write_text("A fox.\nIt is red.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=advice):
        guess_format(tmp_path / name)


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


def titles(path: Path, format: str, skipped: SkippedEntries | None = None, ledger: Ledger | None = None) -> list[str]:
    skipped = skipped or SkippedEntries(0)
    return [one.title for one in read_knowledge_base(path, format, skipped=skipped, ledger=ledger)]


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
    assert titles(tmp_path, format, skipped) == ["robin", "wren"]
    assert [(one["place"], one["reason"]) for one in skipped.listed] == [
        ("closed", "cannot be read: Permission denied"),
        (f"secret{FORMATS[format][0]}", "cannot be read: Permission denied"),
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_links(tmp_path: Path, format: str) -> None:
    kb, elsewhere, ledger = tmp_path / "kb", tmp_path / "elsewhere", Ledger()
    write(kb, format, "robin", "north/wren")
    write(elsewhere, format, "owl", "crow")
    suffix = FORMATS[format][0]
    (kb / "owls").symlink_to(elsewhere)
    (kb / "again").symlink_to(kb / "north")  # its files come once
    (kb / f"owl{suffix}").symlink_to(elsewhere / f"owl{suffix}")
    assert titles(kb, format, ledger=ledger) == ["wren", "owl", "robin"]
    (loss,) = [one for reason, one in ledger.left_out.items() if "linked folders" in reason]
    assert loss.count == 2 and f"owls leads to {elsewhere}".startswith(loss.example)  # long examples are cut
