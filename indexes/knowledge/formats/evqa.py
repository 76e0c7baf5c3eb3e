"""E-VQA's knowledge base and the InfoSeek subset in its format: one JSON object of any size, URL to article."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from indexes.knowledge.formats.fields import check_position, check_text, images_in, items, text, texts
from indexes.knowledge.formats.json_rows import first_row
from indexes.knowledge.formats.outline import split_article
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.skipped import Entry, attempt
from indexes.knowledge.formats.streams import read_members, starts_with
from retriever.types import ArticleImage, Entity

_FIELDS = frozenset({"section_texts", "section_titles", "image_urls"})


def read_evqa(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the articles of a `.json`, `.json.gz` or `.zip` file with their places.

    Raises:
        ValueError: The file cannot be read at all.
    """
    for number, (url, entry) in enumerate(read_members(path), start=1):
        where = f"{path}: entry {number} ({url!r})"
        yield attempt(where, partial(_entity, url, entry, where, reading))


def is_evqa(path: Path) -> bool:
    """Returns whether a file is a JSON object whose first member has an article's sections, or is unreadable."""
    if starts_with(path, "["):
        return False
    try:
        first = next(iter(read_members(path)), None)
    except ValueError:  # the reader will report what is wrong with the file
        return first_row(path) is None
    return first is None or (isinstance(first[1], dict) and not _FIELDS.isdisjoint(first[1]))


def _entity(key: str, entry: Any, where: str, reading: Reading) -> Entity:
    names = reading.names
    check_text(key, where, "id")
    titles = texts(entry, "section_titles", where)
    contents = texts(entry, "section_texts", where)
    if len(titles) != len(contents):
        raise ValueError(f"{where}: {len(titles)} 'section_titles' but {len(contents)} 'section_texts'")
    images = _images(entry, len(titles), where)
    title = text(entry, names.get("title", "title"), where)
    mains = images_in(entry.get(names["image"]), where, names["image"]) if "image" in names else []
    mains += [image.url for image in images]
    return Entity(
        id=text(entry, names["id"], where) if "id" in names else key,
        title=title,
        sections=split_article(zip(titles, contents, strict=True), title, reading.losses),
        image=mains[0] if mains else None,
        url=text(entry, names.get("url", "url"), where, required=False) or key,
        images=images,
    )


def _images(entry: object, sections: int, where: str) -> tuple[ArticleImage, ...]:
    urls = texts(entry, "image_urls", where, required=False)
    positions = items(entry, "image_section_indices", where, required=False)
    captions = items(entry, "image_reference_descriptions", where, required=False)
    for field, values in (("image_section_indices", positions), ("image_reference_descriptions", captions)):
        if values and len(values) != len(urls):
            raise ValueError(f"{where}: {len(urls)} 'image_urls' but {len(values)} {field!r}")
    found = []
    for number, url in enumerate(urls):
        position = check_position(positions[number], where, f"image_section_indices[{number}]") if positions else None
        caption = captions[number] if captions else None
        if caption is not None:
            check_text(caption, where, f"image_reference_descriptions[{number}]")
        if url:
            inside = position is not None and 0 <= position < sections  # otherwise it is in no section
            found.append(ArticleImage(url, position if inside else None, caption or ""))
    return tuple(found)
