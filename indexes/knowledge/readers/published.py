"""The formats of whole articles: E-VQA's, the InfoSeek subset in it, Wiki6M, and rows of the project's own format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from indexes.decoding import encoding_of, not_utf8, opened_text
from indexes.json_streams import read_members, unreadable_value, value_in
from indexes.knowledge.bad_entries import attempt
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.sections import split_article, split_text
from indexes.knowledge.understanding.fields import check_position, check_text, field_of, images_in, items, text, texts
from indexes.labeled_values import Names, kind
from retriever.filters import filter_of
from retriever.types import ArticleImage, Entity
from retriever.wording import counted

_FIELDS = ("section_texts", "section_titles", "image_urls")
_OBJECT_IN_OBJECT = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{')
_BEGINNING = 4096  # bytes that `recognizes` is told
_SAFE = "/:;@!$*(),~"  # characters that Wikipedia does not encode in the path of a page


def read_evqa(path: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the articles of a file that is one JSON object, with their places.

    Raises:
        ValueError: The file cannot be read at all.
    """
    for number, (url, entry) in enumerate(read_members(path), start=1):
        place = f"{path}: entry {number} ({url!r})"
        yield attempt(place, partial(_evqa_entity, url, entry, place, folder.names))


def _is_evqa(path: Path, start: bytes) -> bool:
    text = start.decode(encoding_of(start), "replace")
    if not _OBJECT_IN_OBJECT.match(text):
        return False
    has_field = any(re.search(rf'"{name}"\s*:', text) for name in _FIELDS)
    if has_field or len(start) < _BEGINNING:
        return has_field
    try:
        _, entry = next(read_members(path))
    except ValueError:  # the reader of other JSON says what is wrong
        return False
    return isinstance(entry, dict) and not entry.keys().isdisjoint(_FIELDS)


def _evqa_entity(key: str, entry: Any, place: str, names: Names) -> Entity:
    check_text(key, place, "id")
    titles = texts(entry, "section_titles", place)
    contents = texts(entry, "section_texts", place)
    if len(titles) != len(contents):
        raise ValueError(f"{place}: {len(titles)} 'section_titles' but {len(contents)} 'section_texts'")
    images = _evqa_images(entry, len(titles), place)
    mains = images_in(entry.get(names["image"]), place, names["image"]) if "image" in names else []
    mains += [image.url for image in images]
    return Entity(
        id=text(entry, names["id"], place) if "id" in names else key,
        title=text(entry, names.get("title", "title"), place),
        sections=split_article(zip(titles, contents, strict=True)),
        image=mains[0] if mains else None,
        url=text(entry, names.get("url", "url"), place, required=False) or key,
        images=images,
    )


def _evqa_images(entry: object, sections: int, place: str) -> tuple[ArticleImage, ...]:
    urls = texts(entry, "image_urls", place, required=False)
    columns = list[list[Any]]()
    for field in ("image_section_indices", "image_reference_descriptions"):
        values = items(entry, field, place, required=False)
        if values and len(values) != len(urls):
            raise ValueError(f"{place}: {len(urls)} 'image_urls' but {len(values)} {field!r}")
        columns.append(values or [None] * len(urls))
    images = []
    for number, (url, position, caption) in enumerate(zip(urls, *columns, strict=True)):
        position = check_position(position, place, f"image_section_indices[{number}]")
        if caption is not None:
            check_text(caption, place, f"image_reference_descriptions[{number}]")
        is_inside = position is not None and 0 <= position < sections  # otherwise it is in no section
        images += [ArticleImage(url, position if is_inside else None, caption or "")] if url else []
    return tuple(images)


