"""Converts a row of a table, or an object in a list, to an entity: usual fields by name, all others as facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, islice
from typing import Any

from indexes.formats.facts import (
    EMPTY,
    RIGHTS,
    as_sections,
    facts_of,
    has_parts,
    literal_of,
    plain,
    scalar_of,
    text_in,
    texts_in,
    words_within,
)
from indexes.formats.fields import (
    GUESSES,
    Names,
    check_text,
    field_of,
    folded,
    images_in_html,
    kind,
    looks_like_image,
)
from indexes.formats.losses import words_in
from indexes.formats.reading import Reading
from indexes.formats.row_images import row_images
from indexes.formats.skipped import Entry, SeenHashes, attempt
from indexes.ids import hash_id
from indexes.sections import split_article, split_text
from retriever.types import ArticleImage, Entity

Row = Mapping[str, Any]

BESIDE = "_beside"
"""The key for the subfolder of a row's file, relative to the knowledge base's folder."""
_LONGEST_LIST = 30
_DEEPEST = 10
"""Levels of nested objects whose fields a message lists."""
_LONGEST_NAME = 100
_SAMPLE = 50
"""Number of rows that determine which field is the title."""


def entities_of(
    rows: Iterable[tuple[str, Any]],
    reading: Reading,
    what: str,
    read: Callable[[Any, str, Reading], Entity] | None = None,
) -> Iterator[Entry]:
    """Yields the entities of rows with their places.

    A row without an id gets its title as its id, with its number if an earlier row has the same title. A row without a
    title that has the same id as the row before it continues that row (`_joined`).

    Args:
        rows: Places, each with a row or with the reason why there is none.
        reading: How to read them.
        what: What contains the rows, for messages.
        read: Reads a row, by default `entity_of`.

    Raises:
        ValueError: No row has a field given in `reading.names`.
    """
    names = reading.names
    joined = _joined(((where, _literals_in(row)) for where, row in rows), names)
    sample = list(islice(joined, _SAMPLE))
    readable = [row for _, row in sample if isinstance(row, Mapping)]
    if "title" not in names and readable and (title := _title_field(readable)):
        names = {**names, "title": title}
        reading = replace(reading, names=names)
    titles, unseen, columns = SeenHashes(), set(names), list(readable[0]) if readable else []
    for number, (where, row) in enumerate(chain(sample, joined), start=1):
        if isinstance(row, ValueError):
            yield where, row
            continue
        if unseen and isinstance(row, Mapping):
            unseen = {field for field in unseen if field_of(row, field, names)[1] is None}
        where = place_of(row, where, names)
        reading.losses.at(where)
        _, entry = attempt(where, partial(read or entity_of, row, where, reading))
        if isinstance(entry, Entity) and not entry.id:
            new = titles.add(hash_id(entry.title))
            entry = replace(entry, id=entry.title if new else f"{entry.title} ({number})")
        yield where, entry
    for field in sorted(unseen) if columns else ():
        raise ValueError(f"{what}: --map {field}={names[field]}: no entry has it; fields are {_listed(columns)}")


def _literals_in(row: Any) -> Any:
    """Unwraps values of a row that state their language or type."""
    if isinstance(row, Mapping) and any(isinstance(value, Mapping) for value in row.values()):
        return {name: literal_of(value) for name, value in row.items()}
    return row


def _joined(rows: Iterable[tuple[str, Any]], names: Names) -> Iterator[tuple[str, Any]]:
    """Yields rows, each merged with those that continue it: same id and no title, like variants in shop exports.

    A field with several values becomes a list.
    """
    before: tuple[str, Any] | None = None
    for where, row in rows:
        if before is not None and _goes_on(before[1], row, names):
            more = {name: _both(before[1].get(name), value) for name, value in row.items()}
            before = before[0], {**before[1], **more}
            continue
        if before is not None:
            yield before
        before = where, row
    if before is not None:
        yield before


def _goes_on(before: Any, row: Any, names: Names) -> bool:
    if not (isinstance(before, Mapping) and isinstance(row, Mapping)) or _has_title(row, names):
        return False
    ids = [scalar_of(field_of(one, "id", names)[1]) for one in (before, row)]
    return ids[0] is not None and ids[0] == ids[1] and _has_title(before, names)


def _both(first: Any, second: Any) -> Any:
    """Returns the values of a field in two rows: a list if there are several."""
    values = _values_of(first)
    values += [one for one in _values_of(second) if one not in values]
    return values if len(values) > 1 else next(iter(values), None)


def _values_of(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list) else [value]


def entity_of(row: Any, where: str, reading: Reading) -> Entity:
    """Returns the entity in a row; its id is "" if the row has none.

    The text, and every other text that is longer than a fact, becomes a section; all other values become lines
    `label: value` in a section "Facts".

    Raises:
        ValueError: The row is not an object, or has no title.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected an object, but found {kind(row)}")
    names = reading.names
    row = lifted(row) if "title" not in names else row
    title_name, value = field_of(row, "title", names)
    titles = [" ".join(plain(title).split()) for title in texts_in(value)]
    if not titles:
        missing = f"field {title_name!r} is missing" if "title" in names else "no title"
        raise ValueError(f"{where}: {missing}; if it has another name, pass --map title=NAME; it has {_named(row)}")
    id_name, id = field_of(row, "id", names)
    url_name, url = field_of(row, "url", names)
    text_name, text = field_of(row, "text", names)
    text = None if text_name == title_name or has_parts(text) else text
    image_name, images = row_images(row, where, names)
    about_image = image_name if image_name in row else image_name.rpartition(".")[0] or image_name
    used = {title_name, about_image}
    used |= {
        name for name, given in ((id_name, id), (url_name, url), (text_name, text)) if scalar_of(given) is not None
    }
    others = reduce(_without, (name.split(".") for name in sorted(used) if name not in row), row)
    losses = reading.losses
    body = plain(text_in(text), losses)
    if isinstance(text, Mapping):
        others_said = words_within(text)
        losses.leave_out("texts in other languages", others_said, words_in([others_said]) - words_in([text_in(text)]))
    sections = list(split_text(titles[0], body))
    html = (text_in(text), *(value for value in row.values() if isinstance(value, str)))
    images = list(dict.fromkeys([*images, *(one for value in html for one in images_in_html(value))]))
    facts = list[tuple[str, str]]()
    for name, value in others.items():
        if name in used or (value is text and isinstance(value, list)):
            continue
        if RIGHTS.fullmatch(folded(name)) or name.startswith(("_", "@context")):
            reason = "settings" if name.startswith(("_", "@")) else "licenses and rights"
            losses.leave_out(reason, "" if name == BESIDE else words_within(value))
            continue
        for label, line in facts_of(name, value, losses):
            # else just an image, or the language or form of the text that is already used
            if line and not (value is text and line.split() == body.split()):
                facts.append((label, line))
    given = row.get("names")  # may have another meaning in a foreign file
    other_names = [*titles[1:], *(given if isinstance(given, list) else ())]
    return Entity(
        id=scalar_of(id) or "",
        title=check_text(titles[0], where, title_name),
        sections=split_article([*sections, *as_sections(facts, losses)], titles[0], losses),
        image=images[0] if images else None,
        url=scalar_of(url) or "",
        images=tuple(map(ArticleImage, images[1:])),
        names=tuple(dict.fromkeys(one for one in other_names if isinstance(one, str) and one != titles[0])),
    )


