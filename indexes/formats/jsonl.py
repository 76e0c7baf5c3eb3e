"""The project's own format: one article per line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexes.formats.fields import check_position, items, text, unique_keys
from indexes.formats.streams import opened
from indexes.sections import split_article
from retriever.types import ArticleImage, Entity


def read_jsonl(path: Path) -> Iterator[tuple[str, Entity]]:
    """Yields the articles of a `.jsonl` file, also compressed, with their places.

    Raises:
        ValueError: A line does not fit; the message names it.
    """
    return (entity_of(row, where) for where, row in read_lines(path))


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the values of JSON lines with their places; blank lines are skipped.

    Raises:
        ValueError: A line is not JSON in UTF-8.
    """
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}: line {number}"
            try:
                yield where, json.loads(line.decode("utf-8-sig"), object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{where}: {error}") from error


def entity_of(row: Any, where: str) -> tuple[str, Entity]:
    """Returns the article in a row of the project's own format, with its place.

    Raises:
        ValueError: A field is missing or wrong.
    """
    id = text(row, "id", where)
    where = f"{where} ({id!r})"
    pairs = []
    for position, section in enumerate(items(row, "sections", where)):
        place = f"{where}: section {position}"
        pairs.append((text(section, "title", place), text(section, "text", place)))
    images = []
    for number, image in enumerate(items(row, "images", where, required=False)):
        place = f"{where}: image {number}"
        section_number = check_position(image.get("section") if isinstance(image, dict) else None, place, "section")
        if section_number is not None and not 0 <= section_number < len(pairs):
            raise ValueError(f"{place}: field 'section': {section_number}, but the article has {len(pairs)} sections")
        url, caption = text(image, "url", place), text(image, "caption", place, required=False)
        images.append(ArticleImage(url, section_number, caption))
    main = text(row, "image", where, required=False) or (images[0].url if images else None)
    return where, Entity(
        id=id,
        title=text(row, "title", where),
        sections=split_article(pairs),
        image=main,
        url=text(row, "url", where, required=False),
        images=tuple(images),
    )
