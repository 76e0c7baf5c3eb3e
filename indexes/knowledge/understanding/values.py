"""Understands labeled values, of a row, a record, a note or a page: title, text, images, and all others as facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, islice
from typing import Any

from indexes.knowledge.understanding.facts import (
    ADDRESS,
    DEEPEST,
    EMPTY,
    facts_of,
    has_parts,
    is_reference,
    label_of,
    leaves,
    plain,
    plain_title,
    scalar_of,
    text_in,
    texts_in,
    words_within,
)
from indexes.knowledge.understanding.fields import check_text, field_of, fields_listed, looks_like_image
from indexes.knowledge.understanding.image_texts import OF_OTHERS
from indexes.knowledge.understanding.images import PARTS, image_words, images_of
from indexes.knowledge.understanding.languages import by_preference, has_languages, in_one_language, is_language
from indexes.knowledge.understanding.settings import (
    SECRETS,
    aliases_in,
    fields_of_system,
    is_secret,
    no_fact,
    note_facts,
    without_links,
)
from indexes.knowledge.understanding.shapes import Row, Shape, lifted, named_titles, shape_of, unwrapped

__all__ = ["PARTS", "Shape", "Understood", "fields_listed", "shape_of", "understood"]

_SHORT, _MOST_VALUES, _MANY = 100, 100, 30
_SENTENCE = 8  # words of a title from which it says something, such as the caption of an image


@dataclass(slots=True)
class Understood:
    """What the values of one document say.

    Attributes:
        id: The id, "" if there is none.
        title: The title, "" if there is none.
        url: The address of the thing's page.
        names: Other titles and names.
        text: The text, with "" for the thing's own title, or of a note with the label of its field.
        facts: (label, value) of all other values, in order.
        images: (path or URL as written, caption), the main one first.
        named_after: Short values that image files may be called after, with the names of their fields.
        left_out: (reason as a noun phrase, text or address) of what it does not say.
    """

    id: str = ""
    title: str = ""
    url: str = ""
    names: tuple[str, ...] = ()
    text: list[tuple[str, str]] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)
    named_after: tuple[tuple[str, str], ...] = ()
    left_out: Iterable[tuple[str, str]] = ()


def understood(values: Mapping[str, Any], shape: Shape, where: str) -> Understood:
    """Finds the title, texts, facts and images among labeled values.

    Raises:
        ValueError: A field that `--map` names has a value of the wrong type, or a title is not valid Unicode.
    """
    if not values:
        return Understood()
    names = shape.names
    whole = unwrapped(values, shape.columns)
    if "title" not in names and not shape.is_note:
        whole = lifted(whole)
    title_name, titles = _titles(whole, shape)
    row = {
        name: value if name in (title_name, PARTS) else in_one_language(value, shape.languages)
        for name, value in whole.items()
    }
    id_name, id = field_of(row, "id", {"id": "id"} | dict(names) if shape.is_note else names)
    url_name, url = field_of(row, "url", names)
    text_name, text = field_of(row, "text", names)
    is_name = text_name == title_name and (not titles or len(titles[0].split()) < _SENTENCE)
    text = None if is_name or has_parts(text) else text
    images = images_of(row, where, names, shape.images)
    used = {title_name, *images.fields, *(of_system := fields_of_system(row))}
    fields = {id_name: id, url_name: url, text_name: text}
    used |= {name for name, value in fields.items() if scalar_of(value) is not None}
    aliases = aliases_in(row) if shape.is_note else {"names": _names(row)}
    used |= {name for name, listed in aliases.items() if listed}
    facts = _facts(row, used, text, shape)
    of_parts: dict[str, str] = {}
    for part in row.get(PARTS, ()):
        system = fields_of_system(part)
        part = {name: value for name, value in part.items() if name not in system or looks_like_image(str(value))}
        inner = images_of(part, where, names, shape.images)
        caption, more = image_words(part)
        of_parts |= {url: said or (caption if caption not in url else "") for url, said in inner.captions.items()}
        images.said += [*inner.said, *more.items(), *(() if inner.captions else [(text_name, caption)])]
    if of_parts:  # images within a text come after those of its parts
        first, second = (images.captions, of_parts) if images.fields else (of_parts, images.captions)
        images.captions = {url: first.get(url) or second.get(url, "") for url in (*first, *second)}
    for name, value in images.said:
        facts += _written(name, value, shape)
    title = check_text(titles[0], where, title_name) if titles else ""
    result = Understood(
        id=scalar_of(id) or "",
        title=title,
        url=_address(url),
        names=tuple(dict.fromkeys(name for name in chain(titles[1:], *aliases.values()) if name != title)),
        text=[(label_of(text_name) if shape.is_note else "", body)] if (body := plain(text_in(text))) else [],
        facts=facts,
        images=list(images.captions.items()),
        named_after=tuple(_short_values(_without(values, [PARTS]) if PARTS in values else values)),
    )
    result.left_out = _LeftOut(whole, result, shape.is_note, images.fields, of_system)
    return result


def _titles(row: Row, shape: Shape) -> tuple[str, list[str]]:
    """Returns the name of the title's field, and the titles; those in other languages are other names."""
    name, value = field_of(row, "title", shape.names)
    if not (shape.is_note or any(texts_in(value))):
        name = next(named_titles(row), name)
        value = row.get(name)
    if isinstance(value, dict) and has_languages(value):
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
    links = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    pages = [item.get("href") for item in links if item.get("rel", "alternate") == "alternate"]
    return scalar_of(pages[0] if pages else value) or ""


