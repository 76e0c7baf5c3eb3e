"""What note apps and publishing tools add to Markdown: embedded notes, properties, drawings, directives."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexes.knowledge.knowledge_base import guess_format
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.gone.site_markup import _SIGNS, Note, without_site_markup
from retriever.types import ArticleImage, Entity
from tests.fakes.reading import texts


def notes(folder: Path, **files: str) -> tuple[dict[str, Entity], Losses]:
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    losses = Losses(str(folder))
    return {one.id: one for one in read_knowledge_base(folder, ledger=losses)}, losses


DEN = "---\nx: 1\n---\n# Den\n\nA hole.\n\n## Winter\n\nWarm.\n\n### Deep\n\n2 m.\n\n```\n## Code\n```\n\n"
DEN += "## Summer\n\nCool.\n"
FOOD = "It eats mice\nand hens. ^prey\n\n- eggs ^eggs\n- frogs\n\n| A | B |\n|---|---|\n| x | 1 |\n\n^table\n"


def test_a_note_brings_the_text_of_another(tmp_path: Path) -> None:
    found, _ = notes(tmp_path, Fox="# Fox\n\nRed.\n\n![[Den]]\n", Den=DEN)
    assert texts(found["Fox"]) == [
        ("Fox", "Red."),
        ("Den", "A hole."),
        ("Winter", "Warm."),
        ("Deep", "2 m.\n## Code"),
        ("Summer", "Cool."),
    ]


def test_parts_of_notes(tmp_path: Path) -> None:
    parts = "![[Den#Winter]]\n\n![[Food#^prey]]\n\n![[Food#^eggs|shown]]\n\n![[Food#^table]]\n\n![[Den#Nowhere]]"
    found, losses = notes(tmp_path, Fox=f"Red.\n\n{parts}\n", Den=DEN, Food=FOOD)
    text = "2 m.\n## Code\nIt eats mice and hens.\neggs\nA: x, B: 1"
    assert texts(found["Fox"]) == [("Fox", "Red."), ("Winter", "Warm."), ("Deep", text)]
    assert losses.left_out["embedded notes that are missing or repeat"].count == 1  # its name


def test_embedded_text_keeps_the_lines_around_it(tmp_path: Path) -> None:
    text = "Red.\n\n- one ![[Food#^prey]] two\n- ![[Food#^eggs]]\n- ![[Nowhere]]\n\n> ![[Den#Summer]]\n\n"
    text += "| A | B | C |\n|---|---|---|\n| ![[Den#Deep]] |  | 3 ![[p.png\\|20]] |\n"
    found, _ = notes(tmp_path, Fox=text, Den=DEN.replace("```", ""), Food=FOOD)
    table = "A: Deep, 2 m., C: 3"
    assert texts(found["Fox"]) == [("Fox", "Red.\none It eats mice and hens. two\neggs"), ("Summer", f"Cool.\n{table}")]


def test_embedded_text_beside_every_other_markup(tmp_path: Path) -> None:
    found, _ = notes(tmp_path, Fox="See {ref}`the den <den>`, `a`{=html} and H^[deep].\n\n![[Food#^eggs]]", Food=FOOD)
    assert texts(found["Fox"]) == [("Fox", "See the den, a and H (deep).\neggs")]
    for components in (False, True):  # MDX has more
        markup = "\n".join(sign for signs in _SIGNS.values() for sign in signs)
        assert without_site_markup(f"{markup}\n\nRed.", Note(Losses()), components).endswith("Red.")


def test_each_line_is_brought_once_and_items_with_those_below_them(tmp_path: Path) -> None:
    food = "Food.\n\n- eggs ^eggs\n  - of hens\n\n    white\n- frogs\n"
    found, _ = notes(tmp_path, Fox="![[Food#^eggs]]\n\n![[Food]]", Food=food)
    assert texts(found["Fox"]) == [("Fox", "eggs\nof hens\nFood.\nwhite\nfrogs")]


def test_notes_that_embed_each_other_are_read_once(tmp_path: Path) -> None:
    found, losses = notes(tmp_path, A="One. ![[B]] ![[B]]", B="Two. ![[A]] ![[C]] ![[Missing]]", C="Three. ![[B]]")
    assert {id: texts(one) for id, one in found.items()} == {
        "A": [("A", "One. Two. Three.")],
        "B": [("B", "Two. One. Three.")],
        "C": [("C", "Three. Two. One.")],
    }
    assert losses.left_out["embedded notes that are missing or repeat"].places == 12


def test_properties_within_a_text_are_facts(tmp_path: Path) -> None:
    text = "It weighs (weight:: 5 kg) and [legs:: 4].\n\n- [color:: red] [size:: [[Big]]]\n\nlives:: Europe\n\nf(a::b)"
    found, losses = notes(tmp_path, Fox=text)
    assert texts(found["Fox"]) == [
        ("Fox", "It weighs (weight: 5 kg) and (legs: 4).\nLives: Europe\nf(a::b)"),
        ("Facts", "Weight: 5 kg\nLegs: 4\nColor: red\nSize: Big"),
    ]
    # It weighs 5 kg and 4, red, Big, Europe, f(a::b)
    assert losses.to_json()["words"] == {"source": 10, "kept": 10}


def test_properties_with_markup_and_of_any_name(tmp_path: Path) -> None:
    text = (
        "Vernacular name:: Fox\n**Height (m)**:: 4\n- [ ] Höhe:: 3\n> weight:: 5 kg\n\nWords. More (**age**:: `7`) and "
    )
    text += "[seen:: [here](a.md), **often**].\nRead std::vector or a :: b.\nEmpty::\n"
    found, _ = notes(tmp_path, Fox=text)
    lines = ["Vernacular name: Fox", "Height (m): 4", "Höhe: 3", "Weight: 5 kg"]
    lines += ["Words. More (age: 7) and (seen: here, often). Read std::vector or a :: b."]
    assert texts(found["Fox"]) == [("Fox", "\n".join(lines)), ("Facts", "Age: 7\nSeen: here, often")]


def test_code_of_drawings_and_queries_is_no_text(tmp_path: Path) -> None:
    text = "Red.\n\n```mermaid\ngraph TD\n```\n\n```dataview\ntable x\n```\n\n```python\nx = 1\n```\n\n"
    text += "`= this.x` `$= dv.y` `=`"
    drawing = "---\nexcalidraw-plugin: parsed\n---\n# Excalidraw Data\n```compressed-json\nN4Kg\n```\n"
    found, losses = notes(tmp_path, Fox=text, Drawing=drawing)
    assert {id: texts(one) for id, one in found.items()} == {"Fox": [("Fox", "Red.\nx = 1\n=")]}
    assert losses.left_out["code of drawings and queries"].count == 4 + 4 + 6
    assert losses.left_out["notes without text and image"].example == "Drawing.md"


def test_other_forms_of_drawings_and_the_text_above_one(tmp_path: Path) -> None:
    text = "Red.\n\n:::mermaid\ngraph TD\n:::\n\n<div class='mermaid'>graph TD</div>\n\n```base\nx\n```\n\n"
    text += "```ad-note\ntitle: Beware\ncollapse: open\nIt bites.\n```\n\n![[Map]]\n"
    drawing = (
        "---\nexcalidraw-plugin: parsed\n---\n==⚠  Switch to EXCALIDRAW VIEW in the menu ⚠==\n\nA map of dens.\n\n"
    )
    drawing += "# Excalidraw Data\n\n## Text Elements\nden ^a1\n\n## Drawing\n```compressed-json\nN4Kg\n```\n%%\n"
    found, losses = notes(tmp_path, Fox=text, Map=drawing)
    assert {id: texts(one) for id, one in found.items()} == {
        "Fox": [("Fox", "Red.\nBeware\nIt bites.\nA map of dens.")],
        "Map": [("Map", "A map of dens.")],
    }
    # 2, 2 and 1 words of the note; of the drawing, those from "# Excalidraw Data" to the end
    assert losses.left_out["code of drawings and queries"].count == 5 + 14


def test_markup_of_pandoc(tmp_path: Path) -> None:
    text = "# Fox {-}\n\nP~a\\ cat~ [wide]{width=3} `<b>bold</b>`{=html}`\\bf`{=latex}\n\n```{=latex}\n\\rm\n```\n\n"
    text += "```{=html}\n<p>Shown</p>\n```\n\n"
    text += "H~2~O and x^2^ ![p](p.png){width=50% .c} [small]{.smallcaps} word^[a note] a~b 2^10 {not=this, one}"
    found, _ = notes(tmp_path, Fox=text)
    assert texts(found["Fox"]) == [
        ("Fox", "Pa cat wide bold\nShown\nH2O and x^2 small word (a note) a~b 2^10 {not=this, one}")
    ]
    assert found["Fox"].image == "p.png"


def read(folder: Path, text: str, name: str = "fox.md") -> Entity:
    (folder / name).write_text(text, encoding="utf-8")
    assert guess_format(folder) == "markdown"
    (entity,) = read_knowledge_base(folder, skipped=SkippedEntries(0))
    return entity


def text_of(entity: Entity) -> str:
    (section,) = entity.sections
    return section.text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("```{note}\n:class: dim\nStay *calm*.\n```\n\nAfter", "Stay calm.\nAfter"),
        ("````{admonition} Mind\n```{tip}\nDeep\n```\n````", "Mind\nDeep"),
        ("::::{grid} 2\n:::{card} Red\nA *fox*.\n:::\n::::\nAfter", "Red\nA fox.\nAfter"),
        ("- One\n  ```{note}\n  Calm.\n  ```\n- Two", "One\nCalm.\nTwo"),
        ("A\n\n```{toctree}\n:maxdepth: 2\nden\n```\n\n(a-place)=\n% to do\nB", "A\nB"),
        (
            "See {ref}`the den <den>`, {doc}`mice` and {cite:p}`ann2004`, `{ref}` too.",
            "See the den, mice and , {ref} too.",
        ),
        ("```{code-block} python\n:linenos:\nx = {1}\n```", "x = {1}"),
        ("````md\n```{note}\nHi\n```\n````", "```{note}\nHi\n```"),
        ("```{note}\nNever closed", "Never closed"),
        ("```{r den, echo=FALSE}\nplot(x)\n```\n\n```{python}\n#| label: mice\ny = 1\n```", "y = 1"),
        ('::: {.callout-note title="Mind"}\nStay calm.\n:::', "Stay calm."),
        ("Foxes hunt [@ann2004, p. 3].", "Foxes hunt ."),
        ("[The den][0026] and [mice in winter][m1], but a[i][j].", "The den and mice in winter, but a[i][j]."),
    ],
)
def test_what_directives_show(tmp_path: Path, source: str, expected: str) -> None:
    assert text_of(read(tmp_path, source)) == expected


def test_figures(tmp_path: Path) -> None:
    fox = read(
        tmp_path,
        """# Fox

