from __future__ import annotations

from pathlib import Path

import pytest

from indexes.knowledge.formats import guess_format, read_knowledge_base
from indexes.knowledge.formats.reading import SkippedEntries
from retriever.types import ArticleImage, Entity


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
