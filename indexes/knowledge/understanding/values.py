"""Understands labeled values, of a row, a record, a note or a page: title, text, images, and all others as facts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import Any

from indexes.knowledge.understanding.facts import (
    facts_of,
    has_parts,
    plain,
    plain_title,
    scalar_of,
    text_in,
    texts_in,
    words_within,
)
from indexes.knowledge.understanding.fields import check_text, field_of, fields_listed, looks_like_image
from indexes.knowledge.understanding.settings import (
    SETTINGS,
    aliases_in,
    fields_of_system,
    no_fact,
    note_facts,
    without_links,
)
from indexes.knowledge.understanding.shapes import Row, Shape, lifted, shape_of, unwrapped
from indexes.knowledge.understanding.translations import LeftOut, by_preference, has_languages, in_one_language, joined
from indexes.knowledge.understanding.value_images import PARTS, image_words, images_of

__all__ = ["PARTS", "Shape", "Understood", "fields_listed", "shape_of", "understood"]

_SHORT, _MOST_VALUES = 100, 100
_SENTENCE = 8  # words of a title from which it says something, such as the caption of an image


@dataclass(slots=True)
class Understood:
    """What the values of one document say.

    Attributes:
        id: The id, "" if there is none.
        title: The title, "" if there is none.
        url: The address of the thing's page.
        names: Other titles and names.
        text: (section's title, text) of the fields that are text, "" as the title for text under the thing's own.
        facts: (label, value) of all other values, in order.
        images: (path or URL as written, caption), the main one first.
        named_after: Short values that image files may be called after, with the names of their fields.
        left_out: (reason as a noun phrase, text) of what is dropped on purpose.
    """

    id: str = ""
    title: str = ""
    url: str = ""
    names: tuple[str, ...] = ()
    text: list[tuple[str, str]] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)
    named_after: tuple[tuple[str, str], ...] = ()
    left_out: LeftOut = field(default_factory=list)


def understood(values: Mapping[str, Any], shape: Shape, where: str) -> Understood:
    """Returns what labeled values say.

    Raises:
        ValueError: A field that `--map` names has a value of the wrong type, or a title is not valid Unicode.
    """
    if not values:
        return Understood()
    names, left_out = shape.names, LeftOut()
    row = unwrapped(joined(values, shape.columns) if shape.columns else values)
    if "title" not in names and not shape.is_note:
        row = lifted(row)
    title_name, titles = _titles(row, shape, left_out)
    if any(isinstance(value, Mapping | list) for value in row.values()):
        row = {
            name: value if name in (title_name, PARTS) else in_one_language(value, shape.languages, left_out)
            for name, value in row.items()
        }
    id_name, id = field_of(row, "id", {"id": "id"} | dict(names) if shape.is_note else names)
    url_name, url = field_of(row, "url", names)
    text_name, text = field_of(row, "text", names)
    is_name = text_name == title_name and (not titles or len(titles[0].split()) < _SENTENCE)
    text = None if is_name or has_parts(text) else text
    images = images_of(row, where, names, shape.images, left_out)
    of_system = fields_of_system(row)
    left_out += [
        (SETTINGS, words) for name in of_system if name not in images.fields and (words := words_within(row[name]))
    ]
    used = {title_name, *images.fields, *of_system}
    fields = {id_name: id, url_name: url, text_name: text}
    used |= {name for name, value in fields.items() if scalar_of(value) is not None}
    aliases = aliases_in(row) if shape.is_note else {"names": _names(row)}
    used |= {name for name, listed in aliases.items() if listed}
    others = chain.from_iterable(aliases.values())
    facts = _facts(row, used, text, shape, left_out)
    of_parts: dict[str, str] = {}
    for part in row.get(PARTS, ()):
        system = fields_of_system(part)
        part = {name: value for name, value in part.items() if name not in system or looks_like_image(str(value))}
        inner = images_of(part, where, names, shape.images, left_out)
        caption, more = image_words(part, left_out)
        of_parts |= {url: said or (caption if caption not in url else "") for url, said in inner.captions.items()}
        images.said += [*inner.said, *more.items(), *(() if inner.captions else [(text_name, caption)])]
    if of_parts:  # images within a text come after those of its parts
        first, second = (images.captions, of_parts) if images.fields else (of_parts, images.captions)
        images.captions = {url: first.get(url) or second.get(url, "") for url in (*first, *second)}
    for name, value in images.said:
        facts += _written(name, value, shape, left_out)
    title = check_text(titles[0], where, title_name) if titles else ""
    return Understood(
        id=scalar_of(id) or "",
        title=title,
        url=_address(url),
        names=tuple(dict.fromkeys(name for name in (*titles[1:], *others) if name != title)),
        text=[("", body)] if (body := _body(text, left_out)) else [],
        facts=facts,
        images=list(images.captions.items()),
        named_after=tuple(_short_values({name: value for name, value in values.items() if name != PARTS})),
        left_out=left_out,
    )


def _titles(row: Row, shape: Shape, left_out: LeftOut) -> tuple[str, list[str]]:
    """Returns the name of the title's field, and the titles; those in other languages are other names."""
    name, value = field_of(row, "title", shape.names)
    if isinstance(value, Mapping) and has_languages(value):
        value = by_preference(value, shape.languages)
    if shape.is_note and not isinstance(value, str | int):  # may be meant for another program
        return name, []
    titles = [without_links(plain_title(title)) if shape.is_note else plain_title(title) for title in texts_in(value)]
    return name, [title for title in titles if title]


def _names(row: Row) -> list[str]:
    names = row.get("names")  # may have another meaning in a foreign file
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def _address(value: Any) -> str:
    """Returns an address, or that of the page in a list of links (`{"rel": "alternate", "href": …}`), as in Atom."""
    links = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Mapping)]
    pages = [item.get("href") for item in links if item.get("rel", "alternate") == "alternate"]
    return scalar_of(pages[0] if pages else value) or ""


