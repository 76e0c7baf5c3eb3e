"""The rows of JSON and YAML: lines, the items of a list, the entries of an object, or the files of a folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from indexes.knowledge.file_names import sorted_files
from indexes.knowledge.formats import streams
from indexes.knowledge.formats.encodings import not_utf8
from indexes.knowledge.formats.fields import GUESSES, field_of, kind, looks_like_image, unique_keys
from indexes.knowledge.formats.frames import are_columns, of_lists, rows_in
from indexes.knowledge.formats.front_matter import Loader
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import Reading, unreadable
from indexes.knowledge.formats.row_shape import BESIDE, lifted

LONGEST_LINE = 1 << 24
"""Bytes of the first line to read to tell JSON lines from one object: E-VQA's is a single line of gigabytes."""
_LINES = (".jsonl", ".ndjson")
_SUFFIXES = (".json", *_LINES)
_YAML = (".yml", ".yaml")
_DEEPEST = 3
_OTHER_LISTS = "objects in other lists than the longest"
_SHORT = 60  # characters of a text that may be a name
_NAME_WORDS = 4  # most words in a name; longer text is a description


def read_rows(path: Path, reading: Reading | None = None) -> Iterator[tuple[str, Any]]:
    """Yields the values of JSON lines, of a list, of an object's entries, or of a folder's files, with their places.

    For an object, these are its members if they are objects, or else the longest list of objects in it, or else the
    object itself; a member without an id or title gets its key. For a line or a file that is not UTF-8 JSON, the reason
    is yielded instead. YAML is read as a whole in the same way; its numbers and dates stay as written.

    Raises:
        ValueError: The file cannot be read at all, or contains no objects.
    """
    reading = reading or Reading()
    losses = reading.losses
    if path.is_dir():
        yield from _in_folder(path, reading)
    elif _is_yaml(path):
        yield from _in_value(_load(path), str(path), losses)
    elif streams.starts_with(path, "[") and not _has_more_lines(path):
        yield from of_lists((f"{path}: item {number}", row) for number, row in streams.read_items(path))
    elif has_lines(path):
        yield from of_lists(_in_sequence(path) if _has_values(path) else _in_lines(path))
    else:
        yield from _in_object(path, losses)


def json_files(path: Path) -> list[Path]:
    """Returns the JSON files under a folder in order, or else the YAML files; hidden ones are left out."""
    files = sorted_files(path, (*_SUFFIXES, *_YAML))
    return [file for file in files if file.suffix.lower() in _SUFFIXES] or files


def first_row(path: Path) -> dict[str, Any] | None:
    """Returns the object in the first line of a file, or `None` if the line is not a JSON object."""
    with streams.opened_text(path) as file:
        try:
            row = json.loads(file.readline(LONGEST_LINE).decode("utf-8-sig"))
        except (ValueError, RecursionError):  # the reader will report what is wrong with the file
            return None
    return row if isinstance(row, dict) else None


def has_lines(path: Path) -> bool:
    """Returns whether a file has one JSON value per line, judged by its name, or because its first line is a value."""
    if any(suffix.lower() in _LINES for suffix in path.suffixes[-2:]):
        return True
    return _has_more_lines(path)


def _first_line(path: Path) -> tuple[bool, bytes]:
    """Returns whether the first line of a file is a JSON value, and the beginning of what follows."""
    with streams.opened_text(path) as file:
        first, following = file.readline(LONGEST_LINE), file.read(4096).lstrip()
    try:
        _value(first)
    except (ValueError, RecursionError):
        return False, following
    return True, following


def _has_values(path: Path) -> bool:
    """Returns whether a file with the name of JSON lines has objects of several lines each."""
    is_value, following = _first_line(path)
    return not is_value and following[:1] in (b'"', b"}")


def _has_more_lines(path: Path) -> bool:
    """Returns whether the first line of a file is a JSON value, and others follow."""
    is_value, following = _first_line(path)
    return is_value and bool(following)


def _value(line: bytes) -> Any:
    """Returns the JSON value in a line, after which a comma may stand, as in a list."""
    text = line.decode("utf-8-sig").strip()
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError:
        if not text.endswith(","):
            raise
        return json.loads(text[:-1], object_pairs_hook=unique_keys)