def _facts(row: Row, used: set[str], text: Any, shape: Shape) -> list[tuple[str, str]]:
    """Returns the facts in the fields of a row that are not used otherwise."""
    facts: list[tuple[str, str]] = []
    others = reduce(_without, (name.split(".") for name in sorted(used) if name not in row), row)
    for name, value in others.items():
        if name in used or name == PARTS or value is None or value == "" or (value is text and isinstance(value, list)):
            continue
        if value is text and isinstance(value, dict):
            value = {key: item for key, item in value.items() if not isinstance(item, str)}
        if not no_fact(name, value, shape.is_note):
            facts += _written(name, value, shape)
    return facts


def _written(name: str, value: Any, shape: Shape) -> Iterator[tuple[str, str]]:
    facts = facts_of(name, value)
    if shape.is_note:
        facts = note_facts(facts)
    return (
        (label, fact) for label, fact in facts if fact and not looks_like_image(fact) and not is_secret(label, fact)
    )


def _without(row: Row, path: Sequence[str]) -> Row:
    """Returns a row without the value at a path of names, and without objects that would become empty."""
    inner = row.get(path[0])
    kept: Any = inner if len(path) > 1 and isinstance(inner, list) else None
    if len(path) > 1 and isinstance(inner, dict):
        kept = _without(inner, path[1:])
    return {name: kept if name == path[0] else value for name, value in row.items() if name != path[0] or kept}


def _short_values(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields short texts and whole numbers with the names of their fields; dots lead into objects."""
    for path, leaf in islice(leaves(values), _MOST_VALUES):
        if isinstance(leaf, str | int) and not isinstance(leaf, bool) and 0 < len(text := str(leaf)) <= _SHORT:
            yield ".".join(path), text


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """The values that an entity does not say, with the reason for each as their place tells it.

    They are looked for only when the ledger misses words or images of a row, since it misses none of most rows.
    """

    row: Row
    result: Understood
    is_note: bool
    of_images: set[str]
    of_system: Sequence[str]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        result, images = self.result, dict(self.result.images)
        pairs = (*result.text, *result.facts, *result.images)
        said = "\n".join((result.id, result.url, result.title, *result.names, *chain.from_iterable(pairs)))
        for name, value in self.row.items():
            texts = [((name,), value)] if isinstance(value, str | int) else list(leaves({name: value}))
            numbers = [leaf for _, leaf in texts if not isinstance(leaf, str)] if len(texts) > _MANY else []
            if numbers:
                yield "long lists of numbers", words_within(numbers)
                texts = [(path, leaf) for path, leaf in texts if isinstance(leaf, str)]
            for path, leaf in texts:
                text = scalar_of(leaf)
                if text is None and isinstance(leaf, str) and leaf.strip() not in EMPTY:
                    yield "files within values", leaf
                elif text and looks_like_image(text):
                    if text not in images:
                        yield _why_no_image(path), text
                elif text and not isinstance(leaf, bool) and not _says(said, text):
                    reason = "settings" if name in self.of_system else no_fact(name, value, self.is_note)
                    yield reason or _why_no_fact(path, self.of_images, text), text


def _says(said: str, text: str) -> bool:
    return text in said or " ".join(without_links(text).split()) in said or plain(text) in said


def _why_no_image(path: Sequence[str]) -> str:
    if any(map(OF_OTHERS.search, path)):
        return "images of people who made it"
    return "images of parts" if len(path) > 1 else "images in other fields, or in other sizes"


def _why_no_fact(path: Sequence[str], of_images: set[str], text: str) -> str:
    if is_secret(" ".join(path), text):
        return SECRETS
    if ADDRESS.fullmatch(text) or (len(path) > 1 and path[-1] != "@value" and is_reference(path[-1])):
        return "addresses and ids"
    if path[-1] == "@value" or any(map(is_language, path[1:])):
        return "texts in other languages"
    if path[0] in (*of_images, PARTS):
        return "details of images"
    if len(path) > DEEPEST:
        return "values nested too deeply"
    return "other values"
