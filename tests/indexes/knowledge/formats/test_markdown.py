from __future__ import annotations

from pathlib import Path

import pytest

from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.bad_entries import SkippedEntries
from retriever.types import ArticleImage, Entity, Section
from tests.fakes.reading import texts


def read(folder: Path, files: dict[str, str], **names: str) -> dict[str, Entity]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    skipped = SkippedEntries(0)
    return {entity.id: entity for entity in read_knowledge_base(folder, names=names, skipped=skipped)}


def test_a_catalog_with_a_folder_per_topic(tmp_path: Path) -> None:
    # the layout of github/explore
    topic = (
        "---\naliases: three-d, 3d-models\ndisplay_name: 3D\nlogo: 3d.png\nurl: https://e.example/3d\n---\nModels.\n"
    )
    found = read(tmp_path, {"topics/3d/index.md": topic, "topics/3d/3d.png": "", "topics/c/index.md": "Letters.\n"})
    entity = found["topics/3d/index"]
    assert (entity.title, entity.image, entity.url) == ("3D", "topics/3d/3d.png", "https://e.example/3d")
    assert texts(entity) == [("3D", "Models.")] and entity.names == ("three-d", "3d-models")
    assert found["topics/c/index"].title == "c"  # "index" says nothing


def test_fields_of_ones_own(tmp_path: Path) -> None:
    note = "---\ntitle: wrong\ninfo:\n  label: Right\nbild: a/b.png\n---\nText.\n"
    (entity,) = read(tmp_path, {"x.md": note, "a/b.png": ""}, title="info.label", image="bild").values()
    assert (entity.title, entity.image) == ("Right", "a/b.png")


@pytest.mark.parametrize(
    ("front", "title", "image"),
    [
        ("---\ntitle: >\n  Red\n  fox\ncover:\n  image: fox.png\n  alt: A fox\n---\n", "Red fox", "fox.png"),
        ("+++\ntitle = 'Red fox'\n[params]\nx = 1\n+++\n", "Red fox", None),
        ("+++\ntitle = 'Red fox'\nimage = ['fox.png', 'b.png']\n+++\n", "Red fox", "fox.png"),
        ("---\nTitle: 1984\ntags: [a, b]\nphoto:\n  - fox.png\n---\n", "1984", "fox.png"),
        ("---\ntitle: Foxes: a guide\nimage: fox.png\n---\n", "Foxes: a guide", "fox.png"),  # not valid YAML
        (f"---\ntitle: Fox\ndeep: {'[' * 5000}{']' * 5000}\n---\n", "Fox", None),
        ("---\nname: {{ title }}\nimage: fox.png\n---\n", "{{ title }}", "fox.png"),
        ("---\ntitle:\n---\n", "note", None),
        ("---\n---\n", "note", None),
    ],
)
def test_front_matter(tmp_path: Path, front: str, title: str, image: str | None) -> None:
    (entity,) = read(tmp_path, {"note.md": front + "Text.\n", "fox.png": "", "b.png": ""}).values()
    assert (entity.title, entity.image) == (title, image)
    assert texts(entity)[0] == (title, "Text.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nA note between rules.\n\n---\nMore.\n", [("note", "A note between rules.\nMore.")]),
        ("---\n# Title\nOnly one rule.\n", [("Title", "Only one rule.")]),
        ("+++\nNo TOML.\n+++\nMore.\n", [("note", "+++ No TOML. +++ More.")]),
    ],
)
def test_a_rule_at_the_top_is_no_front_matter(tmp_path: Path, text: str, expected: list[tuple[str, str]]) -> None:
    (entity,) = read(tmp_path, {"note.md": text}).values()
    assert [(section.title, " ".join(section.text.split())) for section in entity.sections] == [
        (title, " ".join(body.split())) for title, body in expected
    ]


