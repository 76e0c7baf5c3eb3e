"""What note apps and site generators add to Markdown; the table of cases is what a reader of their pages sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexes.knowledge.document import Block, Document, Heading, Table
from indexes.knowledge.readers import Folder
from indexes.knowledge.readers.markdown import MARKDOWN


def documents(root: Path, **notes: str) -> dict[str, Document]:
    """Reads notes with the names of keyword arguments; names without an extension get `.md`."""
    for name, text in notes.items():
        path = root / (name if "." in name else f"{name}.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    files = sorted(path for path in root.rglob("*") if path.suffix in MARKDOWN.suffixes)
    entries = {}
    for file in files:
        for _, entry in MARKDOWN.read(file, Folder(root, files)):
            assert isinstance(entry, Document), entry
            entries[entry.id] = entry
    return entries


def text_of(document: Document) -> str:
    """Returns the text without labeled blocks: a line per block and row."""
    lines = list[str]()
    for part in document.parts:
        if isinstance(part, Table):
            lines += [", ".join(cell.text for cell in row) for row in part.rows]
        elif isinstance(part, Heading):
            lines.append(f"{'#' * part.level} {part.text}")
        elif not part.kind and part.text:
            lines.append(part.text)
    return "\n".join(lines)


def pictures_of(document: Document) -> list[tuple[str, str]]:
    parts = (part for part in document.parts if not isinstance(part, Heading))
    return [(picture.url, picture.alt) for part in parts for picture in part.pictures]


def labeled(document: Document) -> dict[str, str]:
    kinds = dict[str, str]()
    for part in document.parts:
        if isinstance(part, Block) and part.kind:
            kinds[part.kind] = f"{kinds.get(part.kind, '')} {part.text}".strip()
    return kinds


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # Liquid, Jinja, Hugo, ERB, and macros
        ("See [posts]({{ '/docs/posts/' | relative_url }}) of {{ site.title }}.", "See posts of ."),
        ("Write {% raw %}{{ page.title }}{%- endraw -%} in {{ site.x }}it.", "Write {{ page.title }} in it."),
        ("{% raw %}A{% endraw %}\n{{< table\n  a=1 >}}\nB", "A\nB"),
        ("Hi <%= link_to %Q{x} %>there, `{% code %}`", "Hi there, {% code %}"),
        ("$\\frac{{a}}{{b}}$ and {{c1::a fox}}", "$\\frac{{a}}{{b}}$ and {{c1::a fox}}"),
        ("Red. {{embed ((60aba887-96f4-461f-a9f0-d205d766d78b))}} Old.", "Red. Old."),
        # MkDocs, VitePress, Docusaurus
        ('!!! note "Mind"\n\n    Stay *calm*.\n\nAfter', "Mind\nStay calm.\nAfter"),
        ("Before\n\n!!! warning\n    Stay.\n    ```\n    !!! note\n    ```", "Before\nStay.\n!!! note"),
        ('=== "Linux"\n\n    ??? tip\n        Deep\n', "Linux\nDeep"),
        (":::tip Mind\nStay calm.\n:::\n\n::: warning\nOr not.\n:::", "Mind\nStay calm.\nOr not."),
        (":::note[Mind]{.wide}\nStay.\n\n- a\n- b\n:::", "Mind\nStay.\na\nb"),
        (':material-check:{ style="color: red" } Clear :smile: at 10:30:45', "Clear at 10:30:45"),
        ('<div class="note">\nSee [posts](/a/) and **b**.\n</div>', "See posts and b."),
        ("- [x] Done\n- [ ] Open", "Done\nOpen"),
        # Obsidian
        ("A block ^dcf64c\n\nI met #John.", "A block\nI met #John."),
        ("> [!tip]- Oven\n> Bake it\n> long.", "Oven\nBake it long."),
        ("> [!note]\n> Brown.", "Brown."),
        (
            "One %%two\nthree%% four ==five== [[a/Six#x|six]] [[Seven#x]] [[#Eight]].\n\n%%\n\nnine\n\n%%",
            "One four five six Seven Eight.",
        ),
        # Logseq and Dataview
        (
            "Text.\n\ntype:: [[Animal]]\nfirst-seen:: 1758\nid:: 7\nempty::\nMore.",
            "Text.\nType: Animal\nFirst seen: 1758\nMore.",
        ),
        ("- Fox\n  collapsed:: true\n- Hen\n  legs:: 2", "Fox\nHen\nLegs: 2"),
        ("A.\n\n**Height (m)**:: 4\n- [ ] Höhe:: 3\n> weight:: 5 kg", "A.\nHeight (m): 4\nHöhe: 3\nWeight: 5 kg"),
        ("std::vector and a::b", "std::vector and a::b"),
        ("See ((60aba887-96f4-461f-a9f0-d205d766d78b)).", "See ."),
        ("## Fox\n\t- It **runs**.\n\t\t- ![](fox.png)", "## Fox\nIt runs."),
        # Pandoc, MyST, Quarto
        ("```{note}\n:class: dim\nStay *calm*.\n```\n\nAfter", "Stay calm.\nAfter"),
        ("````{admonition} Mind\n```{tip}\nDeep\n```\n````", "Mind\nDeep"),
        ("::::{grid} 2\n:::{card} Red\nA *fox*.\n:::\n::::\nAfter", "Red\nA fox.\nAfter"),
        ("- One\n  ```{note}\n  Calm.\n  ```\n- Two", "One\nCalm.\nTwo"),
        ("A\n\n```{toctree}\n:maxdepth: 2\nden\n```\n\n(a-place)=\nB", "A\nB"),
        ("```{code-block} python\n:linenos:\nx = {1}\n```", "x = {1}"),
        ("````md\n```{note}\nHi\n```\n````", "```{note}\nHi\n```"),
        ("```{note}\nNever closed", "Never closed"),
        ("```{r den, echo=FALSE}\nplot(x)\n```\n\n```{python}\n#| label: mice\ny = 1\n```", "y = 1"),
        (
            '::: {.callout-note title="Mind"}\nStay calm.\n\n::: {.inner}\nDeep.\n:::\n:::\nAfter',
            "Mind\nStay calm.\nDeep.\nAfter",
        ),
        ("# Fox {#fox .wide}\n\nP~a\\ cat~ [wide]{width=3} [small]{.smallcaps}", "# Fox\nPa cat wide small"),
        (
            "H~2~O and x^2^ word^[a *note*] a~b 2^10 {not=this, one}",
            "H2O and x^2 word (a note) a~b 2^10 {not=this, one}",
        ),
        (
            "Soak.[^1]\n\nEat.\n\n[^1]:\n    In *cold*\n    water.\n\n[^2]: Never said.",
            "Soak.\nEat.\nIn cold water.\nNever said.",
        ),
        ("Beans\n:   Soak *them*\n    overnight.", "Beans: Soak them overnight."),
        # HTML in Markdown, and what CommonMark would cut
        ("「太字**『はい』**です", "「太字『はい』です"),
        ("".join(f"{'  ' * level}- {level}\n" for level in range(30)), "\n".join(map(str, range(30)))),
    ],
)
def test_what_a_page_shows(tmp_path: Path, source: str, expected: str) -> None:
    (note,) = documents(tmp_path, note=f"---\nx: 1\n---\n{source}\n").values()
    assert text_of(note) == expected


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        ("{{< youtube abc >}} {% if x %} {{ y.z }}", "template tags", "{{< youtube abc >}} {% if x %} {{ y.z }}"),
        ("A %%secret%% B", "comments", "secret"),
        ("A\n\nid:: 7", "settings of notes", "7"),
        (
            "```mermaid\nA-->B\n```\n\n```dataview\nD\n```",
            "code of drawings and queries",
            "A-->B D",
        ),
        ("```{python}\n#| echo: false\nx = 1\n```", "code that pages hide", "x = 1"),
        ("```{toctree}\nden\n```", "directives without text", "den"),
        ("![[Nowhere]] ![[a.pdf]]", "embedded notes that are missing or repeat", "Nowhere a.pdf"),
        ("{{< include nowhere.md >}}", "embedded notes that are missing or repeat", "nowhere.md"),
    ],
)
def test_what_is_no_text_is_labeled(tmp_path: Path, source: str, kind: str, text: str) -> None:
    (note,) = documents(tmp_path, note=source).values()
    assert labeled(note)[kind] == text
    assert not set(text.split()) & set(text_of(note).split())


@pytest.mark.parametrize(
    ("source", "pictures"),
    [
        ("![A fox](my fox.png)", [("my fox.png", "A fox")]),
        ("![A fox](my fox.png 'Its title')", [("my fox.png", "A fox")]),
        (
            "![pic](img/b.png =300x200) and [![x](img/b (1).png)](http://e.example/a)",
            [("img/b.png", "pic"), ("img/b (1).png", "x")],
        ),
        ("![A fox](<my fox.png>)", [("my fox.png", "A fox")]),
        ("![A fox](fox.png){width=50%}", [("fox.png", "A fox")]),
        ("![](fox%231.png)", [("fox%231.png", "")]),
        (
            "![[fox#1.png]] ![[fox.png#x]] ![[p/fox.png|A fox]]",
            [("fox#1.png", ""), ("fox.png", ""), ("p/fox.png", "A fox")],
        ),
        ("![A fox][f]\n\n[f]: a/fox.png 'x'", [("a/fox.png", "A fox")]),
        ('{{< figure src="img/fox.jpg" caption="A `red` fox" >}}', [("img/fox.jpg", "A red fox")]),
        ("{% include image.html url='img/den.png' %}", [("img/den.png", "")]),
        ("![At night]({{ site.baseurl }}/img/night.jpg)", [("/img/night.jpg", "At night")]),
        ('{{< gallery "loon.jpg" "teal.png" >}}', [("loon.jpg", ""), ("teal.png", "")]),
        ('{{< figure caption="A loon" src="loon.jpg" link="loon-large.jpg" >}}', [("loon.jpg", "A loon")]),
        ("```{figure} img/fox.jpg\n:width: 200px\nA fox\n```", [("img/fox.jpg", "A fox")]),
        (":::{image} img/den.jpg\n:alt: Its den\n:::", [("img/den.jpg", "Its den")]),
        ('```{r}\n#| echo: false\nknitr::include_graphics("img/my pup.png")\n```', [("img/my pup.png", "")]),
        ("| A |\n|---|\n| ![[p.png\\|20]] |", [("p.png", "")]),
    ],
)
def test_pictures_in_every_spelling(tmp_path: Path, source: str, pictures: list[tuple[str, str]]) -> None:
    (note,) = documents(tmp_path, note=f"Text.\n\n{source}\n").values()
    assert pictures_of(note) == pictures
    assert "](" not in text_of(note)


DEN = "---\nx: 1\n---\n# Den\n\nA hole.\n\n## Winter\n\nWarm.\n\n### Deep\n\n2 m.\n\n```\n## Code\n```\n\n"
DEN += "## Summer\n\nCool.\n"
FOOD = "It eats mice\nand hens. ^prey\n\n- eggs ^eggs\n- frogs\n\n| A | B |\n|---|---|\n| x | 1 |\n\n^table\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Red.\n\n![[Den#Winter]]", "Red.\n## Winter\nWarm.\n### Deep\n2 m.\n## Code"),
        (
            "one ![[Food#^prey]] two\n\n![[Food#^eggs|shown]]\n\n![[Food#^table]]",
            "one\nIt eats mice and hens.\ntwo\neggs\nA, B\nx, 1",
        ),
        ("![[den]]\n\n![[den]]", "# Den\nA hole.\n## Winter\nWarm.\n### Deep\n2 m.\n## Code\n## Summer\nCool."),
        ("> ![[Den#Summer]]\n\n| A |\n|---|\n| ![[Food#^prey]] |", "## Summer\nCool.\nA\nIt eats mice and hens."),
        ("`![[Food]]`", "![[Food]]"),
    ],
)
def test_embedded_notes(tmp_path: Path, source: str, expected: str) -> None:
    assert text_of(documents(tmp_path, Fox=source, Den=DEN, Food=FOOD)["Fox"]) == expected


def test_notes_that_embed_each_other_are_read_once(tmp_path: Path) -> None:
    notes = documents(tmp_path, A="One. ![[B]] ![[B]]", B="Two. ![[A]] ![[C]]", C="Three. ![[B]]")
    assert {id: text_of(note) for id, note in notes.items()} == {
        "A": "One.\nTwo.\nThree.",
        "B": "Two.\nOne.\nThree.",
        "C": "Three.\nTwo.\nOne.",
    }


def test_names_in_properties_are_values(tmp_path: Path) -> None:
    text = "title:: animal/fox\nalias:: [[Reynard]], tod\nkin:: wolf\n\n- It runs.\n  legs:: 4"
    (fox,) = documents(tmp_path, fox=text).values()
    assert fox.values == {"title": "animal/fox", "alias": "[[Reynard]], tod"}
    assert text_of(fox) == "Kin: wolf\nIt runs.\nLegs: 4"


@pytest.mark.parametrize(
    "written",
    [
        "{% include note.md size='large' %}",
        "{% include_relative parts/beans.md %}",
        '{{% include "/parts/beans.md" %}}',
        "{{< include parts/beans.md >}}",
        "```{include} parts/beans.md\n:start-line: 0\n```",
    ],
)
def test_included_files(tmp_path: Path, written: str) -> None:
    parts = {"parts/beans.md": "---\nkind: part\n---\nSoak *them*.", "_includes/note.md": "Soak *them*."}
    dish = documents(tmp_path, **parts, **{"dish.mdx": f"Eat.\n\n{written}\n"})["dish"]
    assert text_of(dish) == "Eat.\nSoak them."


def test_files_outside_the_folder_are_not_included(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("Secret.")
    assert text_of(documents(tmp_path / "kb", note="A\n\n{{< include ../secret.md >}}")["note"]) == "A"


MDX = """import { Card } from '@x/components';
import fox from '../img/fox.png';
import {
  Other,
} from 'other'
export const year = 1;