def _body(text: Any, left_out: LeftOut) -> str:
    body = plain(text_in(text))
    if isinstance(text, Mapping):
        forms = [str(value) for value in text.values() if isinstance(value, str) and value.strip() != text_in(text)]
        left_out += [("other forms of the text", form) for form in forms]
    return body


def _facts(row: Row, used: set[str], text: Any, shape: Shape, left_out: LeftOut) -> list[tuple[str, str]]:
    """Returns the facts in the fields of a row that are not used otherwise."""
    facts: list[tuple[str, str]] = []
    others = reduce(_without, (name.split(".") for name in sorted(used) if name not in row), row)
    for name, value in others.items():
        if name in used or name == PARTS or value is None or value == "" or (value is text and isinstance(value, list)):
            continue
        if value is text and isinstance(value, Mapping):
            value = {key: item for key, item in value.items() if not isinstance(item, str)}
        if reason := no_fact(name, value, shape.is_note):
            left_out += [(reason, words)] if (words := words_within(value)) else []
            continue
        facts += _written(name, value, shape, left_out)
    return facts


def _written(name: str, value: Any, shape: Shape, left_out: LeftOut) -> Iterator[tuple[str, str]]:
    facts = facts_of(name, value, left_out)
    if shape.is_note:
        yield from note_facts(facts, left_out)
    else:
        for label, fact in facts:
            if looks_like_image(fact):
                left_out.append(("images in other fields", fact))
            elif fact:
                yield label, fact


def _without(row: Row, path: Sequence[str]) -> Row:
    """Returns a row without the value at a path of names, and without objects that would become empty."""
    inner = row.get(path[0])
    kept: Any = inner if len(path) > 1 and isinstance(inner, list) else None
    if len(path) > 1 and isinstance(inner, Mapping):
        kept = _without(inner, path[1:])
    return {name: kept if name == path[0] else value for name, value in row.items() if name != path[0] or kept}


def _short_values(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields short texts and whole numbers with the names of their fields; dots lead into objects."""
    waiting: deque[tuple[str, Any]] = deque(values.items())
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        name, value = waiting.popleft()
        if isinstance(value, Mapping):
            waiting += [(f"{name}.{inner}", item) for inner, item in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(name, item) for item in value]
        elif isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value)) <= _SHORT:
            yield str(name), str(value)
