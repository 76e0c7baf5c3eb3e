"""What many rows of one source tell about their fields: which is the id, the title, the text, an image, a section."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from indexes.knowledge.document import Document
from indexes.knowledge.understanding.facts import (
    EMPTY,
    LONGEST_FACT,
    facts_of,
    is_reference,
    literal_of,
    scalar_of,
    texts_in,
)
from indexes.knowledge.understanding.fields import GUESSES, field_of, looks_like_image
from indexes.knowledge.understanding.furniture import Furniture
from indexes.knowledge.understanding.image_texts import Fields, IsImage, image_fields, never
from indexes.knowledge.understanding.languages import Columns, columns_of, joined, languages_of
from indexes.labeled_values import Names, folded

Row = Mapping[str, Any]

_LONGEST_NAME = 100
_PROSE, _WORDS = 60, 8
"""Fewest characters and words of the values of a field, on average, that may be the text without a usual name."""
_FEW = 10  # rows from which an id that repeats for other titles is none


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of documents from many of one source.

    Attributes:
        names: The names of their fields, given ones and those that were found; "" if there is no such field.
        sections: For each label of a fact, whether all facts with it are sections, because one of them is long.
        images: Which fields name images.
        columns: Which columns hold the same thing in several languages.
        languages: The languages of values, the chosen one first.
        is_note: Whether the values are the front matter of notes, with settings of site generators and wiki links.
        is_keyed: Whether they are called by their keys or the names of their files: these are words.
    """

    names: Names = field(default_factory=dict)
    sections: Mapping[str, bool] = field(default_factory=dict)
    images: Fields = field(default_factory=Fields)
    columns: Columns = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    is_note: bool = False
    is_keyed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known of a whole source while its documents are understood.

    Attributes:
        folder: The name of the folder that is read.
        shape: What the fields of its values are.
        furniture: What its documents share.
        common: Names of files that say nothing, such as `index` where each thing has its own folder.
        drops: Whether to leave out a section with a given title, and those below it.
        keep_navigation: Whether to keep navigation, comments and the like.
        resolve: Returns the path of an image, or its address if it is remote, from what a document names and the path
            of the document.
        measure: Returns the width and height of an image, (0, 0) if it is not there.
    """

    folder: str
    shape: Shape = field(default_factory=Shape)
    furniture: Furniture = field(default_factory=Furniture)
    common: frozenset[str] = frozenset()
    drops: Callable[[str], bool] = lambda title: False
    keep_navigation: bool = False
    resolve: Callable[[str, str], str]
    measure: Callable[[str], tuple[int, int]]


def shape_of(documents: Sequence[Document], names: Names, is_image: IsImage = never, *, is_note: bool = False) -> Shape:
    """Returns the shape of documents, from a sample of them; a field that `names` gives is not sought.

    Args:
        documents: Some documents.
        names: The names of fields that the user gives.
        is_image: Whether the file of an image is found, for a path or an address.
        is_note: Whether they are the front matter of notes.
    """
    rows: list[Row] = [document.values for document in documents if document.values]
    columns = columns_of(rows)
    languages = languages_of(rows, columns)
    rows = [unwrapped(row, columns) for row in rows]
    known, is_keyed = dict(names), _are_names([document.id for document in documents])
    if rows and not is_note:
        if "title" not in known and (title := _title_field(rows, is_keyed)):
            known["title"] = title
        lifted_rows = rows if "title" in names else list(map(lifted, rows))
        if "text" not in known and (text := _text_field(lifted_rows, known)):
            known["text"] = text
        if "id" not in known and len(rows) >= _FEW and not _has_ids(lifted_rows):
            known["id"] = ""
    return Shape(known, _sections(rows), image_fields(rows, is_image), columns, languages, is_note, is_keyed)


def unwrapped(row: Row, columns: Columns) -> Row:
    """Returns a row without wrappers around values that state their language or type, its languages joined.

    The `labels` of Wikidata are one label in several languages; those in a list are of an image.
    """
    row = joined(row, columns)
    labels = isinstance(row.get("labels"), dict) and "label" not in row
    return {"label" if labels and name == "labels" else name: literal_of(value) for name, value in row.items()}


def has_title(row: Row, names: Names | None = None) -> bool:
    """Returns whether a row has a title."""
    return any(texts_in(field_of(row, "title", names or {})[1]))


def lifted(row: Row) -> Row:
    """Returns a row with the members of the only nested object that has a title, if the row itself has none.

    Examples are entries of some content systems ("attributes", "fields"), and OAI-PMH records ("metadata").
    """
    if has_title(row):
        return row
    alone = ((name, value[0] if isinstance(value, list) and len(value) == 1 else value) for name, value in row.items())
    titled = [(name, value) for name, value in alone if isinstance(value, dict) and has_title(value)]
    if len(titled) != 1:
        return row
    ((name, inner),) = titled
    return {**{other: value for other, value in row.items() if other != name}, **inner}


def _has_ids(rows: Sequence[Row]) -> bool:
    """Returns whether the values of the usual field for ids are mostly each one row's, unlike `ID: Secret Identity`."""
    ids = [id for row in rows if (id := scalar_of(field_of(row, "id", {})[1]))]
    return 2 * len(set(ids)) >= len(ids)