@pytest.mark.parametrize(
    ("text", "title", "sections"),
    [
        ("Fox\n===\n\nRed.\n\nDiet\n----\n\nMice.\n", "Fox", ["Fox", "Diet"]),
        ("### Diet\nMice.\n### Range\nEurope.\n", "note", ["Diet", "Range"]),
        ("## Fox\nRed.\n### Diet\nMice.\n#### Winter\nBerries.\n", "Fox", ["Fox", "Diet", "Winter"]),
        ("![](a.png)\n# Fox #\nRed.\n# Diet\nMice.\n", "Fox", ["Fox", "Diet"]),
        ("Intro.\n# Fox\nRed.\n## Diet\nMice.\n", "Fox", ["Fox", "Diet"]),
        ("Intro.\n# Diet\nMice.\n# Range\nEurope.\n", "note", ["note", "Diet", "Range"]),
        ('<h1 align="center">Fox</h1>\n<p>Red.</p>\n\n## Diet\nMice.\n', "Fox", ["Fox", "Diet"]),
    ],
)
def test_headings_of_every_level(tmp_path: Path, text: str, title: str, sections: list[str]) -> None:
    (entity,) = read(tmp_path, {"note.md": text}).values()
    assert (entity.title, [section.title for section in entity.sections]) == (title, sections)


def test_images_in_every_spelling(tmp_path: Path) -> None:
    note = """![[kermit.jpg]] and ![[pics/Miss Piggy.PNG|Miss Piggy]] and ![[gonzo.png|300x200]] ![[dot.png|20]]
![[Note]] <img src="fozzie.jpg" alt="Fozzie" width="300"> <img src="icon.png" width="20">

![Rowlf][rowlf] ![](/assets/static%20file.jpg) ![Animal](the animal.png) ![far](https://e.example/far.png)
<p><img src='block.png'></p>

[rowlf]: ../rowlf.png "Rowlf the dog"
"""
    files = ["attachments/kermit.jpg", "pics/Miss Piggy.PNG", "notes/gonzo.png", "gonzo.png", "notes/fozzie.jpg"]
    files += ["rowlf.png", "notes/the animal.png", "hugo/assets/static file.jpg", "notes/block.png"]
    (entity,) = read(tmp_path, {"notes/frogs.md": note} | dict.fromkeys(files, "")).values()
    assert entity.images == (
        ArticleImage("attachments/kermit.jpg", 0, ""),  # the only file of this name
        ArticleImage("pics/Miss Piggy.PNG", 0, "Miss Piggy"),
        ArticleImage("notes/gonzo.png", 0, ""),
        ArticleImage("notes/fozzie.jpg", 0, "Fozzie"),
        ArticleImage("rowlf.png", 0, "Rowlf"),
        ArticleImage("hugo/assets/static file.jpg", 0, ""),
        ArticleImage("notes/the animal.png", 0, "Animal"),
        ArticleImage("https://e.example/far.png", 0, "far"),
        ArticleImage("notes/block.png", 0, ""),
    )
    assert entity.image == "attachments/kermit.jpg"


@pytest.mark.parametrize(
    ("link", "name", "caption"),
    [
        ("![A fox](my fox.png)", "my fox.png", "A fox"),
        ('![A fox](my fox.png "Its title")', "my fox.png", "A fox"),
        ("![A fox](my fox.png 'Its title')", "my fox.png", "A fox"),
        ("![A fox](<my fox.png>)", "my fox.png", "A fox"),
        ("![A fox](my fox (1).png)", "my fox (1).png", "A fox"),
        ('![A fox](my fox (1).png "t" =300x200)', "my fox (1).png", "A fox"),
        ("![A fox](fox.png =300x200)", "fox.png", "A fox"),
        ("![A fox](fox.png =300x)", "fox.png", "A fox"),
        ("![A fox](fox.png){width=50%}", "fox.png", "A fox"),
        ("![A [red] fox](fox.png =300x)", "fox.png", "A [red] fox"),
        ("![](fox#1.png)", "fox#1.png", ""),
        ("![](fox%231.png)", "fox#1.png", ""),
        ("![[fox#1.png]]", "fox#1.png", ""),
        ("![[fox.png#x]]", "fox.png", ""),
        ("![](img\\fox.png)", "fox.png", ""),
        ("![](fox.png?raw=true)", "fox.png", ""),
        ("![](C:\\me\\fox.png)", "fox.png", ""),
    ],
)
def test_links_to_images_that_commonmark_does_not_allow(tmp_path: Path, link: str, name: str, caption: str) -> None:
    files = dict.fromkeys(("fox.png", "my fox.png", "my fox (1).png", "fox#1.png"), "")
    (entity,) = read(tmp_path, {"a.md": f"# Fox\n\nIt is {link} red.\n"} | files).values()
    assert entity.images == (ArticleImage(name, 0, caption),)
    assert entity.sections[0].text == "It is red."


