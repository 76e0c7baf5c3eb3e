"""Notes as documents: their parts, values, ids and titles, and what makes a file no note."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.knowledge.document import Block, Cell, Document, Heading, Picture, Table
from indexes.knowledge.embedded import embedded_name
from indexes.knowledge.identity import common_names, note_title
from indexes.knowledge.readers import Folder
from indexes.knowledge.readers.markdown import MARKDOWN
from indexes.knowledge.reading import read_knowledge_base
from retriever.types import ArticleImage, Section
from tests.indexes.knowledge.readers.test_dialects import documents, text_of

NOTE = """---
title: Frog
legs: 4
---
# The *frog* & <kbd>Esc</kbd>

A **bold** and _slanted_, ~~struck~~ `code`, [link](a.md).
It goes on<br>here and&nbsp;here. 100 % sure &amp; more <your name>

- [one](x)
  - two

| Name | Age |
|:-----|----:|
| **Fox** | 3 |

![Kermit](../kermit%20one.jpg "A title") <img src="fozzie.jpg" alt="Fozzie" width="300">

```python
x = **1
```
***
"""


def test_a_note_is_a_document(tmp_path: Path) -> None:
    (frog,) = documents(tmp_path, **{"notes/the frog": NOTE}).values()
    assert (frog.id, frog.title, frog.values) == ("notes/the frog", "", {"title": "Frog", "legs": "4"})
    assert frog.parts == [
        Heading(1, "The frog & Esc"),
        Block("A bold and slanted, struck code, link. It goes on\nhere and here. 100 % sure & more <your name>"),
        Block("one", is_links=True),
        Block("two"),
        Table(((Cell("Name", header=True), Cell("Age", header=True)), (Cell("Fox", header=True), Cell("3")))),
        Block("", (Picture("../kermit%20one.jpg", "Kermit"), Picture("fozzie.jpg", "Fozzie", sides=(300,)))),
        Block("x = **1"),
    ]


def test_a_note_that_cannot_be_read_is_an_error_and_the_next_ones_follow(tmp_path: Path) -> None:
    contents = {"a.md": b"# Caf\xe9\n", "b.md": b"---\na: [b\n---\nText", "c.md": b"Text."}
    files = [tmp_path / name for name in contents]
    for file, content in zip(files, contents.values(), strict=True):
        file.write_bytes(content)
    entries = [entry for file in files for _, entry in MARKDOWN.read(file, Folder(tmp_path, files))]
    assert isinstance(entries[0], ValueError) and "not UTF-8" in str(entries[0]) and "WINDOWS-1252" in str(entries[0])
    assert isinstance(entries[1], ValueError) and "b.md: line " in str(entries[1])
    assert isinstance(entries[2], Document) and text_of(entries[2]) == "Text."


def test_titles_are_names_of_files_or_folders() -> None:
    names = {
        "Gold-Pan.md": "Gold Pan",
        "red_fox.md": "red fox",
        "2020-01-05.md": "2020-01-05",
        "The X-ray.md": "The X-ray",
    }
    others = {
        "topics/3d/index.md": "3d",
        "a/_index.md": "a",
        "README.md": "kb",
        "Bagel/note.md": "Bagel",
        "x/y.md": "y",
    }
    common = common_names([Path("Bagel/note.md"), Path("b/Note.md"), Path("x/y.md")])
    assert common == {"note"} and common_names([Path("linux/install.md"), Path("b.md")]) == frozenset()
    assert {name: note_title(name, "kb", common) for name in names | others} == names | others


def test_in_a_vault_the_title_is_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    found = documents(tmp_path, **{"202301": "# An inbox", "Red-fox": "# Index", "Wolf": "---\ntitle: Lupus\n---\nC"})
    assert {id: note.title for id, note in found.items()} == {"202301": "", "Red-fox": "Red-fox", "Wolf": ""}


@pytest.mark.parametrize(
    ("name", "start", "is_note"),
    [
        ("a.md", b"", True),
        ("a.qmd", b"{}", True),
        ("Oven.txt", "Bought in Zürich.".encode("utf-16"), True),
        ("boxes.txt", b"0 0.5 0.5 0.1 0.1\n", False),
        ("b.txt", b"[1]", False),
        ("labels.txt", b"cat\ndog", False),
        ("requirements.txt", b"some words", False),
        ("a.json", b"Some words", False),
    ],
)
def test_which_files_are_notes(name: str, start: bytes, is_note: bool) -> None:
    assert MARKDOWN.recognizes(Path(name), start) == is_note


def test_lines_of_plain_text_remain_lines(tmp_path: Path) -> None:
    text = "Bought in Zürich.\nPrice: 40 francs\n\n    Weight: 2 kg\n"
    (oven,) = documents(tmp_path, **{"oven.txt": text}).values()
    assert text_of(oven) == "Bought in Zürich.\nPrice: 40 francs\nWeight: 2 kg"


@pytest.mark.parametrize(
    "written", ["![A](%s)", "![A][i]\n\n[i]: <%s>", '<img src="%s" alt="A">', "<p>\n![A](%s)\n</p>"]
)
def test_embedded_images_have_names_and_large_ones_are_fast(tmp_path: Path, written: str) -> None:
    data = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20_000).decode()
    start = time.perf_counter()
    (note,) = documents(tmp_path, **{"my notes/a b": f"# Fox\n\n{written % data}\n"}).values()
    assert time.perf_counter() - start < 5
    pictures = [picture for part in note.parts if isinstance(part, Block) for picture in part.pictures]
    assert pictures == [Picture(embedded_name("my notes/a b.md", data), "A")]


FOX = """---
id: fox
tags:
  - animals
