"""Rows of JSON: the project's own format and similar ones, one article per line or per item of an array."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from indexes.knowledge.formats import fields, rows
from indexes.knowledge.formats.fields import Names
from indexes.knowledge.formats.json_rows import read_rows
from indexes.knowledge.formats.outline import split_article
from indexes.knowledge.formats.reading import Entry, Reading, attempt
from indexes.knowledge.formats.row_shape import BESIDE
from indexes.knowledge.sections import split_text
from retriever.types import ArticleImage, Entity
from retriever.wording import counted


def read_jsonl(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the articles of a `.jsonl` file, of JSON that is or contains a list, or of a folder of such files.

    Raises:
        ValueError: The file cannot be read at all, or no entry has a field given in `names`.
    """
    yield from entries_of(read_rows(path, reading), reading, str(path))


def entries_of(found: Iterable[tuple[str, Any]], reading: Reading, what: str) -> Iterator[Entry]:
    """Yields the entities of rows with their places; rows with `sections` are in the project's own format.

    Raises:
        ValueError: No row has a field given in `reading.names`.
    """
    yield from rows.entities_of(found, reading, what, _either)


def _either(row: Any, where: str, reading: Reading) -> Entity:
    own = isinstance(row, Mapping) and isinstance(row.get("sections"), list)
    entity = _entity(row, where, reading) if own else rows.entity_of(row, where, reading)
    return _with_images_beside(entity, row[BESIDE]) if BESIDE in row else entity


def _with_images_beside(entity: Entity, folder: str) -> Entity:
    """Returns an entity with images relative to the folder of its file; they are also found directly in `--images`."""

    def beside(name: str) -> str:
        return name if "//" in name or name.startswith("/") else posixpath.normpath(f"{folder}/{name}")

    images = tuple(replace(one, url=beside(one.url)) for one in entity.images)
    return replace(entity, image=entity.image and beside(entity.image), images=images)


def entry_of(row: Any, where: str, names: Names) -> Entry:
    """Returns the entry, with its place, of a row in the project's format; `names` are the names of its fields.

    Its sections are `sections`, or else the parts of `text`.
    """
    where = rows.place_of(row, where, names)
    return attempt(where, lambda: _entity(row, where, Reading(names)))


def _entity(row: Any, where: str, reading: Reading) -> Entity:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, but found {fields.kind(row)}")
    names = (
        {"title": "title", **reading.names} if row.get("title") else reading.names
    )  # documented: `title` precedes guesses
    id, title = _required(row, "id", where, names), _required(row, "title", where, names)
    if not id:
        raise ValueError(f"{where}: field 'id' is empty")
    pairs = list(_sections(row, title, where, names))
    images = []
    for number, image in enumerate(fields.items(row, "images", where, required=False)):
        place = f"{where}: image {number}"
        if isinstance(image, str):
            image = {"url": image}
        section_number = fields.check_position(
            image.get("section") if isinstance(image, dict) else None, place, "section"
        )
        if section_number is not None and not 0 <= section_number < len(pairs):
            has = counted(len(pairs), "section")
            raise ValueError(f"{place}: field 'section': {section_number}, but the article has {has}")
        url, caption = fields.text(image, "url", place), fields.text(image, "caption", place, required=False)
        images.append(ArticleImage(url, section_number, caption))
    name, value = fields.field_of(row, "image", names)
    given = [] if name == "images" and "image" not in names else fields.images_in(value, where, name)  # read above
    mains = [*given, *(image.url for image in images)]
    images += map(ArticleImage, given[1:])
    name, url = fields.field_of(row, "url", names)
    others = row.get("names")
    if not isinstance(others, list):  # a field of another meaning
        others = []
    return Entity(
        id=id,
        title=title,
        sections=split_article(pairs, title, reading.losses),
        image=mains[0] if mains else None,
        url=fields.string_of(url, where, name),
        images=tuple(images),
        names=tuple(fields.check_text(name, where, "names") for name in others if isinstance(name, str)),
    )


def _required(row: dict[str, Any], field: str, where: str, names: Names) -> str:
    name, value = fields.field_of(row, field, names)
    if value is None and row.get(name) != "":
        raise ValueError(f"{where}: field {name!r} is missing; if it has another name, pass --map {field}=NAME")
    return fields.string_of("" if value is None else value, where, name)


def _sections(row: dict[str, Any], title: str, where: str, names: Names) -> Iterator[tuple[str, str]]:
    name, value = fields.field_of(row, "text", names)
    if row.get("sections") is None and value is not None:
        yield from split_text(title, fields.string_of(value, where, name))
        return
    for position, section in enumerate(fields.items(row, "sections", where, required="text" not in names)):
        place = f"{where}: section {position}"
        yield fields.text(section, "title", place), fields.text(section, "text", place)
