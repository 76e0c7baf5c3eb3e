"""The knowledge bases that the field publishes: E-VQA's, the InfoSeek subset in its format, and Wiki6M."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from indexes.knowledge.formats.fields import check_position, check_text, images_in, items, text, texts
from indexes.knowledge.formats.json_rows import first_row, read_rows
from indexes.knowledge.formats.outline import split_article
from indexes.knowledge.formats.reading import Entry, Reading, attempt
from indexes.knowledge.formats.streams import read_members, starts_with
from indexes.knowledge.sections import split_text
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


def read_wiki6m(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the pages of `Wiki6M_ver_1_0.jsonl`, also compressed, with their places; ids are Wikidata's.

    The summary is the first section, under the page's title. The rest of the content follows, divided at headings
    (`== Title ==`) if it has any, otherwise into groups of paragraphs of up to `WORDS` words
    (`indexes.knowledge.sections`).

    Raises:
        ValueError: The file cannot be read at all.
    """
    for where, row in read_rows(path):
        if isinstance(row, ValueError):
            yield where, row
            continue
        id = row.get("wikidata_id") if isinstance(row, dict) else None
        place = f"{where} ({id!r})" if isinstance(id, str) else where
        yield attempt(place, partial(_page, row, place, reading))


def _page(row: Any, where: str, reading: Reading) -> Entity:
    names = reading.names
    id = text(row, names.get("id", "wikidata_id"), where)
    title = text(row, names.get("title", "wikipedia_title"), where)
    image = text(row, names.get("image", "wikipedia_image_url"), where, required=False) or None
    summary = text(row, "wikipedia_summary", where, required=False).strip()
    content = text(row, names.get("text", "wikipedia_content"), where, required=False).strip()
    rest = content.removeprefix(summary)
    lead = [(title, summary)] if summary and (rest != content or not content) else []
    url = text(row, names["url"], where, required=False) if "url" in names else ""
    return Entity(
        id=id,
        title=title,
        sections=split_article([*lead, *split_text(title, rest if lead else content)], title, reading.losses),
        image=image,
        url=url or f"https://en.wikipedia.org/wiki/{quote(title.replace(' ', '_'), safe=_SAFE)}",
        images=() if image is None else (ArticleImage(image, 0 if lead or content else None),),
    )


_SAFE = "/:;@!$*(),~"  # characters that Wikipedia does not encode in the path of a page