def test_what_only_looks_like_such_a_link_is_text(tmp_path: Path) -> None:
    for text in ("Wow! [x] (a b.png)", "`![x](a b.png)`", "![x] (a b.png)", "Yes![no](a b c"):
        (entity,) = read(tmp_path, {"a.md": f"# Fox\n\n{text}\n", "a b.png": ""}).values()
        assert not entity.images and entity.sections[0].text == text.strip("`")


def test_what_can_be_read_goes_before_drawings(tmp_path: Path) -> None:
    (entity,) = read(tmp_path, {"a.md": "---\nlogo: a.svg\n---\n![](b.png)\n", "a.svg": "", "b.png": ""}).values()
    assert entity.image == "b.png"
    (entity,) = read(tmp_path, {"a.md": "---\nlogo: a.svg\n---\nText.\n"}).values()
    assert entity.image == "a.svg"


def test_evidence_is_plain_text(tmp_path: Path) -> None:
    note = """A **bold** and _slanted_, ~~struck~~, ==marked== `code`, [link](a.md), [[Frog|the frog]], [[Toad]].
It goes on<br>here<!-- not this --> <b>and</b> here.[^1] %%nor this%% 100 % sure &amp; more

> [!info] Beware
> of the frog

- [one](x)
  - two

| Name | Age |
|:-----|----:|
| **Fox** | 3 |

<details><summary>More</summary><p>inside</p><script>alert()</script></details>

<!-- a
comment -->

```python
x = **1
```
***
[^1]: A footnote.
"""
    (entity,) = read(tmp_path, {"note.md": note}).values()
    assert entity.sections == (
        Section(
            "note",
            "A bold and slanted, struck, marked code, link, the frog, Toad. It goes on\n"
            "here and here. 100 % sure & more\n"
            "Beware\nof the frog\none\ntwo\nName: Fox, Age: 3\nMore\ninside\nx = **1\nA footnote.",
            0,
        ),
    )


def test_files_that_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.md").write_text(f"# Note {number}\nText.\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "bad.md").write_bytes(b"# Caf\xe9\n")
    (tmp_path / "wide.md").write_text("# Weit\nText.\n", encoding="utf-16")
    skipped = SkippedEntries(0.2)
    found = list(read_knowledge_base(tmp_path, skipped=skipped))
    assert [entity.title for entity in found] == ["Note 0", "Note 1", "Note 2", "Weit"]
    ((place, reason),) = (one.values() for one in skipped.listed)
    assert place == "sub/bad.md" and reason.startswith("byte 5: not UTF-8 (0xe9: ")
    assert "probably WINDOWS-1252" in reason


def test_aliases_and_drawings(tmp_path: Path) -> None:
    note = "---\naliases:\n  - Vulpes  vulpes\n  - 7\n---\n![](fox.svg) Text. ![](fox.png)\n"
    (entity,) = read(tmp_path, {"fox.md": note, "fox.svg": "", "fox.png": ""}).values()
    assert entity.names == ("Vulpes vulpes", "7")
    assert entity.image == "fox.png" and [one.url for one in entity.images] == ["fox.svg", "fox.png"]