```{figure} img/fox.jpg
:name: red
:width: 200px
A *red* fox
```

:::{image} img/den.jpg
:alt: Its den
:::

```{r}
#| echo: false
#| fig-cap: |
#|   A pup
#|   at night
knitr::include_graphics("img/my pup.png")
```

```{r, fig.cap="Mice", echo=FALSE}
include_graphics('img/mice.png')
```
""",
        "fox.qmd",
    )
    assert fox.title == "Fox"
    assert text_of(fox) == "A red fox"
    assert fox.images == (
        ArticleImage("img/fox.jpg", 0, "A red fox"),
        ArticleImage("img/den.jpg", 0, "Its den"),
        ArticleImage("img/my pup.png", 0, "A pup at night"),
        ArticleImage("img/mice.png", 0, "Mice"),
    )


def test_settings_without_a_fence(tmp_path: Path) -> None:
    fox = read(tmp_path, "Title: The red fox\nDate: 2013-08-08\nMass: 6 kg\n  or less\n\nIt is red.\n")
    assert (fox.title, fox.sections[0].text, fox.sections[1].text) == (
        "The red fox",
        "It is red.",
        "Mass: 6 kg or less",
    )
    assert text_of(read(tmp_path, "Color: red\n\nIt is red.\n")) == "Color: red\nIt is red."
