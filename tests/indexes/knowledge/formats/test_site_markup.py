from __future__ import annotations

from pathlib import Path

import pytest

from indexes.knowledge.knowledge_base import guess_format
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.gone.site_markup import Note, without_site_markup
from retriever.types import ArticleImage, Entity, Section


def read(folder: Path, **files: str) -> list[Entity]:
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return list(read_knowledge_base(folder, skipped=SkippedEntries(0)))


def text_of(folder: Path, text: str) -> str:
    (entity,) = read(folder, a=text)
    (section,) = entity.sections
    return section.text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("See [posts]({{ '/docs/posts/' | relative_url }}) of {{ site.title }}.", "See posts of ."),
        ("Write {% raw %}{{ page.title }}{%- endraw -%} in {{ site.x }}it.", "Write {{ page.title }} in it."),
        ("{% raw %}A{% endraw %}\n{{< table\n  a=1 >}}\nB", "A\nB"),
        ("Hi <%= link_to %Q{x} %>there, `{% code %}`", "Hi there, {% code %}"),
        ("$\\frac{{a}}{{b}}$", "$\\frac{{a}}{{b}}$"),
        ('!!! note "Mind"\n\n    Stay *calm*.\n\nAfter', "Mind\nStay calm.\nAfter"),
        ('=== "Linux"\n\n    ??? tip\n        Deep\n', "Linux\nDeep"),
        (":::tip Mind\nStay calm.\n:::\n\n::: warning\nOr not.\n:::", "Mind\nStay calm.\nOr not."),
        (':material-check:{ style="color: red" } Clear :smile: at 10:30:45', "Clear at 10:30:45"),
        ("- [x] Done\n- [ ] Open", "Done\nOpen"),
        ("Set `#!css color: red` or `:::py 1 + 1` in `#!/bin/sh`", "Set color: red or 1 + 1 in #!/bin/sh"),
        ("A block ^dcf64c\n\n#tag #other/tag\n\nTags: #one, #two\n\nI met #John.", "A block\nI met #John."),
        ('*[HTML]: Hyper Text\n\n--8<-- "a.md"\n\nText', "Text"),
        ("「太字**『はい』**です", "「太字『はい』です"),
        ('<div class="note">\nSee [posts](/a/) and **b**.\n</div>', "See posts and b."),
    ],
)
def test_what_generators_and_obsidian_add_is_gone(tmp_path: Path, source: str, expected: str) -> None:
    assert text_of(tmp_path, source) == expected


def test_images_that_tags_name(tmp_path: Path) -> None:
    (fox,) = read(
        tmp_path,
        fox="""Fox.

{{< figure src="img/fox.jpg" caption="A `red` fox" >}}

{% include image.html url='img/den.png' %}

<%= insert_image file: "pup.webp", alt: %Q{A pup} %>

![At night]({{ site.baseurl }}/img/night.jpg)
""",
    )
    assert fox.images == (
        ArticleImage("img/fox.jpg", 0, "A red fox"),
        ArticleImage("img/den.png", 0, ""),
        ArticleImage("pup.webp", 0, "A pup"),
        ArticleImage("img/night.jpg", 0, "At night"),
    )


MDX = """---
title: The fox
description: An animal.
---
import { Card } from '@x/components';
import fox from '../img/fox.png';
export const year = 1;

{/* to do */}
<Card title="Red" icon={["a", {b: 1}]}>
It is **red**.
</Card>

<Image src={fox} alt="A fox" />

```jsx
import kept from './kept.png';
<Card />
```
"""


def test_mdx(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "img").mkdir()
    (tmp_path / "img" / "fox.png").touch()
    (tmp_path / "docs" / "fox.mdx").write_text(MDX)
    assert guess_format(tmp_path) == "markdown"
    (fox,) = read(tmp_path)
    assert fox.sections == (
        Section("The fox", "It is red.\nimport kept from './kept.png';\n<Card />", 0),
        Section("Facts", "Description: An animal.", 1),
    )
    assert fox.images == (ArticleImage("img/fox.png", 0, "A fox"),)


