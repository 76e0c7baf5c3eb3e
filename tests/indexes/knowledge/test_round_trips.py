"""Knowledge bases written by each format's own common writer, and read back entity for entity."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.knowledge.ledger import Ledger
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import open_images
from tests.fakes.reading import texts

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDXYZéüß\u0142\u043a\u0442漢字\u0e19\u0627"
NAMES = st.text(f"{LETTERS}0123456789 -',", min_size=1, max_size=20).map(lambda text: " ".join(text.split()))
NAMES = NAMES.filter(lambda text: any(map(str.isalpha, text)) and text[0].isalpha() and text not in ("true", "false"))
PARAGRAPHS = st.lists(NAMES.map(lambda text: f"{text}."), min_size=1, max_size=3)
VALUES = NAMES | st.sampled_from(["NA", "None", "null", "nan", "True", "007", "1e5", "N/A", "0", "3.50", '"x", y; z'])


class Thing(NamedTuple):
    """An entity: its title, the paragraphs of its text, and two facts, "" for none."""

    title: str
    text: list[str]
    height: str
    found_in: str

    def row(self) -> dict[str, str]:
        """Returns its fields."""
        return {"title": self.title, "text": "\n".join(self.text), "height": self.height, "found in": self.found_in}

    def expected(self, title: str | None = None) -> list[tuple[str, str]]:
        """Returns its sections."""
        facts = [
            f"{label}: {value}" for label, value in (("Height", self.height), ("Found in", self.found_in)) if value
        ]
        found = [(title or self.title, "\n".join(self.text))]
        return [*found, ("Facts", "\n".join(facts))] if facts else found


THINGS = st.lists(
    st.builds(Thing, NAMES, PARAGRAPHS, VALUES | st.just(""), VALUES | st.just("")),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.title,
)


def to_csv(things: list[Thing], folder: Path) -> Path:
    with (folder / "kb.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(things[0].row()))
        table.writeheader()
        table.writerows(one.row() for one in things)
    return folder / "kb.csv"


def to_json(things: list[Thing], folder: Path) -> Path:
    (folder / "kb.json").write_text(json.dumps([one.row() for one in things]))
    return folder / "kb.json"


def to_lines(things: list[Thing], folder: Path) -> Path:
    lines = (json.dumps(one.row(), ensure_ascii=False) + "\n" for one in things)
    (folder / "kb.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder / "kb.jsonl"


def to_yaml(things: list[Thing], folder: Path) -> Path:
    (folder / "kb.yml").write_text(yaml.safe_dump([one.row() for one in things], sort_keys=False), encoding="utf-8")
    return folder / "kb.yml"


def to_xml(things: list[Thing], folder: Path) -> Path:
    root = ElementTree.Element("things")
    for one in things:
        element = ElementTree.SubElement(root, "thing")
        for name, value in one.row().items():
            ElementTree.SubElement(element, name.replace(" ", "_")).text = value
    root.append(ElementTree.fromstring("<thing><title>Last</title><text>End</text></thing>"))  # a list has several
    ElementTree.ElementTree(root).write(folder / "kb.xml", encoding="utf-8")
    return folder / "kb.xml"


def frame(things: list[Thing]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame([{name: value or None for name, value in one.row().items()} for one in things])


def to_pandas_csv(things: list[Thing], folder: Path) -> Path:
    frame(things).to_csv(folder / "kb.csv", index=False)
    return folder / "kb.csv"


def to_parquet(things: list[Thing], folder: Path) -> Path:
    pytest.importorskip("pyarrow")
    frame(things).to_parquet(folder / "kb.parquet")
    return folder / "kb.parquet"


def to_pandas(name: str, **options: Any) -> Callable[[list[Thing], Path], Path]:
    """Returns a function that writes JSON as pandas does with these options."""

    def write(things: list[Thing], folder: Path) -> Path:
        frame(things).to_json(folder / name, **options)
        return folder / name

    write.__name__ = "to_pandas_" + ("lines" if "lines" in options else options["orient"])
    return write


def to_notes(things: list[Thing], folder: Path) -> Path:
    """Writes notes as python-frontmatter does."""
    (folder / "notes").mkdir()
    for number, one in enumerate(things):
        row = one.row()
        text = row.pop("text").replace("\n", "\n\n")
        front = yaml.safe_dump({name: value for name, value in row.items() if value}, sort_keys=False)
        (folder / "notes" / f"{number}.md").write_text(f"---\n{front}---\n\n{text}\n", encoding="utf-8")
    return folder / "notes"


def page(one: Thing) -> str:
    facts = "".join(f"<tr><th>{escape(label)}</th><td>{escape(value)}</td></tr>" for label, value in labeled(one))
    box = f"<table class=infobox>{facts}</table>" if facts else ""
    body = "".join(f"<p>{escape(line)}</p>" for line in one.text)
    title = escape(one.title)
    return f"<html><head><title>{title}</title></head><body>{box}<h1>{title}</h1>{body}</body></html>"


def labeled(one: Thing) -> list[tuple[str, str]]:
    return [(label, value) for label, value in (("Height", one.height), ("Found in", one.found_in)) if value]


def to_site(things: list[Thing], folder: Path) -> Path:
    (folder / "site").mkdir()
    for number, one in enumerate(things):
        (folder / "site" / f"{number}.html").write_text(page(one), encoding="utf-8")
    return folder / "site"


def to_zim(things: list[Thing], folder: Path) -> Path:
    writer = pytest.importorskip("libzim.writer")

    class Page(writer.Item):  # type: ignore[name-defined, misc, unused-ignore]
        def __init__(self, name: str, title: str, content: str) -> None:
            super().__init__()
            self.name, self.title, self.content = name, title, content

        def get_path(self) -> str:
            return self.name

        def get_title(self) -> str:
            return self.title

        def get_mimetype(self) -> str:
            return "text/html"

        def get_contentprovider(self) -> Any:
            return writer.StringProvider(self.content)

        def get_hints(self) -> dict[Any, int]:
            return {}

    with writer.Creator(folder / "kb.zim").config_indexing(False, "eng") as creator:
        creator.set_mainpath("main")
        creator.add_item(Page("main", "", "<p>Main</p>"))
        for number, one in enumerate(things):
            creator.add_item(Page(f"p{number}", one.title, page(one)))
    return folder / "kb.zim"


def to_dump(things: list[Thing], folder: Path) -> Path:
    pytest.importorskip("mwparserfromhell")
    pages = []
    for one in things:
        facts = "".join(f"\n| {label.replace(' ', '_').lower()} = {value}" for label, value in labeled(one))
        wikitext = f"{{{{Infobox thing{facts}\n}}}}\n" + "\n\n".join(one.text)
        text = escape(wikitext.replace("''", "&#39;&#39;"))  # two apostrophes begin italics
        revision = f"<revision><id>1</id><text xml:space='preserve'>{text}</text></revision>"
        pages.append(f"<page><title>{escape(one.title)}</title><ns>0</ns><id>1</id>{revision}</page>")
    head = "<mediawiki><siteinfo><base>http://w.example/wiki/Main</base></siteinfo>"
    (folder / "kb.xml").write_text(f"{head}{''.join(pages)}</mediawiki>", encoding="utf-8")
    return folder / "kb.xml"


WRITERS = [
    *(to_csv, to_json, to_lines, to_yaml, to_xml, to_pandas_csv, to_parquet, to_notes, to_site, to_zim, to_dump),
    *(to_pandas("kb.json", orient=orient) for orient in ("records", "columns", "index")),
    to_pandas("kb.json", orient="table", index=False),
    to_pandas("kb.jsonl", orient="records", lines=True),
]


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@given(things=THINGS)
@settings(max_examples=8, derandomize=True)
def test_what_was_written_is_read(write: Callable[[list[Thing], Path], Path], things: list[Thing]) -> None:
    with TemporaryDirectory() as name:
        ledger = Ledger(name)
        found = list(read_knowledge_base(write(things, Path(name)), ledger=ledger))
    found = [one for one in found if one.title != "Last"]
    assert sorted(one.title for one in found) == sorted(one.title for one in things)
    by_title = {one.title: one for one in found}
    for one in things:
        assert texts(by_title[one.title]) == one.expected()
    assert not [
        loss for loss in ledger.left_out.values() if loss.unit == "words" and "entry 'main'" not in loss.example
    ]


@given(titles=st.lists(NAMES, min_size=1, max_size=4, unique=True), height=VALUES, wrapped=st.booleans())
@settings(max_examples=8, derandomize=True)
def test_images_and_maps_in_parquet_are_those_of_their_rows(titles: list[str], height: str, wrapped: bool) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    contents = [f"PNG {title}".encode() for title in titles]
    images = [{"bytes": one, "path": None} for one in contents] if wrapped else contents
    maps = pyarrow.array([[("height", height)] for _ in titles], pyarrow.map_(pyarrow.string(), pyarrow.string()))
    with TemporaryDirectory() as name:
        path = Path(name) / "kb.parquet"
        parquet.write_table(pyarrow.table({"title": titles, "image": images, "size": maps}), path)
        found = list(read_knowledge_base(path))
        source = open_images(None, path, "parquet")
        assert source is not None
        read = {one.title: source.content(source.find(one.image or "") or "") for one in found}
    assert read == dict(zip(titles, contents, strict=True))
    assert all(texts(one) == [("Facts", f"Size, height: {height}")] for one in found)