export const rows = [

  {a: "b"},
];

{/* to do */}
<Card title="Red" icon={["a", {b: 1}]} href="/x">
It is **red**.
</Card>

<Image src={fox} alt="A fox" /> <img src={require('./cub.jpg').default} style={{width: 3, color: "red"}} />
<Photos of={[
  { src: '/a/loon.jpg', alt: 'A loon' },
  { src: '/a/teal.jpg', alt: 'A teal' },
]} />

<Tabs>
  <Tab label="One">Heat *slowly*.</Tab>

      In <Term word="x">deep</Term> oil{" "}or fat.

      ```sh
      bake
      ```
</Tabs>

```jsx
import kept from './kept.png';
<Card />
```
"""


def test_mdx(tmp_path: Path) -> None:
    (page,) = documents(tmp_path, **{"page.mdx": MDX}).values()
    assert text_of(page) == (
        "Red\nIt is red.\nOne\nHeat slowly.\nIn deep oil or fat.\nbake\nimport kept from './kept.png';\n<Card />"
    )
    assert pictures_of(page) == [
        ("../img/fox.png", "A fox"),
        ("./cub.jpg", ""),
        ("/a/loon.jpg", "A loon"),
        ("/a/teal.jpg", "A teal"),
    ]
    code = labeled(page)["code of components"]
    assert all(word in code for word in ("@x/components", "Other", "year = 1", '{a: "b"}', "/x"))
    assert labeled(page)["comments"] == "to do"


@pytest.mark.parametrize(
    ("tag", "shown", "code"),
    [
        ('<Row label="Maker" value="Hobson of Leeds" />', "Maker: Hobson of Leeds", ""),
        (
            '<Ref title="At a glance" items={[{ label: "Weight", value: "3 kg" }, {label:\'Age\',value: 4}]} />',
            "At a glance\nWeight: 3 kg\nAge: 4",
            "",
        ),
        (
            '<Table headers={["Part", "Of"]} rows={[["Handle", "walnut"], ["Pin", "x|y"]]} />',
            "Part, Of\nHandle, walnut\nPin, x|y",
            "",
        ),
        ('<List items={["Polish it with chalk", `Or *not*`]} />', "Polish it with chalk, Or *not*", ""),
        ('<Line events={[{year: "1880", text: "Built", media: {kind: "a b"}}]} />', "1880: Built", "a b"),
        ("<Data rows={rows} of={{a: b}} />", "", "rows b"),
        ("{items.map(item => <li>{item}</li>)}", "", "{items.map(item => <li>{item}</li>)}"),
    ],
)
def test_what_a_component_shows(tmp_path: Path, tag: str, shown: str, code: str) -> None:
    (page,) = documents(tmp_path, **{"page.mdx": f"{tag}\n"}).values()
    assert (text_of(page), labeled(page).get("code of components", "")) == (shown, code)


def test_all_cells_of_a_table_are_read_and_text_below_it_is_no_row(tmp_path: Path) -> None:
    text = (
        "| name | size |\n| --- | --- |\n| male | 70 cm | heavier in winter |\n| female | 65 cm |\nVixens raise cubs.\n"
    )
    document = documents(tmp_path, fox=text)["fox"]
    assert text_of(document) == "name, size, \nmale, 70 cm, heavier in winter\nfemale, 65 cm, \nVixens raise cubs."