def test_an_image_with_a_query_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "static" / "img").mkdir(parents=True)
    (tmp_path / "static" / "img" / "fox.jpg").touch()
    (tmp_path / "docs" / "fox.md").write_text("# Fox\n\nRed. ![](/img/fox.jpg?raw=true)\n")
    (fox,) = read_knowledge_base(tmp_path)
    assert fox.image == "static/img/fox.jpg"


def test_indented_html_is_code_only_outside_of_html(tmp_path: Path) -> None:
    note = """Before:

    <p>sample</p>

<div>
  <ul>

      <li>One fox</li>

  </ul>

    <img src="fox.png">
    make foxes

</div>

    <b>other sample</b>
"""
    (entity,) = read(tmp_path, {"a.md": note, "fox.png": ""}).values()
    assert texts(entity) == [("a", "Before:\n<p>sample</p>\nOne fox\nmake foxes\n<b>other sample</b>")]
    assert entity.image == "fox.png"


def test_the_name_of_a_file_is_a_title_in_words(tmp_path: Path) -> None:
    files = {"Gold-Pan.md": "A pan.", "red_fox.md": "A fox.", "2020-01-05.md": "A day.", "The X-ray.md": "A ray."}
    found = read(tmp_path, files)
    assert {id: one.title for id, one in found.items()} == {
        "Gold-Pan": "Gold Pan",
        "red_fox": "red fox",
        "2020-01-05": "2020-01-05",
        "The X-ray": "The X-ray",
    }
    assert (
        read(tmp_path / "b", {"half-title.md": "# {{ site.title }}: {{ site.subtitle }}\n\nText."})["half-title"].title
        == "half title"
    )
    (tmp_path / ".obsidian").mkdir()  # Obsidian's notes are titled by their file names
    assert read(tmp_path, files)["Gold-Pan"].title == "Gold-Pan"


def test_all_images_of_the_front_matter(tmp_path: Path) -> None:
    note = (
        "---\ntitle: Fox\nphotos:\n- path: img/a.jpg\n- {path: img/b.jpg, alt: Asleep}\nback: '[[c.jpg|300]]'\n"
        "author_photo: ann.jpg\n---\nText.\n"
    )
    files = {"fox.md": note, "img/a.jpg": "", "img/b.jpg": "", "c.jpg": "", "ann.jpg": ""}
    (fox,) = read(tmp_path, files).values()
    assert (fox.image, [(one.url, one.caption) for one in fox.images]) == (
        "img/a.jpg",
        [("img/b.jpg", "Asleep"), ("c.jpg", "")],
    )


def test_notes_of_one_name_are_called_after_their_folders(tmp_path: Path) -> None:
    files = {
        "Bagel/note.md": "Boiled.",
        "Öländsk bröd/Note.md": "Wheat.",
        "b/c/note.md": "# Corn\n\nCake.",
        "x/y.md": "Y.",
    }
    found = read(tmp_path, files)
    assert {id: one.title for id, one in found.items()} == {
        "Bagel/note": "Bagel",
        "Öländsk bröd/Note": "Öländsk bröd",
        "b/c/note": "Corn",
        "x/y": "y",
    }
    assert read(tmp_path / "few", {"linux/install.md": "L.", "a/b.md": "B."})["linux/install"].title == "install"


def test_text_files_are_notes_where_nothing_else_is(tmp_path: Path) -> None:
    notes = {"Bügel eisen.txt": "Bought in Zürich.\nPrice: 40 francs\n\n    Weight: 2 kg\n", "IMG_1.jpg": ""}
    others = {"README.txt": "Read me.", "labels.txt": "0 cat", "boxes/a.txt": "0 0.5 0.5 0.1 0.1\n", "b.txt": "[1]"}
    [(id, entity)] = read(tmp_path, notes | others).items()
    assert (id, entity.title) == ("Bügel eisen", "Bügel eisen")
    assert texts(entity) == [("Bügel eisen", "Bought in Zürich.\nPrice: 40 francs\nWeight: 2 kg")]
    assert list(read(tmp_path, {"fox.md": "A fox."})) == ["fox"]


