"""Obsidian's embedded notes and properties, and the code and drawings that are no text."""

from __future__ import annotations

from pathlib import Path

from indexes.formats import read_knowledge_base
from indexes.formats.losses import Losses
from retriever.types import Entity
from tests.fakes.reading import texts


def notes(folder: Path, **files: str) -> tuple[dict[str, Entity], Losses]:
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    losses = Losses(str(folder))
    return {one.id: one for one in read_knowledge_base(folder, losses=losses)}, losses


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


def test_notes_that_embed_each_other_are_read_once(tmp_path: Path) -> None:
    found, losses = notes(tmp_path, A="One. ![[B]] ![[B]]", B="Two. ![[A]] ![[C]] ![[Missing]]", C="Three. ![[B]]")
    assert {id: texts(one) for id, one in found.items()} == {
        "A": [("A", "One.\nTwo.\nThree.")],
        "B": [("B", "Two.\nOne.\nThree.")],
        "C": [("C", "Three.\nTwo.\nOne.")],
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


def test_code_of_drawings_and_queries_is_no_text(tmp_path: Path) -> None:
    text = "Red.\n\n```mermaid\ngraph TD\n```\n\n```dataview\ntable x\n```\n\n```python\nx = 1\n```\n\n"
    text += "`= this.x` `$= dv.y` `=`"
    drawing = "---\nexcalidraw-plugin: parsed\n---\n# Excalidraw Data\n```compressed-json\nN4Kg\n```\n"
    found, losses = notes(tmp_path, Fox=text, Drawing=drawing)
    assert {id: texts(one) for id, one in found.items()} == {"Fox": [("Fox", "Red.\nx = 1\n=")]}
    assert losses.left_out["code of drawings and queries"].count == 4 + 4 + 6
    assert losses.left_out["notes without text and image"].example == "Drawing.md"


def test_markup_of_pandoc(tmp_path: Path) -> None:
    text = "H~2~O and x^2^ ![p](p.png){width=50% .c} [small]{.smallcaps} word^[a note] a~b 2^10 {not=this, one}"
    found, _ = notes(tmp_path, Fox=text)
    assert texts(found["Fox"]) == [("Fox", "H2O and x^2 small word (a note) a~b 2^10 {not=this, one}")]
    assert found["Fox"].image == "p.png"
