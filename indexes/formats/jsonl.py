"""Rows of JSON: the project's own format and its likes, one article per line or per item of an array."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexes.formats.fields import (
    Names,
    check_position,
    field_of,
    images_in,
    items,
    kind,
    string_of,
    text,
    unique_keys,
)
from indexes.formats.skipped import Entry, attempt
from indexes.formats.streams import opened, read_items, starts_with
from indexes.sections import split_article, split_text
from retriever.types import ArticleImage, Entity


def read_jsonl(path: Path, names: Names) -> Iterator[Entry]:
    """Yields the articles of a `.jsonl` file, or of a JSON array, also compressed, with their places.

    Raises:
        ValueError: The file is damaged as a whole.
    """
    for where, row in read_rows(path):
        if isinstance(row, ValueError):
            yield where, row
        else:
            yield entry_of(row, where, names)


def read_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the values of JSON lines, or of a JSON array, with their places; blank lines are skipped.

    A line that is not JSON in UTF-8 yields a `ValueError`.

    Raises:
        ValueError: The file is damaged as a whole.
    """
    if starts_with(path, "["):
        for number, value in read_items(path):
            yield f"{path}: item {number}", value
        return
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}: line {number}"
            try:
                yield where, json.loads(line.decode("utf-8-sig"), object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                yield where, ValueError(f"{where}: {error}")


def entry_of(row: Any, where: str, names: Names) -> Entry:
    """Returns the entry of a row with the fields of an entity, with its place; the fields' names are those of `names`.

    Its sections are those of `sections`, or else the parts of `text`.
    """
    found = field_of(row, "id", names)[1] if isinstance(row, dict) else None
    if isinstance(found, str | int) and not isinstance(found, bool):
        where = f"{where} ({str(found)!r})"
    return attempt(where, lambda: _entity(row, where, names))


def _entity(row: Any, where: str, names: Names) -> Entity:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, but found {kind(row)}")
    id, title = _required(row, "id", where, names), _required(row, "title", where, names)
    pairs = list(_sections(row, title, where, names))
    images = []
    for number, image in enumerate(items(row, "images", where, required=False)):
        place = f"{where}: image {number}"
        if isinstance(image, str):
            image = {"url": image}
        section_number = check_position(image.get("section") if isinstance(image, dict) else None, place, "section")
        if section_number is not None and not 0 <= section_number < len(pairs):
            raise ValueError(f"{place}: field 'section': {section_number}, but the article has {len(pairs)} sections")
        url, caption = text(image, "url", place), text(image, "caption", place, required=False)
        images.append(ArticleImage(url, section_number, caption))
    name, value = field_of(row, "image", names)
    given = images_in(value, where, name)
    images += map(ArticleImage, given[1:])
    name, url = field_of(row, "url", names)
    others = row.get("names")  # what else it may be in a file of another's
    return Entity(
        id=id,
        title=title,
        sections=split_article(pairs),
        image=given[0] if given else images[0].url if images else None,
        url=string_of(url, where, name),
        images=tuple(images),
        names=tuple(name for name in others if isinstance(name, str)) if isinstance(others, list) else (),
    )


def _required(row: dict[str, Any], field: str, where: str, names: Names) -> str:
    name, value = field_of(row, field, names)
    if value is None and row.get(name) != "":
        raise ValueError(f"{where}: field {name!r} is missing; if it has another name, pass --map {field}=NAME")
    return string_of("" if value is None else value, where, name)


def _sections(row: dict[str, Any], title: str, where: str, names: Names) -> Iterator[tuple[str, str]]:
    name, value = field_of(row, "text", names)
    if row.get("sections") is None and value is not None:
        yield from split_text(title, string_of(value, where, name))
        return
    for position, section in enumerate(items(row, "sections", where, required="text" not in names)):
        place = f"{where}: section {position}"
        yield text(section, "title", place), text(section, "text", place)
