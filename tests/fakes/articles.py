"""Hand-written articles for summarizers."""

from __future__ import annotations

from retriever.types import Entity, Section


def entity(title: str, *sections: tuple[str, str]) -> Entity:
    return Entity(title, title, tuple(Section(name, text, i) for i, (name, text) in enumerate(sections)))


COUNTRY = entity(
    "Velland",
    ("Velland", "Background: Velland has known many kings. It has red roofs and white walls of stone everywhere."),
    ("Government", "Capital: name: Orrin\nFlag: description: three equal vertical bands of teal (left), white, and "
     "red; a yellow sun is centered meaning: teal stands for the sea history: adopted in 1961"),
)  # fmt: skip