def test_lines_of_links_that_notes_share_are_left_out(tmp_path: Path) -> None:
    links = "[Home](index.md) | [All foxes](foxes.md)"
    footer = f"\n\nIt eats plants and animals.\n\n![](den.png)\n\n{links}"
    found = read(tmp_path, **{f"n{n}": f"# Note {n}\n\nText {n}, of its own.{footer}" for n in range(6)})
    text = "Text {}, of its own.\nIt eats plants and animals."
    assert [one.sections for one in found] == [(Section(f"Note {n}", text.format(n), 0),) for n in range(6)]
    assert all(one.image == "den.png" for one in found)


def test_files_about_a_repository_packages_and_badges_are_no_content(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.md").write_text("# Package")
    badge = "![](https://img.shields.io/npm/v/x) ![](https://github.com/a/b/actions/workflows/ci.yml/badge.svg)"
    found = read(tmp_path, LICENSE="MIT", CODE_OF_CONDUCT="Be kind.", Support="A beam.", README=f"{badge}\n\nHello")
    assert [(one.id, one.image) for one in found] == [("README", None), ("Support", None)]


def test_front_matter_as_facts_and_a_description_in_place_of_text(tmp_path: Path) -> None:
    (fox,) = read(
        tmp_path,
        fox="---\ntitle: <i>Fox</i>\ndescription: An animal.\nlegs: 4\nfound in: [Europe, Asia]\n"
        "kin: '[[Wolf|a wolf]]'\ndraft: false\nlayout: post\ncover: pics/fox.jpg\nlogo: fox\nshown: true\n---\n",
    )
    assert (fox.title, fox.image) == ("Fox", "pics/fox.jpg")
    assert fox.sections == (
        Section("Fox", "An animal.", 0),
        Section("Facts", "Legs: 4\nFound in: Europe, Asia\nKin: a wolf", 1),
    )


def test_a_note_of_a_vault_is_called_as_its_file(tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    first, second, third = read(
        tmp_path,
        **{"202301": "# An inbox\n\nA", "Red fox": "# Index\n\nB", "Wolf": "---\nimage: '![[w.png]]'\n---\n# Wolf\nC"},
    )
    assert (first.title, second.title, third.title) == ("An inbox", "Red fox", "Wolf")
    assert second.sections == (Section("Index", "B", 0),) and third.sections == (Section("Wolf", "C", 0),)
    assert third.image == "w.png"


def test_code_is_left_alone() -> None:
    code = "```\n{% raw %}\n:::tip\n!!! note\n    x\n```\n"
    assert without_site_markup(code, Note(Losses())) == code


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('The {link term="fox"}fox{link end} runs.', "The fox runs."),
        ('{panel type="note" open="a \\"b\\" c"}\n\nFast.\n\n{panel end}', "Fast."),
        ("Red. {{embed ((60aba887-96f4-461f-a9f0-d205d766d78b))}} {{! a\nnote }}Old.", "Red. Old."),
        ("See ((60aba887-96f4-461f-a9f0-d205d766d78b)). ^a_b-1", "See ."),
        ("$\\frac{{a b}}{c}$ and {{c1::a fox}}", "$\\frac{{a b}}{c}$ and {{c1::a fox}}"),
        ("type:: [[Animal]]\nfirst-seen:: 1758\nid:: 7\nempty::\nText.", "Type: Animal\nFirst seen: 1758\nText."),
        ("- Fox\n  collapsed:: true\n- Hen\n  legs:: 2", "Fox\nHen\nLegs: 2"),
        ("std::vector and a::b", "std::vector and a::b"),
        ("## Fox\n\t- It **runs**.\n\t\t- ![](fox.png)", "It runs."),
        ("A [`File`][mkdocs.structure.File], [post][] and `x[a][b]`.", "A File, post and x[a][b]."),
        ("[A-Z][a-z] and [Fox][1].", "[A-Z][a-z] and [Fox][1]."),
    ],
)
def test_what_other_note_apps_add_is_gone(tmp_path: Path, source: str, expected: str) -> None:
    assert text_of(tmp_path, source) == expected


def test_a_braced_tag_names_an_image(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "fox.png").touch()
    (fox,) = read(tmp_path, fox='Fox.\n\n{image file-path="img/fox.png" caption="true" alt="A red fox"}')
    assert fox.images == (ArticleImage("static/fox.png", 0, "true"),)


