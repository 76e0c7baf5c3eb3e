"""Reads the rows of infoboxes as lines `label: value`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from indexes.formats.superscripts import write_superscripts

INFOBOX = 'table[class*="infobox"], div[class*="infobox"], aside.portable-infobox, table.sinottico, table.biota'
"""Infoboxes of Wikipedia in several languages, and of Fandom's wikis."""

_BREAK = "\x1f"
_BULLETS = "•·*- \u2013\u00a0"


def facts(box: Any) -> Iterator[str]:
    """Yields the lines of an infobox; modifies the box.

    A single cell before the first pair ("Single by …") is a line of its own. After that, it is the heading of a group,
    which is put before labels that are marked as its parts ("• Total").
    """
    for node in box.css("br"):
        node.replace_with(_BREAK)
    if box.tag == "aside":
        for row in box.css(".pi-data"):
            label, value = row.css_first(".pi-data-label"), row.css_first(".pi-data-value")
            if label is not None and value is not None:
                yield from _pair(_words(label), _words(value))
        return
    group, begun, first = "", False, True
    above: list[str] = []
    for row in box.css("tr"):
        if not _belongs(row, box):
            continue
        cells = [cell for cell in row.iter() if cell.tag in ("th", "td")]
        if len(cells) == 2 and cells[1].tag == "td":
            label = _words(cells[0])
            if label and label[0] in _BULLETS and group:
                label = f"{group}, {label.strip(_BULLETS)}"
            elif label:
                group = label
            for line in _pair(label, _words(cells[1])):
                if not begun:
                    yield from above
                begun = True
                yield line
        elif len(cells) == 1 and cells[0].css_first("table, img") is None:
            group = _words(cells[0])
            if group and not first:
                above.append(group)
            first = first and not group  # the first single cell repeats the title


def _pair(label: str, value: str) -> Iterator[str]:
    label = label.strip(":" + _BULLETS)
    if label and value and len(label) <= 80:
        yield f"{label}: {value}"


def _belongs(row: Any, box: Any) -> bool:
    """Returns whether a row belongs to the box itself, not to a table inside it."""
    node = row.parent
    while node is not None and node.tag != "table":
        node = node.parent
    return node is None or node.mem_id == box.mem_id or "infobox" in (node.attributes.get("class") or "")


def _words(cell: Any) -> str:
    """Returns the text of a cell; the items of a list, or its lines, are separated by commas."""
    listed = [write_superscripts(item.text()) for item in cell.css("li")]
    parts = listed or write_superscripts(cell.text()).split(_BREAK)
    words = (" ".join(part.replace(_BREAK, " ").split()).strip(" ,") for part in parts)
    return ", ".join(filter(None, words))
