"""XML lists, such as a product catalog, a museum's objects or a feed: one entity per element."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, iterparse, tostring

from indexes.knowledge.file_names import sorted_files
from indexes.knowledge.formats.fields import field_of
from indexes.knowledge.formats.reading import Entry, Reading, unreadable
from indexes.knowledge.formats.rows import entities_of
from indexes.knowledge.formats.streams import opened

_NAMES = {
    "{http://purl.org/rss/1.0/modules/content/}encoded": "content",  # the description is only the beginning
    "{http://search.yahoo.com/mrss/}content": "media",
}
"""Names of elements of a feed's entry that mean something else than the usual field of this name."""
_XHTML = "{http://www.w3.org/1999/xhtml}"
_SHORTCODE = re.compile(r"\[/?(?:caption|gallery|embed|audio|video|playlist)\b[^\[\]]*\]")
_WORDPRESS = ("{http://wordpress.org/export/", "{https://wordpress.org/export/")
"""Prefixes of the tags for an entry's settings and comments in a WordPress export."""
_UNITS = ("unit", "units")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_SETTINGS = (_LANGUAGE, "{http://www.w3.org/XML/1998/namespace}space")
_LONGEST_NAME = 50


def read_xml(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the entries of an XML file, which are the repeated elements closest to the root, or of a folder's files.

    Their child elements and attributes are the fields.

    Raises:
        ValueError: The file is damaged, contains no list, or no entry has a field given in `names`.
    """
    yield from entities_of(_in_folder(path, reading) if path.is_dir() else _rows(path), reading, str(path))


def xml_files(path: Path) -> list[Path]:
    """Returns the XML files under a folder in order; hidden ones are left out."""
    return sorted_files(path, (".xml",))


def _in_folder(path: Path, reading: Reading) -> Iterator[tuple[str, Any]]:
    """Yields a row per file: its first element with several children, or each of these if they are alike.

    For a damaged file, the reason is yielded instead. A row without an id gets the path of its file as its id.
    """
    for file in filter(reading.has_file, xml_files(path)):
        try:
            record = next(root for event, root, depth in _events(file, whole=0) if event == "end" and depth == 0)
        except ValueError as error:
            yield str(file), error
            continue
        except OSError as error:
            yield str(file), unreadable(file, error)
            continue
        while len(record) == 1 and len(record[0]) and _is_plain(record):
            record = record[0]
        alike = len({child.tag for child in record}) == 1 < len(record) and all(map(len, record)) and _is_plain(record)
        for number, element in enumerate(record if alike else [record], start=1):
            row = _fields(element)
            if not alike and field_of(row, "id", {})[1] is None:
                row = {"id": file.relative_to(path).with_suffix("").as_posix(), **row}
            yield f"{file}: <{_local(element.tag)}> {number}", row


def root_of(path: Path) -> str:
    """Returns the name of the root element of an XML file, "" if it is not XML."""
    try:
        return next((_local(element.tag) for _, element, _ in _events(path)), "")
    except (ValueError, OSError):  # the reader will report what is wrong
        return ""


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    counts = Counter[tuple[int, str]]()
    filled = [0]  # the number of children of each open element
    for event, element, depth in _events(path):
        if event == "start":
            filled[depth:] = [filled[depth] + 1, 0]
        elif depth and (filled[depth + 1] or (len(element.attrib) > 1 and not (element.text or "").strip())):
            counts[depth, element.tag] += 1
    repeated = {key: count for key, count in counts.items() if count > 1}
    if not repeated:
        raise ValueError(f"{path}: contains no list: no element with fields occurs more than once")
    highest = min(depth for depth, _ in repeated)
    wanted = max((key for key in repeated if key[0] == highest), key=repeated.__getitem__)
    number = 0
    for event, element, depth in _events(path, whole=highest):
        if event == "end" and (depth, element.tag) == wanted:
            number += 1
            if _is_published(element):
                yield f"{path}: <{_local(element.tag)}> {number}", _fields(element)


def _is_plain(element: Element) -> bool:
    """Returns whether an element is just a wrapper: it has no attributes except those of XML itself."""
    return all(name.startswith("{") for name in element.attrib)


def _is_published(element: Element) -> bool:
    """Returns whether an element is not a draft, menu or style in a WordPress export."""
    settings = {_local(one.tag): one.text or "" for one in element if one.tag.startswith(_WORDPRESS)}
    kind = settings.get("post_type", "")
    return settings.get("status", "publish") == "publish" and not kind.startswith(("nav_menu", "wp_", "custom_css"))


def _events(path: Path, whole: int | None = None) -> Iterator[tuple[str, Element, int]]:
    """Yields the start and end events of elements with their depth, and frees elements that have ended.

    Elements at the depth `whole` are kept complete, with their descendants, until they end.
    """
    opened_now: list[Element] = []
    with opened(path) as file:
        try:
            for event, element in iterparse(file, ("start", "end")):
                if event == "end":
                    opened_now.pop()
                yield event, element, len(opened_now)
                if event == "start":
                    opened_now.append(element)
                elif opened_now and (whole is None or len(opened_now) <= whole):
                    opened_now[-1].remove(element)
        except ParseError as error:
            raise ValueError(f"{path}: damaged or cut short ({error})") from error


def _value(element: Element) -> Any:
    """Returns an element as a JSON value: its text, or its attributes and children by name.

    An element that only has children of one name, such as `<image>` in `<images>`, becomes a list.
    """
    words = " ".join((element.text or "").split())
    if any(child.tag.startswith(_XHTML) for child in element):
        parts = (tostring(child, "unicode", method="html") for child in element)
        return re.sub(r"(</?)html:|\sxmlns:html=\"[^\"]*\"", r"\1", "".join(parts))
    if len(element) == 0 and (words or not element.attrib.keys() - set(_SETTINGS)):
        unit = next((element.attrib[name] for name in _UNITS if name in element.attrib), "")
        return f"{words} {unit}" if unit else _SHORTCODE.sub("", element.text or "").strip()
    if words:  # elements within a text
        return " ".join("".join(element.itertext()).split())
    fields = _fields(element)
    if len(fields) == 1 and not element.attrib:
        (values,) = fields.values()
        return values if isinstance(values, list) else [values]
    return fields


def _fields(element: Element) -> dict[str, Any]:
    """Returns the attributes and children of an element by name; several of one name become a list.

    Of names in several languages, the English one comes first; of texts, only that one is kept.
    """
    found: dict[str, list[Any]] = {
        _local(name): [value] for name, value in element.attrib.items() if name not in _SETTINGS
    }
    languages: dict[str, list[str]] = {}
    for child in element:
        if not child.tag.startswith(_WORDPRESS):
            name = _NAMES.get(child.tag) or _local(child.tag)
            found.setdefault(name, []).append(_value(child))
            languages.setdefault(name, []).append(child.get(_LANGUAGE, ""))
    for name, spoken in languages.items():
        if len(set(spoken)) == len(spoken) == len(found[name]) > 1 and all(spoken):
            order = sorted(range(len(spoken)), key=lambda number: not spoken[number].lower().startswith("en"))
            is_prose = any(isinstance(value, str) and len(value) > _LONGEST_NAME for value in found[name])
            found[name] = [found[name][number] for number in (order[:1] if is_prose else order)]
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