def test_title_and_aliases_of_a_note_of_logseq(tmp_path: Path) -> None:
    (fox,) = read(tmp_path, **{"animal___fox": "title:: animal/fox\nalias:: [[Reynard]], tod\n\n- It runs."})
    assert (fox.title, fox.names) == ("animal/fox", ("Reynard", "tod"))
    assert fox.sections == (Section("animal/fox", "It runs.", 0),)


def test_wiki_links_with_their_words_first(tmp_path: Path) -> None:
    # first, as in GitHub wikis and Dendron; Obsidian has them last
    fox, _ = read(
        tmp_path,
        **{
            "Red-Fox": "[[A wolf|Wolf]], [[the fox|red fox]], [[Wolf|wolves]], [[#Diet|food]], [[Docs|dendron://a/b.c]].",
            "Wolf": "W",
        },
    )
    assert fox.sections[0].text == "A wolf, the fox, wolves, food, Docs."


def test_images_of_mdx_in_html(tmp_path: Path) -> None:
    (tmp_path / "fox.mdx").write_text(
        "import Fox from './img/fox.webp'\n\n# Fox\n\n"
        '<p className="wide">\n  <Themed alt="A fox" sources={{ light: path(\'/img/red fox.svg\') }} />\n</p>\n\n'
        "<img src={Fox} alt=\"Den\" /> <img src={require('./img/cub.jpg').default} /> <img src={unknown} />\n"
    )
    (fox,) = read(tmp_path)
    assert fox.images == (
        ArticleImage("img/red fox.svg", 0, "A fox"),
        ArticleImage("img/fox.webp", 0, "Den"),
        ArticleImage("img/cub.jpg", 0),
    )


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ('{{< gallery "loon.jpg" "teal.png" >}}', "![](loon.jpg) ![](teal.png)"),
        ('{% include gallery.html images="loon.jpg, teal.png" %}', "![](loon.jpg) ![](teal.png)"),
        ('{{< figure src="loon.jpg" link="loon-large.jpg" caption="A loon" >}}', "![A loon](loon.jpg)"),
        ('{{< figure caption="A loon" src="loon.jpg" >}}', "![A loon](loon.jpg)"),
        ("<Compare before='/a/egg.jpg' after='/a/hen.jpg' />", "![](/a/egg.jpg) ![](/a/hen.jpg)"),
        (
            "<Photos of={[\n  { src: '/a/loon.jpg', alt: 'A loon' },\n  { src: '/a/teal.jpg', alt: 'A teal' },\n]} />",
            "![A loon](/a/loon.jpg) ![A teal](/a/teal.jpg)",
        ),
    ],
)
def test_all_images_of_a_tag(tag: str, shown: str) -> None:
    assert without_site_markup(tag, Note(Losses()), components=True) == shown


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Beans\n:   Soak *them*\n    overnight.\n:   Or not.", "Beans: Soak them overnight., Or not."),
        (
            "Beans\n\n:   Soak them.\n\n    Then **boil**.\n\n    - salt\n\n    ```sh\n    eat\n    ```\n\nEnd",
            "Beans: Soak them.\nThen boil.\nsalt\neat\nEnd",
        ),
        ("Beans\n: Soak.\nPeas\n: Boil.\n\nText", "Beans: Soak.\nPeas: Boil.\nText"),
        ("`beans`\n: Soak.\n\n**Peas**\n\n: Boil.\n: Eat.", "beans: Soak.\nPeas: Boil., Eat."),
        ("A smile\n\n\n: ) is no meaning.", "A smile\n: ) is no meaning."),
        ("<!-- option: x -->\n\n:   Whether to *soak*\n    beans.", "Whether to soak beans."),
        ("Beans\n\n:   !!! tip\n\n        Soak *them*.\n", "Beans\nSoak them."),
        ("Soak.[^1]\n\n  [^1]:\n    In *cold*\n    water.", "Soak.\nIn cold water."),
        ("- Soak.[^1]\n- [^1]: In *cold* water.", "Soak.\nIn cold water."),
        ("```\nBeans\n:   Soak\n    them\n```", "Beans\n:   Soak\n    them"),
    ],
)
def test_definitions_and_footnotes_of_several_lines(tmp_path: Path, source: str, expected: str) -> None:
    assert text_of(tmp_path, source) == expected
