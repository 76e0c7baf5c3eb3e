"""The rows of JSON and YAML: lines, the items of a list, the entries of an object, or an object that is one row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

from indexes import json_streams
from indexes.decoding import PACKED, begins_with, decoded, not_utf8, opened, opened_text, plain_name
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers import rows as common
from indexes.knowledge.readers.rows import Row
from indexes.knowledge.understanding.fields import GUESSES, field_of, looks_like_image
from indexes.knowledge.understanding.settings import SECRETS, is_account
from indexes.labeled_values import kind
from indexes.yaml_values import yaml_value
from retriever.strict_json import unique_keys

_LARGE = 1 << 24
"""Bytes of a file from which it is read as a stream; in a compressed file, each counts as ten."""
_SAMPLE = 50
_DEEPEST = 3
_SHORT = 60  # characters of a text that may be a name
_FEWEST = 5  # plain members of an object that is a row without a usual title
_NAME_WORDS = 4  # most words in a name; longer text is a description
_OF_DJANGO = ("admin.", "auth.", "contenttypes.", "sessions.", "sites.")  # its own models, which every site has
_List = tuple[str, Any, list[Document]]
_OTHERS = "objects in other lists"
_REST = "values outside of the list"


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of a file with their places.

    For an object, these are its members if they are objects, or else a list of objects in it (`_rank`), or else the
    object itself. What else it holds follows in documents of its own. The only row of a file among others has the
    file's path as its id; the member of an object has its key.
    """
    entries = _entries(file, folder)
    if not folder.is_alone and not _is_lines(file):
        first = list(islice(entries, 2))
        others = [row for _, row in first[1:] if not isinstance(row, Document) or row.values]
        match first:
            case [(_, Document(values=values, id="") as row), *_] if values and not others:
                first[0] = str(file), replace(row, id=common.id_of(file, folder))
        yield from first
    yield from entries


def _entries(file: Path, folder: Folder) -> Iterator[Entry]:
    if not _is_lines(file) and (value := _value_of(file, folder)) is not None:
        if isinstance(value, list):
            yield from of_list(enumerate(value, start=1), file, folder)
        else:
            yield from of_object(value, file, folder)
    elif json_streams.has_lines(file):
        is_value, following = json_streams.first_line(file)
        in_parts = not is_value and following[:1] in (b'"', b"}")  # values of several lines each
        parts = ((f"{file}: value {number}", row) for number, row in json_streams.read_values(file))
        yield from _documents(common.of_lists(parts if in_parts else _in_lines(file)))
    elif json_streams.starts_with(file, "["):
        yield from of_list(json_streams.read_items(file), file, folder)
    else:
        yield from _streamed(file, folder)


def _is_lines(file: Path) -> bool:
    return any(suffix.lower() in (".jsonl", ".ndjson") for suffix in file.suffixes[-2:])


@lru_cache(maxsize=2)  # a file is looked at once more when the one before it is read
def _value_of(file: Path, folder: Folder) -> Any:
    """Returns the value in a file, `None` for large files and those that are not one value, which are streamed.

    Raises:
        ValueError: A YAML file is none, or not Unicode.
    """
    is_yaml = any(suffix.lower() in (".yml", ".yaml") for suffix in file.suffixes[-2:])
    if not is_yaml and file.stat().st_size * (10 if file.suffix in PACKED else 1) > _LARGE:
        return None
    with opened(file) as content:
        data = content.read()
    if is_yaml:
        return yaml_value(decoded(data, str(file)), str(file))
    try:
        return json.loads(decoded(data, str(file)), object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):  # a stream says where
        return None