def _in_sequence(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields the values of a file that are on several lines each."""
    yield from ((f"{path}: value {number}", row) for number, row in streams.read_values(path))


def _in_lines(path: Path) -> Iterator[tuple[str, Any]]:
    with streams.opened_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}: line {number}"
            try:
                yield where, _value(line)
            except UnicodeDecodeError as error:
                yield where, not_utf8(where, path, error)
            except (ValueError, RecursionError) as error:
                yield where, ValueError(f"{where}: {streams.unreadable_value(error)}")


def _in_object(path: Path, losses: Losses) -> Iterator[tuple[str, Any]]:
    """Yields the rows of an object as a stream: its members if the first two are alike, or else a list in it.

    Holds the object in memory only if it contains just texts, or if its longest list of objects is in another object.
    """
    first = {key: value for key, number, value in islice(streams.read_parts(path), 2) if number == 0}
    entries = [value for value in first.values() if isinstance(value, Mapping)]
    if not are_columns(first) and len(entries) == len(first) == 2 and _alike(*entries):
        yield from _keyed_rows(((f"{path}: entry {key!r}", key, value) for key, value in streams.read_members(path)))
        return
    rest: dict[str, Any] = {}
    lengths, titled = Counter[str](), Counter[str]()
    others: set[str] = set()  # lists of something other than objects
    for key, number, value in streams.read_parts(path):
        if number == 0:
            rest[key] = value
        elif isinstance(value, Mapping):
            lengths[key] += 1
            titled[key] += _titled(value)
        else:
            others.add(key)
    if not lengths or "schema" in rest:
        yield from _of_object(dict(streams.read_members(path)), str(path), losses, itself=False)
        return
    named = {key for key in lengths if 2 * titled[key] >= lengths[key]}
    lists = [key for key in lengths if key not in others]
    longest = max(lists, key=lambda key: (key in named, lengths[key]), default="")
    if longest and lengths[longest] >= max(map(len, _lists(rest)), default=0):
        for key in lengths.keys() - {longest}:
            losses.leave_out(_OTHER_LISTS, key, lengths[key], "entities")
        for key, number, value in streams.read_parts(path):
            if key == longest:
                yield f"{path}: item {number}", value
    else:
        yield from _of_object(dict(streams.read_members(path)), str(path), losses, itself=False)


def _alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Returns whether two objects are entries, unlike `{"meta": {…}, "data": {"rows": […]}}`."""
    return bool(first.keys() & second.keys()) or not any(any(_lists(one)) for one in (first, second))


def _in_folder(path: Path, reading: Reading) -> Iterator[tuple[str, Any]]:
    files, losses = list(filter(reading.has_file, json_files(path))), reading.losses
    if not files:
        raise ValueError(f"{path}: no JSON or YAML (*.json, *.jsonl, *.yml) in this folder")
    for file in files:
        try:
            if file.suffix.lower() in _LINES:
                yield from _in_lines(file)
                continue
            losses.at(str(file))
            value = _load(file)
            alone = len(files) == 1 and isinstance(value, Mapping) and not _titled(value)
            found = _in_value(value, str(file), losses, itself=not alone)
        except OSError as error:
            yield str(file), unreadable(file, error)
            continue
        except (ValueError, TypeError, RecursionError) as error:
            yield str(file), ValueError(f"{file}: {streams.unreadable_value(error).removeprefix(f'{file}: ')}")
            continue
        if len(found) == 1 and field_of(found[0][1], "id", {})[1] is None:
            found = [(str(file), {"id": file.relative_to(path).with_suffix("").as_posix(), **found[0][1]})]
        beside = file.parent.relative_to(path).as_posix()
        yield from found if beside == "." else ((where, {**row, BESIDE: beside}) for where, row in found)


def _load(file: Path) -> Any:
    """Returns the value in a JSON or YAML file.

    Raises:
        ValueError: The file is neither, or not UTF-8.
    """
    with streams.opened_text(file) as content:
        text = content.read().decode("utf-8-sig")
    if not _is_yaml(file):
        return json.loads(text, object_pairs_hook=unique_keys)
    try:
        return yaml.load(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{file}: {line}not YAML ({error.problem})") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{file}: not YAML ({error})") from error
    except RecursionError as error:  # PyYAML before 6.0.4
        raise ValueError(f"{file}: not YAML that can be read (too many levels)") from error


def _is_yaml(path: Path) -> bool:
    return any(suffix.lower() in _YAML for suffix in path.suffixes[-2:])


def _in_value(value: Any, where: str, losses: Losses, itself: bool = False) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return list(_of_object(value, where, losses, itself))
    if not isinstance(value, list):
        raise ValueError(f"{where}: expected a list or an object, but found {kind(value)}")
    return _numbered(where, [one for one in value if isinstance(one, Mapping)])


def _of_object(value: Mapping[str, Any], where: str, losses: Losses, itself: bool) -> Iterator[tuple[str, Any]]:
    """Yields the rows in an object.

    An object with a title is a row: always if `itself` is set, otherwise only if it contains no list of objects. If it
    has an id, its title may be in a nested object (`lifted`).
    """
    if not itself and (rows := rows_in(value)) is not None:
        yield from of_lists((f"{where}: row {number}", row) for number, row in enumerate(rows, start=1))
        return
    titled = _titled(value) or (field_of(value, "id", {})[1] is not None and _titled(lifted(value)))
    is_row = itself and (titled or any(name in value for name in GUESSES["title"]))  # its title may be null
    lists = [] if is_row or _are_entries(value) else list(_lists(value))
    if lists:
        lists.sort(
            key=lambda one: (2 * sum(map(_titled, one)) >= len(one), len(one))
        )  # things before what is said of them
        for other in lists[:-1]:
            losses.leave_out(_OTHER_LISTS, next(map(str, other[0])), len(other), "entities")
        yield from _numbered(where, lists[-1])
    elif titled or is_row:
        yield where, value
    elif _holds_objects(value):
        yield from _keyed_rows((f"{where}: entry {key!r}", key, one) for key, one in value.items())
    elif len(value) > 1 and all(isinstance(one, str) for one in value.values()) and not itself:
        yield from _of_texts(value, where)
    else:
        raise ValueError(f"{where}: holds no list of objects, nor an object with a title")


def _of_texts(value: Mapping[str, str], where: str) -> Iterator[tuple[str, Any]]:
    """Yields the rows of an object of texts, which are either names with codes as keys, or explanations of the keys."""
    are_names = sum(len(text.split()) <= _NAME_WORDS for text in value.values()) > len(value) / 2
    for key, text in value.items():
        title = PurePosixPath(key).stem if looks_like_image(key) else key
        row = {"id": key, "title": text} if are_names else {"id": key, "title": title, "text": text}
        yield f"{where}: entry {key!r}", row


def _lists(value: Any, depth: int = 0) -> Iterator[list[Mapping[str, Any]]]:
    """Yields the lists of objects in an object and in nested objects; an object whose members are objects is one, too.

    Responses of MediaWiki's API have theirs under `query.pages`.
    """
    if depth and _holds_objects(value) and any(map(_titled, value.values())):
        yield [_keyed(key, one) for key, one in value.items()]
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for one in value.values():
            yield from _lists(one, depth + 1)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        yield value


def _are_entries(value: Mapping[str, Any]) -> bool:
    """Returns whether an object holds nothing but objects, most of them with a title or alike: rows by their ids."""
    if not _holds_objects(value):
        return False
    usual = Counter(name for one in value.values() for name in one).most_common(1)
    alike = len(value) > 2 and bool(usual) and usual[0][1] == len(value)
    return alike or 2 * sum(map(_titled, value.values())) > len(value)


def _holds_objects(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(one, Mapping) for one in value.values())


def _titled(value: Mapping[str, Any]) -> bool:
    return field_of(value, "title", {})[1] is not None


def _keyed_rows(entries: Iterable[tuple[str, str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields the members of an object, with their places; keys that count rows are no ids."""
    counts = True
    for number, (where, key, value) in enumerate(entries):
        counts = counts and key == str(number) and isinstance(value, Mapping) and _titled(value)
        yield where, value if counts else _keyed(key, value)


def _keyed(key: str, value: Any) -> Any:
    """Returns the member of an object as a row, with its key as id or title if it lacks one.

    The name of an image is no title of a row with other short texts.
    """
    if not isinstance(value, Mapping):
        return value
    missing = {field: key for field in ("id", "title") if field_of(value, field, {})[1] is None}
    if "title" in missing and looks_like_image(key):
        missing["title"] = PurePosixPath(key).stem
        if any(isinstance(one, str) and 0 < len(one) <= _SHORT and not looks_like_image(one) for one in value.values()):
            del missing["title"]
    return {**missing, **value}


def _numbered(where: str, rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    return [(f"{where}: item {number}", row) for number, row in enumerate(rows, start=1)]
