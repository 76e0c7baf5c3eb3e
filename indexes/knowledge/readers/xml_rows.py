"""XML lists, such as a product catalog, a museum's objects, a feed or an export of notes: one row per element."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, iterparse, tostring

from indexes.decoding import opened
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.rows import id_of, is_titled, neighbors, no_rows, outside

_NAMES = {
    "{http://purl.org/rss/1.0/modules/content/}encoded": "content",  # the description is only the beginning
    "{http://search.yahoo.com/mrss/}content": "media",
}
"""Names of elements of a feed's entry that mean something else than the usual field of this name."""
_WORDPRESS = re.compile(r"\{https?://wordpress\.org/export/[^/{}]*/(excerpt/)?\}")
_SHORTCODE = re.compile(r"\[/?(?:caption|gallery|embed|audio|video|playlist)\b[^\[\]]*\]")
_IDS = re.compile(r"\[gallery\b[^\[\]]*\bids=[\"']?([\d, ]+)")
_XHTML = "{http://www.w3.org/1999/xhtml}"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_SETTINGS = (_LANGUAGE, "{http://www.w3.org/XML/1998/namespace}space")
_ENTRIES = {"rss": "item", "RDF": "item", "feed": "entry", "OAI-PMH": "record", "en-export": "note", "kml": "Placemark"}
"""Names of the entries of known lists, by the root; there may be just one."""
_ROOT = re.compile(r"<(?![?!])(?:[\w.-]+:)?([\w.-]+)")
_NO_ELEMENT = re.compile(r"<!--.*?(?:-->|\Z)|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>|\0|<\?.*?\?>", re.DOTALL)
_OTHERS = "elements outside of the list"
_MOST_WORDS = 1 << 16  # held in memory
_BEGINNING = 4096  # bytes that show the root