def of_list(items: Iterable[tuple[int, Any]], file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the items of a list as rows, given their numbers; a list of other values is left out."""
    items = iter(items)
    first = list(islice(items, 1))
    if first and not isinstance(first[0][1], Mapping | list):
        values = [item for _, item in chain(first, items)]
        yield common.no_rows(values, file, folder, "a list of values, not of objects")
        return
    if first and common.group_in(first[0][1]):
        first = [*enumerate(common.ungrouped([item for _, item in chain(first, items)]), start=1)]
    yield from _documents(common.of_lists((f"{file}: item {number}", item) for number, item in chain(first, items)))


def _in_lines(file: Path) -> Iterator[tuple[str, Any]]:
    with opened_text(file) as content:
        for number, line in enumerate(content, start=1):
            if not line.strip():
                continue
            where = f"{file}: line {number}"
            try:
                yield where, json_streams.value_in(line)
            except UnicodeDecodeError as error:
                yield where, not_utf8(where, file, error)
            except (ValueError, RecursionError) as error:
                yield where, ValueError(f"{where}: {json_streams.unreadable_value(error)}")


def _streamed(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of a large object: its members if the first two are alike, or else those of one of its lists.

    Holds the object in memory only if it is of texts or a data frame, or if the list is in another object.
    """
    first = {key: value for key, number, value in islice(json_streams.read_parts(file), 2) if number == 0}
    members = [value for value in first.values() if isinstance(value, Mapping)]
    are_alike = len(members) == len(first) == 2 and not common.are_columns(first)
    if are_alike and (members[0].keys() & members[1].keys() or not any(any(_lists(row)) for row in members)):
        yield from _of_members(json_streams.read_members(file), file)
        return
    words, samples = Counter[str](), dict[str, list[Row]]()
    for key, number, item in json_streams.read_parts(file):
        if number and isinstance(item, Mapping):
            words[key] += len(common.words_within(item).split())
            samples.setdefault(key, []).extend([item] if number <= _SAMPLE else [])
    chosen = max(samples, key=lambda key: _rank(samples[key], words[key]), default="")
    if not chosen or "schema" in first or len(samples[chosen]) < _SAMPLE:
        yield from of_object(dict(json_streams.read_members(file)), file, folder)
        return
    for key, number, value in json_streams.read_parts(file):
        if key == chosen:
            yield from _documents([(f"{file}: item {number}", value)])
        else:
            yield f"{file}: {key}", common.outside(common.words_within(value), _OTHERS if number else _REST)


def of_object(value: Any, file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows in an object, and what else it holds."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{file}: expected a list or an object, but found {kind(value)}")
    if "icons" in value and value.keys() & {"start_url", "short_name"}:
        yield common.no_rows(value, file, folder, "a web app's manifest")
        return
    value = common.unpacked(value)
    plain = sum(isinstance(member, str | int | float) for member in value.values())
    has_siblings = value.get("type") != "FeatureCollection" and _has_siblings(value, file, folder)
    is_row = has_siblings and (_may_be_titled(value) or plain >= _FEWEST)
    if not is_row and (framed := common.rows_in(value)) is not None:
        numbered = ((f"{file}: row {number}", row) for number, row in enumerate(framed, start=1))
        yield from _documents(common.of_lists(numbered))
    elif not is_row and not _are_entries(value) and (lists := list(_lists(value))):
        same = _of_things(lists)
        rows = same[0][2]
        if len(same) > 1:
            rows = list(_joined({name: rows for name, _, rows in same}))
        elif (members := common.ungrouped(values := _values(rows))) is not values:
            rows = [Document(values=row) for row in members]
        yield from ((f"{file}: item {number}", row) for number, row in enumerate(rows, start=1))
        for name, container, others in (one for one in lists if one not in same):
            reason = SECRETS if is_account(others[0].values) else _OTHERS
            yield f"{file}: {name}", common.outside(common.words_within(container), reason)
        if words := common.words_within(_without(value, {id(container) for _, container, _ in lists})):
            yield str(file), common.outside(words, _REST)
    elif not is_row and not _may_be_titled(value) and _holds_objects(value):
        yield from _of_members(value.items(), file)
    elif has_siblings or _may_be_titled(value):
        yield str(file), Document(values=value, id=common.id_of(file, folder))
    elif folder.is_alone and len(value) > 1 and all(isinstance(text, str) for text in value.values()):
        yield from _of_texts(value, file)
    else:
        yield common.no_rows(value, file, folder, "holds no list of objects, nor an object with a title")


def _may_be_titled(value: Row) -> bool:
    """Returns whether an object has a title, which may be null, or has an id and the title is in a nested object."""
    inner = sum(isinstance(member, Mapping) and common.is_titled(member) for member in value.values())
    has_id = field_of(value, "id", {})[1] is not None
    return common.is_titled(value) or any(name in value for name in GUESSES["title"]) or (has_id and inner == 1)


def _has_siblings(value: Row, file: Path, folder: Folder) -> bool:
    """Returns whether the file before or after this one holds an object with the same fields: one row per file."""
    for other in common.neighbors(file, folder):
        try:
            beside = _value_of(other, folder)
        except (ValueError, OSError):  # its own reading will report it
            continue
        if isinstance(beside, Mapping) and common.share_fields(value, beside):
            return True
    return False


def _of_texts(value: Mapping[str, str], file: Path) -> Iterator[Entry]:
    """Yields the rows of an object of texts, which are either names with codes as keys, or explanations of the keys."""
    are_names = sum(len(text.split()) <= _NAME_WORDS for text in value.values()) > len(value) / 2
    for key, text in value.items():
        title = PurePosixPath(key).stem if looks_like_image(key) else key
        row = {"title": text} if are_names else {"title": title, "text": text}
        yield f"{file}: entry {key!r}", Document(values=row, id=key)


def _lists(value: Any, name: str = "", depth: int = 0) -> Iterator[_List]:
    """Yields the lists of objects in an object and in nested objects, with their names, and as rows.

    An object whose members are objects is one, too: those of MediaWiki's API have theirs under `query.pages`.
    """
    if depth and _holds_objects(value) and any(map(common.is_titled, value.values())):
        yield name, value, [_keyed(key, member) for key, member in value.items()]
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for key, member in value.items():
            yield from _lists(member, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        yield name, value, [Document(values=common.unpacked(item)) for item in value]


def _joined(lists: Mapping[str, Sequence[Document]]) -> Iterator[Document]:
    """Yields the rows of lists, with their names; an id that an earlier list has for another title gets its list's."""
    titles = dict[str, str]()
    for name, rows in lists.items():
        for row in rows:
            values = common.in_group(row.values, name)
            (field, id), (_, title) = (field_of(row.values, usual, {}) for usual in ("id", "title"))
            is_taken = not row.id and id is not None and titles.setdefault(str(id), str(title)) != str(title)
            own = {**values, field: None} if is_taken else values
            yield replace(row, values=own, id=f"{name}/{id}" if is_taken else row.id)


def _without(value: Any, containers: set[int], depth: int = 0) -> Any:
    """Returns an object without the given ones in it."""
    if not isinstance(value, Mapping) or depth > _DEEPEST:
        return value
    return [_without(member, containers, depth + 1) for member in value.values() if id(member) not in containers]


def _are_entries(value: Row) -> bool:
    """Returns whether an object holds nothing but objects, most of them with a title or alike: rows by their ids."""
    if not _holds_objects(value):
        return False
    usual = Counter(name for member in value.values() for name in member).most_common(1)
    alike = len(value) > 2 and bool(usual) and usual[0][1] == len(value)
    return alike or 2 * sum(map(common.is_titled, value.values())) > len(value)


def _holds_objects(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(member, Mapping) for member in value.values())


def _of_things(lists: Sequence[_List]) -> list[_List]:
    """Returns the list that holds the things, and those of the same fields that hold things, too."""
    ranks = [_rank(_values(rows), common.words_within(container).count(" ")) for _, container, rows in lists]
    chosen = lists[ranks.index(max(ranks))]
    first = chosen[2][0].values
    alike = [one for one in lists if common.share_fields(one[2][0].values, first)]
    same = [one for one in alike if common.are_things(_values(one[2]))]
    return same if any(one is chosen for one in same) else [chosen]


def _values(rows: Sequence[Document]) -> list[Row]:
    return [row.values for row in rows]


def _rank(rows: Sequence[Row], words: int) -> tuple[bool, bool, bool, int]:
    """Returns how likely a list holds the things, not what is said of them: no accounts, images, titles, most words."""

    def most(is_so: Callable[[Row], bool]) -> bool:
        return 2 * sum(map(is_so, rows[:_SAMPLE])) >= len(rows[:_SAMPLE])

    return not most(is_account), most(common.has_image), most(common.is_titled), words


def _of_members(members: Iterable[tuple[str, Any]], file: Path) -> Iterator[Entry]:
    """Yields the members of an object as rows; keys that count rows are no ids."""
    counts = True
    for number, (key, value) in enumerate(members):
        where = f"{file}: entry {key!r}"
        counts = counts and key == str(number) and isinstance(value, Mapping) and common.is_titled(value)
        if counts or not isinstance(value, Mapping):
            yield from _documents([(where, value)])
        else:
            yield where, _keyed(key, value)


def _keyed(key: str, value: Row) -> Document:
    """Returns the member of an object as a row, with its key as its id, and as its title if it lacks one.

    The name of an image is no title of a row with other short texts.
    """
    title = "" if common.is_titled(value) else key
    if title and looks_like_image(key):
        short = (text for text in value.values() if isinstance(text, str) and 0 < len(text) <= _SHORT)
        title = "" if any(not looks_like_image(text) for text in short) else PurePosixPath(key).stem
    return Document(values=value, id=key, title=title)


def _documents(rows: Iterable[tuple[str, Any]]) -> Iterator[Entry]:
    """Yields rows; of Django's records, those of the first model have their keys as ids, others their models', too."""
    first = ""
    for where, row in rows:
        if isinstance(row, Mapping):
            model = common.model_of(row)
            if model.startswith(_OF_DJANGO):
                yield where, common.outside(common.words_within(row["fields"]), "settings")
                continue
            first = first or model
            id = f"{model}/{row['pk']}" if model != first and "pk" in row else ""
            values = common.unpacked(row)
            yield where, Document(values={**values, "id": None} if id else values, id=id)
        else:
            error = ValueError(f"{where}: expected an object, but found {kind(row)}")
            yield where, row if isinstance(row, ValueError) else error


_SUFFIXES = (".json", ".jsonl", ".ndjson", ".geojson", ".jsonld", ".yml", ".yaml")


def _recognizes(file: Path, start: bytes) -> bool:
    return plain_name(file).suffix.lower() in _SUFFIXES or begins_with(start, b"{", b"[")


JSON_ROWS = Reader("jsonl", _SUFFIXES, _recognizes, _read, of_rows=True)
