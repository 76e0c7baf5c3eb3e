"""Reads the rows of infoboxes as lines `label: value`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from indexes.knowledge.formats.html_text import Image, cell_text, images_of, table_cells, words_of
from indexes.knowledge.formats.losses import Losses, words_in

INFOBOX = 'table[class*="infobox"], div[class*="infobox"], aside.portable-infobox, table.sinottico, table.biota'
"""Infoboxes of Wikipedia in several languages, and of Fandom's wikis."""

_BULLETS = "•·*- \u2013\u00a0"
_LONGEST_LABEL = 80
_HEADINGS = "headings in infoboxes"


class Box(NamedTuple):
    """The content of an infobox: lines, and images with the text in their cell as caption."""

    lines: list[str]
    images: list[Image]


def read_infobox(box: Any, title: str, losses: Losses) -> Box:
    """Returns the content of an infobox.

    A single cell before the first pair ("Single by …") is a line of its own, unless it is the title. After that, it is
    the heading of a group, which is put before labels that are marked as its parts ("• Total").
    """
    found, group, fresh, begun = Box([], []), "", "", False  # fresh: a heading that is in no line yet
    for label, value, images in _rows(box, losses):
        found.images.extend(images)
        if label and value:
            if label[0] in _BULLETS and group:
                losses.repeat(0 if fresh else words_in([group]))
                label, fresh = f"{group}, {label.strip(_BULLETS)}", ""
            else:
                losses.leave_out(_HEADINGS, fresh)
                group, fresh = label, ""
            found.lines.append(f"{label.strip(':' + _BULLETS)}: {value}")
            begun = True
        elif value and _plain(value) not in (_plain(title), _plain(title.partition(" (")[0])):
            losses.leave_out(_HEADINGS, fresh)
            group, fresh = value, value if begun else ""
            found.lines.extend([] if begun else [value])
    losses.leave_out(_HEADINGS, fresh)
    return found


def _plain(title: str) -> str:
    return title.strip("\"'\u201c\u201d").casefold()


def _rows(box: Any, losses: Losses) -> Iterator[tuple[str, str, list[Image]]]:
    """Yields the label, the value and the images of each row; a row of one cell has no label."""
    if box.tag != "table":
        for node in box.iter():
            label, value = node.css_first(".pi-data-label"), node.css_first(".pi-data-value")
            if node.tag == "table" or (node.css_first("table, .pi-data") is not None and label is None):
                yield from _rows(node, losses)
            elif label is not None and value is not None and len(node.css(".pi-data-label")) == 1:
                yield words_of(label), cell_text(value, losses), images_of(value)
            elif label is not None:
                yield from _rows(node, losses)
            else:
                yield _alone(node, losses)
        return
    for cells in table_cells(box):
        inner = cells[0].css_first("table") if len(cells) == 1 else None
        if inner is not None:
            yield from _rows(inner, losses)
        elif len(cells) == 1:
            yield _alone(cells[0], losses)
        else:
            label, *values = (cell_text(cell, losses) for cell in cells)
            if all(cell.tag == "th" for cell in cells):  # names of columns
                losses.leave_out(_HEADINGS, " ".join((label, *values)))
                continue
            images = [image for cell in cells for image in images_of(cell)]
            is_pair = bool(label) and len(label) <= _LONGEST_LABEL and any(values)
            value = "; ".join(filter(None, values if is_pair else [label, *values]))
            yield label if is_pair else "", value, images


def _alone(node: Any, losses: Losses) -> tuple[str, str, list[Image]]:
    """Returns the row of a single cell, whose text is the caption of its images if it has any."""
    text, images = cell_text(node, losses), images_of(node)
    return "", "" if images else text, [Image(one.attributes, text, one.link) for one in images]