def _recognizes(file: Path, start: bytes) -> bool:
    """Returns whether a file is XML, but neither a page nor a dump of MediaWiki."""
    is_xml = re.match(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*\0?<", start) is not None
    return is_xml and _root_in(start).lower() not in ("html", "mediawiki", "svg")


def _root_in(start: bytes) -> str:
    """Returns the name of the root element, without its prefix, from the beginning of a file; "" if it is not there."""
    root = _ROOT.search(_NO_ELEMENT.sub("", start.decode("latin-1")))  # without the zeros that are half of UTF-16
    return root[1] if root else ""


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the entries of an XML file with their places, and the words outside of them.

    These are the repeated elements closest to the root, or the file's only record if there are none, or if the next
    file has one with the same root. Child elements and attributes are the values.

    Raises:
        ValueError: The file is damaged.
    """
    root = _root_of(file)
    is_record = root not in _ENTRIES and any(_root_of(other) == root for other in neighbors(file, folder))
    wanted = None if is_record else _repeated(file, root)
    if wanted is None:
        yield from _record(file, folder, is_record)
        return
    number, words, (depth_of_rows, tag) = 0, list[str](), wanted
    for event, element, depth in _events(file, whole=depth_of_rows):
        if event != "end" or depth > depth_of_rows:
            continue
        if (depth, element.tag) == wanted:
            number += 1
            yield f"{file}: <{_local(tag)}> {number}", Document(values=_fields(element))
        else:
            words += " ".join(element.itertext()).split()
            if len(words) > _MOST_WORDS:
                yield str(file), outside(" ".join(words), _OTHERS)
                words = []
    if words:
        yield str(file), outside(" ".join(words), _OTHERS)


def _root_of(file: Path) -> str:
    try:
        with opened(file) as content:
            return _root_in(content.read(_BEGINNING))
    except (ValueError, OSError):  # its own reading will report it
        return ""


def _repeated(file: Path, root: str) -> tuple[int, str] | None:
    """Returns the depth and tag of the most frequent of the repeated elements closest to the root, if any."""
    counts = Counter[tuple[int, str]]()
    filled = [0]  # the number of children of each open element
    for event, element, depth in _events(file):
        if event == "start":
            filled[depth:] = [filled[depth] + 1, 0]
        elif depth and (filled[depth + 1] or (len(element.attrib) > 1 and not (element.text or "").strip())):
            counts[depth, element.tag] += 1
    if entries := {key: count for key, count in counts.items() if _local(key[1]) == _ENTRIES.get(root)}:
        return max(entries, key=entries.__getitem__)
    repeated = {key: count for key, count in counts.items() if count > 1}
    highest = min((depth for depth, _ in repeated), default=0)
    return max((key for key in repeated if key[0] == highest), key=repeated.__getitem__, default=None)


def _record(file: Path, folder: Folder, is_record: bool) -> Iterator[Entry]:
    """Yields the first element with several children, or each of these if they are alike; it may lack a title."""
    *_, (_, root, _) = _events(file, whole=0)
    record = root
    while len(record) == 1 and len(record[0]) and _is_plain(record):
        record = record[0]
    values = _fields(record)
    is_row = is_record or any(is_titled(one) for one in (values, *values.values()) if isinstance(one, Mapping))
    if not is_row or (not is_record and _local(root.tag) in _ENTRIES):
        yield no_rows(values, file, folder, "contains no list: no element with fields occurs more than once")
    elif len({child.tag for child in record}) == 1 < len(record) and all(map(len, record)) and _is_plain(record):
        for number, child in enumerate(record, start=1):
            yield f"{file}: <{_local(child.tag)}> {number}", Document(values=_fields(child))
    else:
        yield str(file), Document(values=values, id=id_of(file, folder))


def _is_plain(element: Element) -> bool:
    """Returns whether an element is just a wrapper: it has no attributes except those of XML itself."""
    return all(name.startswith("{") for name in element.attrib)


def _events(path: Path, whole: int | None = None) -> Iterator[tuple[str, Element, int]]:
    """Yields the start and end events of elements with their depth, and frees elements that have ended.

    Elements at the depth `whole` are kept complete, with their descendants, until they end. The parser fetches nothing,
    and ends at entities that grow without bounds.
    """
    ancestors: list[Element] = []
    with opened(path) as file:
        try:
            for event, element in iterparse(file, ("start", "end")):
                if event == "end":
                    ancestors.pop()
                yield event, element, len(ancestors)
                if event == "start":
                    ancestors.append(element)
                elif ancestors and (whole is None or len(ancestors) <= whole):
                    ancestors[-1].remove(element)
        except ParseError as error:
            raise ValueError(f"{path}: damaged or cut short ({error})") from error


def _value(element: Element) -> Any:
    """Returns an element as a JSON value: its text, or its attributes and children by name.

    An element that only has children of one name, such as `<image>` in `<images>`, becomes a list.
    """
    words = " ".join((element.text or "").split())
    if len(element) == 0 and (words or not element.attrib.keys() - set(_SETTINGS)):
        unit = element.get("unit") or element.get("units")
        return f"{words} {unit}" if unit else (element.text or "").strip()
    if any(child.tag.startswith(_XHTML) for child in element):
        for part in element.iter():
            part.tag = part.tag.removeprefix(_XHTML)
        return "".join(tostring(child, "unicode", method="html") for child in element)
    if words:  # elements within a text
        return " ".join("".join(element.itertext()).split())
    fields = _fields(element)
    if len(fields) == 1 and not element.attrib:
        (values,) = fields.values()
        return values if isinstance(values, list) else [values]
    return fields


def _fields(element: Element) -> dict[str, Any]:
    """Returns the attributes and children of an element by name; several of one name become a list.

    Texts in several languages become an object, by language. Pairs of a key and a value are values by their keys, and
    files in base64 are `{"file-name": …, "mime": …, "data": …}` in a list.
    """
    values: dict[str, list[Any]] = {
        _local(name): [value] for name, value in element.attrib.items() if name not in _SETTINGS
    }
    languages: dict[str, list[str]] = {}
    for child in element:
        name = _name(child.tag)
        if pair := _pair(child):
            values.setdefault(pair[0], []).append(pair[1])
        elif any(part.get("encoding") == "base64" for part in child):
            values.setdefault(name, [[]])[0].append(_file(child))
        else:
            value = _value(child)
            if isinstance(value, str):
                if ids := _IDS.findall(value):
                    values.setdefault("gallery_ids", []).extend(re.findall(r"\d+", " ".join(ids)))
                value = _SHORTCODE.sub("", value).strip()
            values.setdefault(name, []).append(value)
            if code := child.get(_LANGUAGE):
                languages.setdefault(name, []).append(code)
    for name, codes in languages.items():
        if len(set(codes)) == len(codes) == len(values[name]) > 1:
            values[name] = [dict(zip(codes, values[name], strict=True))]
    return {name: several if len(several) > 1 else several[0] for name, several in values.items()}


def _pair(element: Element) -> tuple[str, str] | None:
    """Returns the key and the value if an element holds just these, such as `meta_key` and `meta_value`."""
    if len(element) != 2 or element.attrib or any(map(len, element)):
        return None
    key, value = element
    if not (_local(key.tag).endswith("key") and _local(value.tag).endswith("value")):
        return None
    return ((key.text or "").strip(), (value.text or "").strip()) if (key.text or "").strip() else None


def _file(element: Element) -> dict[str, Any]:
    values: dict[str, Any] = {"file-name": ""}
    for part in element:
        values |= _fields(part) if len(part) else {_local(part.tag): _value(part)}
    return values


def _name(tag: str) -> str:
    """Returns the name of a value; those that WordPress adds to a feed begin with `wp:`."""
    if "wordpress" in tag and (match := _WORDPRESS.match(tag)):
        return "excerpt" if match[1] else f"wp:{_local(tag)}"
    return _NAMES.get(tag) or _local(tag)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


XML_ROWS = Reader("xml", (".xml", ".rss", ".atom", ".rdf", ".enex", ".kml"), _recognizes, _read, of_rows=True)