def _title_field(rows: Sequence[Row], is_keyed: bool) -> str:
    """Returns the title field of rows without a usual one; "" if they have a usual one or no candidate.

    It is the first field whose name ends with "name", "title" or "label" ("Airport name"). Without one, things that are
    called by their keys need no other title; that of others is the first short text that differs from row to row,
    unlike a category (this may be a description), or the one that differs in most rows, or the first.
    """
    first = rows[0]
    if has_title(lifted(first)) or any(folded(name) in map(folded, GUESSES["title"]) for name in first):
        return ""
    text = field_of(first, "text", {})[0]
    usual = {field_of(first, name, {})[0] for name in ("id", "url", "image")}
    texts = [name for name, value in first.items() if name not in usual and isinstance(value, str) and _is_name(value)]
    texts = [name for name in texts if sum(bool(row.get(name)) for row in rows) >= len(rows) / 2]
    if all(map(is_reference, texts)) and any(isinstance(value, dict) for value in first.values()):
        return ""  # titles of museum records are nested
    others = [name for name in texts if name != text]
    named = (name for name in named_titles(first) if name in others)
    different = (name for name in (*others, *texts) if _differs(name, rows))
    if (title := next(named, "")) or is_keyed:
        return title
    most = max(others, key=lambda name: _variety(name, rows), default="")
    return next(different, None) or (most if 2 * _variety(most, rows) > len(rows) else next(iter(others), ""))


def _are_names(keys: Sequence[str]) -> bool:
    """Returns whether at least nine in ten of several keys are words rather than codes or the names of images."""
    return len(keys) > 1 and sum(map(_is_words, keys)) >= 0.9 * len(keys)


def _is_words(key: str) -> bool:
    has_word = re.search(r"[^\W\d_]{4}", key) is not None and not looks_like_image(key)
    return has_word and (" " in key or not (key.isupper() or any(map(str.isdigit, key))))


def named_titles(row: Row) -> Iterator[str]:
    """Yields the fields of a row with short texts whose names end as those of titles do ("Airport name")."""
    short = (name for name, value in row.items() if isinstance(value, str) and _is_name(value))
    return (name for name in short if folded(name).endswith(("title", "name", "label")))


def _differs(name: str, rows: Sequence[Row]) -> bool:
    """Returns whether the values of a field are names, of which at least nine in ten are distinct."""
    values = [value for row in rows if isinstance(value := row.get(name), str) and value]
    return len(set(values)) >= 0.9 * len(values) and all(map(_is_name, values))


def _variety(name: str, rows: Sequence[Row]) -> int:
    """Returns how many values a field has, 0 if one of them is longer than a name."""
    values = {str(row.get(name) or "") for row in rows}
    return len(values) if max(map(len, values)) <= _LONGEST_NAME else 0


def _is_name(value: str) -> bool:
    words = any(map(str.isalpha, value)) and len(value) <= _LONGEST_NAME and value not in EMPTY
    return words and not looks_like_image(value) and "://" not in value


def _text_field(rows: Sequence[Row], names: Names) -> str:
    """Returns the field with the longest prose if no row has a usual text, "" if there is none."""
    if any(field_of(row, "text", names)[1] not in (None, "", [], {}) for row in rows):
        return ""
    texts = defaultdict[str, list[str]](list)
    for row in rows:
        taken = {field_of(row, field, names)[0] for field in ("id", "title", "url")}
        for name, value in row.items():
            if isinstance(value, str) and value.strip() and name not in taken and _is_prose(value):
                texts[name].append(value)
    prose = {
        name: sum(map(len, values))
        for name, values in texts.items()
        if 2 * len(values) >= len(rows)
        and sum(map(len, values)) >= _PROSE * len(values)
        and sum(len(value.split()) for value in values) >= _WORDS * len(values)
        and 2 * len(set(values)) >= len(values)
    }
    return max(prose, key=prose.__getitem__, default="")


def _is_prose(value: str) -> bool:
    return "://" not in value[:20] and not re.match(r"data:|[A-Za-z\d+/]{60}", value)


def _sections(rows: Sequence[Row]) -> Mapping[str, bool]:
    values = defaultdict[str, list[str]](list)
    for row in rows:
        for name, value in lifted(row).items():
            for label, fact in facts_of(str(name), value) if not str(name).startswith("_") else ():
                values[label].append(fact)
    return {label: any(len(fact) > LONGEST_FACT or "\n" in fact for fact in facts) for label, facts in values.items()}