def test_backups_of_logseq_are_not_read(tmp_path: Path) -> None:
    files = {"pages/Bagel.md": "- Boiled.", "logseq/config.edn": "{}", "logseq/bak/pages/Bagel.md": "- Old."}
    assert list(read(tmp_path, files)) == ["pages/Bagel"]
    assert list(read(tmp_path, {"logseq/notes/fox.md": "A fox."} | {"c/logseq/a.md": "A."})) == [
        "c/logseq/a",
        "pages/Bagel",
    ]


def test_the_title_of_a_callout_is_a_line(tmp_path: Path) -> None:
    found = read(tmp_path, {"bagel.md": "> [!tip]- Oven\n> Bake it\n> long.\n", "hen.md": "> [!note]\n> Brown.\n"})
    assert {id: texts(one)[0][1] for id, one in found.items()} == {"bagel": "Oven\nBake it long.", "hen": "Brown."}


@pytest.mark.parametrize(
    ("line", "kept", "lost"),
    [
        ("-> #place/Fort-Fox", "place: Fort-Fox", 0),
        ("#food/fruit, #food/nuts", "food: fruit; food: nuts", 0),
        ("Tags: #taxon/canid/vulpes", "taxon: canid: vulpes", 0),
        ("#wild #food/nuts", "", 2),
    ],
)
def test_tags_that_say_what_they_are_stay(tmp_path: Path, line: str, kept: str, lost: int) -> None:
    (tmp_path / "fox.md").write_text(f"# Fox\n\nIt is red.\n\n## Seen\n\n{line}\n")
    losses = Losses()
    [fox] = read_knowledge_base(tmp_path, ledger=losses)
    assert [one.text for one in fox.sections if one.title == "Seen"] == ([kept] if kept else [])
    assert (losses.left_out["lines of tags"].count if losses.left_out else 0) == lost


def test_values_with_one_label_are_a_list(tmp_path: Path) -> None:
    lines = ["#place/Fort-Fox", "#place/Bay", "#year/2020", "Height: 3 m", "Height: 4 m", "Note: a: b", "Note: c"]
    (tmp_path / "fox.md").write_text("# Fox\n\n" + "\n\n".join(lines))
    [fox] = read_knowledge_base(tmp_path)
    expected = "place: Fort-Fox; Bay\nyear: 2020\nHeight: 3 m; 4 m\nNote: a: b\nNote: c"
    assert fox.sections[0].text == expected


def test_words_in_angle_brackets(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# Box<Lid>\n\nThe <title> of <script> pages, a Box<Lid> for <your name>. If x<y and y>z, press <kbd>Esc</kbd>."
        "\n\n## Jar<T extends Lid>\n\n| Kind<A> | No |\n|---|---|\n| Tin<B> | 3 |\n\n![A Jar<T>](jar.png)\n"
    )
    (entity,) = read_knowledge_base(tmp_path)
    assert entity.title == "Box<Lid>" and entity.images[0].caption == "A Jar<T>"
    assert [(one.title, one.text) for one in entity.sections] == [
        ("Box<Lid>", "The <title> of <script> pages, a Box<Lid> for <your name>. If x<y and y>z, press Esc."),
        ("Jar<T extends Lid>", "Kind<A>: Tin<B>, No: 3"),
    ]


def test_indented_parts_of_components_are_no_code(tmp_path: Path) -> None:
    (tmp_path / "a.mdx").write_text(
        "# Oven\n\n<Tabs>\n  <Tab>\n      Heat *slowly*.\n\n      ![A loaf](loaf.png)\n\n"
        "      ```sh\n      bake\n      ```\n  </Tab>\n</Tabs>\n"
    )
    (entity,) = read_knowledge_base(tmp_path)
    assert entity.sections[0].text == "Heat slowly.\nbake" and entity.image == "loaf.png"