def _without(row: Row, path: Sequence[str]) -> Row:
    """Returns a row without the value at a path of names, and without objects that would become empty."""
    inner = row.get(path[0])
    kept: Any = inner if len(path) > 1 and isinstance(inner, list) else None
    if len(path) > 1 and isinstance(inner, Mapping):
        kept = _without(inner, path[1:])
    return {name: kept if name == path[0] else value for name, value in row.items() if name != path[0] or kept}


def place_of(row: Any, where: str, names: Names) -> str:
    """Returns the place of a row, with its id if it has one."""
    found = field_of(row, "id", names)[1] if isinstance(row, Mapping) else None
    return f"{where} ({str(found)!r})" if isinstance(found, str | int) and not isinstance(found, bool) else where


def lifted(row: Row) -> Row:
    """Returns a row with the members of the only nested object that has a title, if the row itself has none.

    Examples are GeoJSON features ("properties"), entries of some content systems ("attributes", "fields"), and OAI-PMH
    records ("metadata").
    """
    if _has_title(row):
        return row
    alone = ((name, one[0] if isinstance(one, list) and len(one) == 1 else one) for name, one in row.items())
    titled = [(name, one) for name, one in alone if isinstance(one, Mapping) and _has_title(one)]
    if len(titled) != 1:
        return row
    ((name, inner),) = titled
    return {**{other: value for other, value in row.items() if other not in (name, "geometry")}, **inner}


def _has_title(row: Row, names: Names | None = None) -> bool:
    return any(texts_in(field_of(row, "title", names or {})[1]))


def _title_field(rows: Sequence[Row]) -> str:
    """Returns the title field of rows without a usual one; "" if they have a usual one or no candidate.

    It is the first field whose name ends with "name", "title" or "label" ("Airport name"), or else the first short text
    that differs from row to row, unlike a category; this may be a description.
    """
    first = rows[0]
    if _has_title(lifted(first)) or any(folded(name) in map(folded, GUESSES["title"]) for name in first):
        return ""
    text = field_of(first, "text", {})[0]
    usual = {BESIDE, *(field_of(first, field, {})[0] for field in ("id", "url", "image"))}
    texts = [name for name, value in first.items() if name not in usual and isinstance(value, str) and _is_name(value)]
    texts = [name for name in texts if sum(bool(row.get(name)) for row in rows) >= len(rows) / 2]
    others = [name for name in texts if name != text]
    named = (name for name in others if folded(name).endswith(("title", "name", "label")))
    different = (name for name in (*others, *texts) if _differs(name, rows))
    return next(named, None) or next(different, None) or next(iter(others), "")


def _differs(name: str, rows: Sequence[Row]) -> bool:
    """Returns whether the values of a field are names, of which at least nine in ten are distinct."""
    values = [value for row in rows if isinstance(value := row.get(name), str) and value]
    return len(set(values)) >= 0.9 * len(values) and all(map(_is_name, values))


def _is_name(value: str) -> bool:
    words = any(map(str.isalpha, value)) and len(value) <= _LONGEST_NAME and value not in EMPTY
    return words and not looks_like_image(value) and "://" not in value


def _named(row: Row) -> str:
    """Lists the names of a row's non-empty fields, for messages."""
    return _listed(dict.fromkeys(_paths(row)))


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Yields the names of non-empty fields as `--map` accepts them: dots lead into objects."""
    if isinstance(value, Mapping) and path.count(".") < _DEEPEST:
        for name, one in value.items():
            if str(name)[:1] != "_":
                yield from _paths(one, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for one in value:
            yield from _paths(one, path)
    elif value not in (None, "", [], [""]):
        yield path


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(map(str, shown[:_LONGEST_LIST])) + (", …" if len(shown) > _LONGEST_LIST else "")