def read_wiki6m(path: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the pages of `Wiki6M_ver_1_0.jsonl`, also compressed, with their places; ids are Wikidata's.

    The summary is the first section, under the page's title. The rest of the content follows, divided at headings
    (`== Title ==`) if it has any, otherwise into groups of paragraphs (`indexes.knowledge.sections`).

    Raises:
        ValueError: The file cannot be read at all.
    """
    with opened_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            place = f"{path}: line {number}"
            try:
                row = value_in(line)
            except UnicodeDecodeError as error:
                yield place, not_utf8(place, path, error)
            except (ValueError, RecursionError) as error:
                yield place, ValueError(f"{place}: {unreadable_value(error)}")
            else:
                place = _place_of(row, "wikidata_id", place)
                yield attempt(place, partial(_page, row, place, folder.names))


def _is_wiki6m(path: Path, start: bytes) -> bool:
    line, newline, _ = start.partition(b"\n")
    return line.lstrip(b"\xef\xbb\xbf ").startswith(b"{") and (
        re.search(rb'"wikidata_id"\s*:', line) is not None or (not newline and b'"wikipedia_' in line)
    )


def _page(row: Any, place: str, names: Names) -> Entity:
    id = text(row, names.get("id", "wikidata_id"), place)
    title = text(row, names.get("title", "wikipedia_title"), place)
    image = text(row, names.get("image", "wikipedia_image_url"), place, required=False) or None
    summary = text(row, "wikipedia_summary", place, required=False).strip()
    content = text(row, names.get("text", "wikipedia_content"), place, required=False).strip()
    rest = content.removeprefix(summary)
    lead = [(title, summary)] if summary and (rest != content or not content) else []
    url = text(row, names["url"], place, required=False) if "url" in names else ""
    return Entity(
        id=id,
        title=title,
        sections=split_article([*lead, *split_text(title, rest if lead else content)]),
        image=image,
        url=url or f"https://en.wikipedia.org/wiki/{quote(title.replace(' ', '_'), safe=_SAFE)}",
        images=() if image is None else (ArticleImage(image, 0 if lead or content else None),),
    )


def entry_of(row: Any, place: str, names: Names) -> tuple[str, Entity | ValueError]:
    """Returns the entry, with its place, of a row in the project's own format, which may lack `sections`."""
    place = _place_of(row, names.get("id", "id"), place)
    return attempt(place, partial(own_entity, row, place, names))


def own_entity(row: Any, place: str, names: Names) -> Entity:
    """Returns the entity of a row in the project's own format.

    Its sections are `sections`, or else the parts of `text`; `names` are the names of its fields.

    Raises:
        ValueError: A field is missing, or its value has another type.
    """
    if not isinstance(row, dict):
        raise ValueError(f"{place}: expected an object, but found {kind(row)}")
    names = {"title": "title", **names} if row.get("title") else names  # documented: `title` precedes guesses
    id, title = _string(row, "id", place, names, required=True), _string(row, "title", place, names, required=True)
    if not id:
        raise ValueError(f"{place}: field 'id' is empty")
    sections = list(_own_sections(row, title, place, names))
    images = [
        _own_image(image, len(sections), f"{place}: image {number}")
        for number, image in enumerate(items(row, "images", place, required=False))
    ]
    name, value = field_of(row, "image", names)
    first = [] if name == "images" and "image" not in names else images_in(value, place, name)  # read above
    mains = [*first, *(image.url for image in images)]
    others = row["names"] if isinstance(row.get("names"), list) else []  # otherwise a field of another meaning
    return Entity(
        id=id,
        title=title,
        sections=split_article(sections),
        image=mains[0] if mains else None,
        url=_string(row, "url", place, names),
        images=(*images, *map(ArticleImage, first[1:])),
        names=tuple(check_text(other, place, "names") for other in others if isinstance(other, str)),
        fields=_own_fields(row.get("fields"), place),
    )


def _own_fields(values: Any, place: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(values, dict):  # a field of another meaning
        return ()
    try:
        return tuple((name, text) for name, texts in filter_of(values) for text in texts)
    except ValueError as error:
        raise ValueError(f"{place}: {str(error).replace('filter', 'fields')}") from error


def _own_sections(row: dict[str, Any], title: str, place: str, names: Names) -> Iterator[tuple[str, str]]:
    if row.get("sections") is None and field_of(row, "text", names)[1] is not None:
        yield from split_text(title, _string(row, "text", place, names))
        return
    for position, section in enumerate(items(row, "sections", place, required="text" not in names)):
        inner = f"{place}: section {position}"
        yield text(section, "title", inner), text(section, "text", inner)


def _own_image(image: Any, sections: int, place: str) -> ArticleImage:
    image = {"url": image} if isinstance(image, str) else image
    section = check_position(image.get("section") if isinstance(image, dict) else None, place, "section")
    if section is not None and not 0 <= section < sections:
        raise ValueError(f"{place}: field 'section': {section}, but the article has {counted(sections, 'section')}")
    return ArticleImage(text(image, "url", place), section, text(image, "caption", place, required=False))


def _string(row: dict[str, Any], field: str, place: str, names: Names, *, required: bool = False) -> str:
    """Returns a text or a whole number as text, "" if there is none; raises as `check_text`."""
    name, value = field_of(row, field, names)
    if required and value is None and row.get(name) != "":
        raise ValueError(f"{place}: field {name!r} is missing; if it has another name, pass --map {field}=NAME")
    return "" if value is None else str(value) if type(value) is int else check_text(value, place, name)


def _place_of(row: object, field: str, place: str) -> str:
    """Returns the place of a row with its id."""
    id = row.get(field) if isinstance(row, Mapping) else None
    return f"{place} ({str(id)!r})" if isinstance(id, str | int) and not isinstance(id, bool) else place


EVQA = Reader("evqa", (".json",), _is_evqa, read_evqa)
INFOSEEK = Reader("infoseek", (), lambda path, start: False, read_evqa)  # the 100K subset has E-VQA's format
WIKI6M = Reader("wiki6m", (".jsonl", ".ndjson"), _is_wiki6m, read_wiki6m)
