"""Converts a row of a table, or an object in a list, to an entity: usual fields by name, all others as facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, groupby, islice
from typing import Any

from indexes.knowledge.formats.facts import (
    RIGHTS,
    as_sections,
    facts_of,
    has_parts,
    leave_out_others,
    literal_of,
    plain,
    plain_title,
    scalar_of,
    short_values,
    text_in,
    texts_in,
    words_within,
)
from indexes.knowledge.formats.fields import Names, check_text, field_of, folded, images_in_html, kind
from indexes.knowledge.formats.outline import split_article
from indexes.knowledge.formats.reading import Entry, Reading, SeenHashes, attempt
from indexes.knowledge.formats.row_images import image_words, row_images
from indexes.knowledge.formats.row_shape import BESIDE, PARTS, grouped, lifted, with_shape
from indexes.knowledge.ids import hash_id
from indexes.knowledge.sections import split_text
from retriever.types import ArticleImage, Entity

Row = Mapping[str, Any]

_SETTINGS = re.compile(
    r"layout|(?:display)?template|slug|permalink|draft|sortorder|createdat|updatedat|lastmodified|modifiedat|filesize|mimetype"
)
"""Names of fields for programs, as by `folded`."""
_FILE = re.compile(
    r"(?:image|video|audio|application|model)/[\w.+-]+|compound_?object"
    r"|(?:[^\s/\\]+(?:[ ][^\s/\\]+)*)?(?:[/\\][^/\\]+)+\.[A-Za-z][A-Za-z\d]{1,4}"
    r"|\S+\.(?:pdf|mp3|mp4|ogg|wav|webm|mov|zip|html?|md|json|csv|js|css|docx?|glb|obj|stl)",
    re.IGNORECASE,
)
"""A path or a type of a file."""
_SENTENCE = 8  # words of a title from which it says something, such as the caption of an image
_LONGEST_LIST = 30
_DEEPEST = 10  # levels of nested objects whose fields a message lists
_SAMPLE = 50  # number of rows that determine which field is what (`with_shape`)


def entities_of(
    rows: Iterable[tuple[str, Any]],
    reading: Reading,
    what: str,
    read: Callable[[Any, str, Reading], Entity] | None = None,
) -> Iterator[Entry]:
    """Yields the entities of rows with their places.

    A row without an id gets its title as its id, with its number if an earlier row has the same title. Rows that are
    one thing become one entity (`grouped`). Each row is read by `read`; a reason why there is none is passed on.

    Raises:
        ValueError: No row has a field given in `reading.names`.
    """
    joined = grouped(((where, _literals_in(row)) for where, row in rows), reading.names)
    given = reading.names
    titles, unseen, columns, count = SeenHashes(), set(given), list[str](), 0
    for _, alike in groupby(joined, _Kinds()):
        sample = list(islice(alike, _SAMPLE))
        readable = [row for _, row in sample if isinstance(row, Mapping)]
        columns = columns or list(readable[0] if readable else ())
        reading = with_shape(replace(reading, names=given), readable)
        names = reading.names
        for where, row in chain(sample, alike):
            count += 1
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
                entry = replace(entry, id=entry.title if new else f"{entry.title} ({count})")
            yield where, entry
    for field in sorted(unseen) if columns else ():
        raise ValueError(f"{what}: --map {field}={given[field]}: no entry has it; fields are {_listed(columns)}")


class _Kinds:
    """Numbers the kinds of rows in a sequence: a new one begins with a file of rows most of whose fields are others.

    Files with one row each are all of kind 0.
    """

    def __init__(self) -> None:
        self._number, self._file, self._fields = 1, "", frozenset[str]()

    def __call__(self, place: tuple[str, Any]) -> int:
        where, row = place
        file, inside, _ = where.partition(": ")
        if not inside:
            return 0
        if isinstance(row, Mapping) and file != self._file:
            self._file, fields = file, frozenset(row) - {BESIDE}
            if 2 * len(fields & self._fields) < len(fields | self._fields):
                self._number, self._fields = self._number + 1, fields
        return self._number


def _literals_in(row: Any) -> Any:
    """Unwraps values of a row that state their language or type.

    The `labels` of Wikidata are one label in several languages; those in a list are of an image.
    """
    if isinstance(row, Mapping) and any(isinstance(value, Mapping) for value in row.values()):
        labels = isinstance(row.get("labels"), Mapping) and "label" not in row
        return {"label" if labels and name == "labels" else name: literal_of(value) for name, value in row.items()}
    return row


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
    titles = [plain_title(title) for title in texts_in(value)]
    if not titles:
        missing = f"field {title_name!r} is missing" if "title" in names else "no title"
        raise ValueError(f"{where}: {missing}; if it has another name, pass --map title=NAME; it has {_named(row)}")
    id_name, id = field_of(row, "id", names)
    url_name, url = field_of(row, "url", names)
    text_name, text = field_of(row, "text", names)
    is_name = text_name == title_name and len(titles[0].split()) < _SENTENCE
    text = None if is_name or has_parts(text) else text
    losses = reading.losses
    named = row_images(row, where, names, losses)
    used = {title_name, *named.fields}
    used |= {
        name for name, given in ((id_name, id), (url_name, url), (text_name, text)) if scalar_of(given) is not None
    }
    others = reduce(_without, (name.split(".") for name in sorted(used) if name not in row), row)
    body = plain(text_in(text), losses)
    leave_out_others(text, text_in(text), losses)
    sections = list(split_text(titles[0], body))
    html = (text_in(text), *(value for value in row.values() if isinstance(value, str)))
    images, texts = dict(named.captions), list(named.texts)
    for one in (one for value in html for one in images_in_html(value)):
        images.setdefault(one, "")
    for part in row.get(PARTS, ()):
        own = row_images(part, where, names, losses)
        caption, more = image_words(part, losses)
        images |= {one: own.captions[one] or caption for one in own.captions if not images.get(one)}
        losses.keep(caption if own.captions else "")
        texts += [*own.texts, *more.items(), *(() if own.captions else [(text_name, caption)])]
    facts = list[tuple[str, str]]()
    for name, value in others.items():
        if name in used or name in (PARTS, BESIDE) or (value is text and isinstance(value, list)):
            continue
        if reason := _no_fact(name, value):
            losses.leave_out(reason, words_within(value))
            continue
        for label, line in facts_of(name, value, losses):
            # else just an image, or the language or form of the text that is already used
            if line and not (value is text and line.split() == body.split()):
                facts.append((label, line))
    facts += [fact for name, value in texts for fact in facts_of(name, value, losses)]
    given = row.get("names")  # may have another meaning in a foreign file
    other_names = [*titles[1:], *(given if isinstance(given, list) else ())]
    return Entity(
        id=scalar_of(id) or "",
        title=check_text(titles[0], where, title_name),
        sections=split_article([*sections, *as_sections(facts, losses, reading.sections)], titles[0], losses),
        image=next(iter(images), None),
        url=_address(url),
        images=tuple(
            ArticleImage(one, None, said) for place, (one, said) in enumerate(images.items()) if place or said
        ),
        names=tuple(dict.fromkeys(one for one in other_names if isinstance(one, str) and one != titles[0])),
        named_after=tuple(short_values({name: value for name, value in row.items() if name != PARTS})),
    )


def _address(value: Any) -> str:
    """Returns an address, or that of the page in a list of links (`{"rel": "alternate", "href": …}`), as in Atom."""
    links = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping)]
    own = [one.get("href") for one in links if one.get("rel", "alternate") == "alternate"]
    return scalar_of(own[0] if own else value) or ""


def _no_fact(name: str, value: Any) -> str:
    """Returns the kind of a field that is no fact about the entity, such as "settings"; "" for other fields."""
    if name.startswith(("_", "@context")) or _SETTINGS.fullmatch(folded(name)):
        return "settings"
    if RIGHTS.fullmatch(folded(name)):
        return "licenses and rights"
    given = value if isinstance(value, list) else [value]
    files = [isinstance(one, str) and _FILE.fullmatch(one.strip()) is not None for one in given]
    return "names and types of files" if files and all(files) else ""


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
