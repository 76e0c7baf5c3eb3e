"""Readers of other packages are found by entry points, and are asked first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexes.knowledge.readers.registry import reader_named, readers
from indexes.knowledge.reading import read_knowledge_base

MODULE = """
from indexes.knowledge.document import Block, Document, Heading
from indexes.knowledge.readers import Reader


def read(file, folder):
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        name, _, text = line.partition(" = ")
        yield f"{file}: line {number}", Document(parts=[Heading(1, name), Block(text)], id=name)


SAYINGS = Reader("sayings", (".say",), lambda path, start: b" = " in start, read)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Installs an example package with a reader, as pip would."""
    folder = tmp_path / "site"
    (folder / "sayings-1.0.dist-info").mkdir(parents=True)
    (folder / "sayings_reader.py").write_text(MODULE)
    (folder / "sayings-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: sayings\nVersion: 1.0\n")
    (folder / "sayings-1.0.dist-info/entry_points.txt").write_text("[omgm.readers]\nsay = sayings_reader:SAYINGS\n")
    monkeypatch.syspath_prepend(folder)
    readers.cache_clear()
    yield folder
    readers.cache_clear()
    sys.modules.pop("sayings_reader", None)


def test_a_new_format_is_one_new_file(package: Path, tmp_path: Path) -> None:
    notes = tmp_path / "kb"
    notes.mkdir()
    (notes / "a.say").write_text("Fox = It is red.\nHare = It is brown.\n")
    (notes / "owl.md").write_text("# Owl\n\nIt is gray.\n")
    entities = list(read_knowledge_base(notes))
    assert [(one.id, one.title, one.sections[0].text) for one in entities] == [
        ("Fox", "Fox", "It is red."),
        ("Hare", "Hare", "It is brown."),
        ("owl", "Owl", "It is gray."),
    ]
    assert reader_named("sayings").suffixes == (".say",)
    assert len(list(read_knowledge_base(notes / "a.say"))) == 2


def test_an_entry_point_that_is_no_reader_is_named(package: Path) -> None:
    (package / "sayings-1.0.dist-info/entry_points.txt").write_text("[omgm.readers]\nsay = sayings_reader:read\n")
    with pytest.raises(ValueError, match=r"'say' of omgm\.readers \(sayings 1\.0\): expected a Reader, got function"):
        readers()


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="format 'docx' is unknown; use one of zim, epub, evqa, infoseek"):
        reader_named("docx")