title: "Red fox"
url: https://e.example/fox
---
# Fox

A [wild](https://e.example/wild "W") animal. ![A fox (male)](img/fox_(red).jpg "Title") It runs.

## Diet #
Mice.
### Winter
Berries. ![](<../shared/berry bush.png>)
```
## no heading, ![no picture](x.png)
```
## References
[1]
## Range
![Map](https://e.example/map.png) ![dot](data:image/png;base64,AAAA) Europe.
"""


def test_a_folder_of_notes_as_entities(tmp_path: Path) -> None:
    (tmp_path / "animals").mkdir()
    (tmp_path / "animals" / "fox.md").write_text(FOX)
    (tmp_path / "Zebra.MD").write_bytes(b"\xef\xbb\xbfStriped.\r\n\r\n![z](/pictures/z.jpg)\r\n")
    (tmp_path / "untitled.md").write_text("## First\ntext\n# Second\nmore\n")
    (tmp_path / ".obsidian").mkdir()
    (tmp_path / ".obsidian" / "hidden.md").write_text("# Hidden")
    (tmp_path / "empty.md").write_text("")
    zebra, fox, untitled = read_knowledge_base(tmp_path)
    assert (fox.id, fox.title, fox.url) == ("fox", "Red fox", "https://e.example/fox")
    assert fox.sections == (
        Section("Fox", "A wild animal. It runs.", 0),  # the front matter has another title
        Section("Diet", "Mice.", 1),
        Section("Winter", "Berries.\n## no heading, ![no picture](x.png)", 2),
        Section("References", "[1]", 3),
        Section("Range", "Europe.", 4),
        Section("Facts", "Tags: animals", 5),
    )
    assert fox.images == (
        ArticleImage("animals/img/fox_(red).jpg", 0, "A fox (male)"),
        ArticleImage("shared/berry bush.png", 2, ""),
        ArticleImage("https://e.example/map.png", 4, "Map"),
    )
    assert fox.image == "animals/img/fox_(red).jpg"
    assert (zebra.id, zebra.title, zebra.image) == ("Zebra", "Zebra", "pictures/z.jpg")
    assert zebra.sections == (Section("Zebra", "Striped.", 0),)
    assert untitled.sections == (Section("First", "text", 1), Section("Second", "more", 2))


WORDS = st.text("abcdefgh äß", min_size=1).map(str.strip).filter(bool)


@given(
    st.lists(
        st.tuples(st.sampled_from(["{}", "# {}", "- {}", "> {}", "**{}**", "`{}`", "[{}](x)", "```\n{}\n```"]), WORDS)
    )
)
def test_every_word_is_kept(tmp_path_factory: pytest.TempPathFactory, blocks: list[tuple[str, str]]) -> None:
    text = "\n\n".join(form.format(words) for form, words in blocks)
    (note,) = documents(tmp_path_factory.mktemp("kb"), note=text).values()
    assert text_of(note).replace("#", "").split() == " ".join(words for _, words in blocks).split()
