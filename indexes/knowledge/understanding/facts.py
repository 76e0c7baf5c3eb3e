"""Turns labeled values, including lists and objects, into words: facts (label, value)."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from indexes.knowledge.sections import FACTS
from indexes.knowledge.understanding.fields import field_of, looks_like_image
from indexes.knowledge.understanding.languages import is_language
from indexes.labeled_values import folded
from retriever.arrays import parse_literal

LISTS = (list, tuple)
EMPTY = frozenset({"", "\\N", "[]", "{}"})
"""Spellings of a missing value in tables; words such as "None" and "NA" are names and codes."""
LONGEST_FACT = 250  # most characters in a fact; a longer value becomes a section of its own
DEEPEST = 6  # levels of objects that facts show
ADDRESS = re.compile(r"\w+://\S+")
BLOB = re.compile(r"(?:data:[\w/+.-]+;base64,)?(?:[A-Za-z\d+/_-]{60,}+\s*+)++[A-Za-z\d+/_-]*+={0,2}\s*")
"""A file that is written into a value, in base64."""
_WRITTEN = (str, int, float, Decimal, date, time)
"""Types of values, those of columns in Parquet among them, that are facts as Python writes them."""
_LITERALS = ("uri", "literal", "typed-literal", "bnode")  # types of values in SPARQL results
_SENTENCE = 40  # if an object has a title and one other value of at least this many characters, that value is its text
_LONGEST_LIST, _MANY = 30, 100  # items of lists of numbers that are shown, and that are looked at
_PAIRED = r"(?:div|ul|ol|dl|b|i|u|em|strong|small|a|h\d|span|font|table|blockquote|pre|code|kbd|sup|sub)"
_MARKUP = re.compile(
    rf"<(?:p|br|hr|li|dt|dd)\s*/?>|<(?:p|br|hr|li|dt|dd|img|{_PAIRED})\s[^<>]*=[^<>]*>|</(?:p|li|dt|dd|{_PAIRED})\s*>",
    re.IGNORECASE,
)
"""A tag `<a>` that is neither closed nor has attributes is a word of a text about HTML."""
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{2,6}|#x[0-9A-Fa-f]{2,6});")
_CAMEL = re.compile(r"(?<=\w[a-z\d])(?=[A-Z][a-z])|(?<=\w[a-z])(?=[A-Z]{2})|(?<=[A-Z]{2})(?=[A-Z](?!s\b)[a-z])")
"""Where words of `camelCase` meet: before a capital and around an acronym, but not within units such as kWh and MHz."""
_FORMS = ("en", "english", "eng", "en-us", "en-gb", "common", "default", "value", "text", "label", "name", "title")
"""Keys of an object that holds one text in several languages or forms, the preferred ones first."""
_ALL_FORMS = frozenset(map(folded, (*_FORMS, "html", "markdown", "plain", "raw", "rendered")))
_REFERENCES = ("id", "ids", "url", "uri", "href")  # last words of the names of fields that only refer elsewhere


def facts_of(name: str, value: Any) -> list[tuple[str, str]]:
    """Returns the facts in a field as (label, value), without addresses, ids, images and files."""
    value = literal_of(parsed(value))
    if isinstance(value, (dict, *LISTS)):
        return list(_facts(label_of(name), _pruned(value)))
    text = scalar_of(value)
    return [(label_of(name), plain(text))] if text and not _is_address(text) else []


def as_sections(
    facts: Iterable[tuple[str, str]], sections_of: Mapping[str, bool] | None = None
) -> list[tuple[str, str]]:
    """Returns facts (label, value) as sections: each long value under its label, and the others as lines of "Facts".

    For some labels, `sections_of` says whether the value is a section; for others, its length decides.
    """
    sections, lines = list[tuple[str, str]](), list[str]()
    for label, value in facts:
        if "\n" in value or (sections_of or {}).get(label, len(value) > LONGEST_FACT):
            sections.append((label, value))
        else:
            lines.append(f"{label}: {value}")
    return [*sections, (FACTS, "\n".join(lines))]


def words_within(value: Any) -> str:
    """Returns all texts in a value; it may be nested deeper than Python's stack."""
    return " ".join(filter(None, (scalar_of(leaf) for _, leaf in leaves(value))))


def leaves(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields what lists and objects hold, in order, with the names of the fields that lead to it.

    They may be nested deeper than Python's stack.
    """
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, dict):
            start = path[: 2 * DEEPEST]
            waiting += [((*start, str(name)), inner) for name, inner in reversed(item.items())]
        elif isinstance(item, LISTS):
            waiting += [(path, inner) for inner in reversed(item)]
        else:
            yield path, item


def flat(value: Any) -> Sequence[Any]:
    """Returns the items of a list and of the lists in it, or a value as the only one."""
    items: Sequence[Any] = value if isinstance(value, LISTS) else [value]
    while any(isinstance(item, LISTS) for item in items):  # not by calls, since they may be nested deeply
        items = [inner for item in items for inner in (item if isinstance(item, LISTS) else [item])]
    return items


@lru_cache(maxsize=4096)
def is_reference(name: str) -> bool:
    """Returns whether a field of an object only refers elsewhere."""
    return name.startswith("@") or label_of(name).lower().rpartition(" ")[2] in _REFERENCES


def _pruned(value: Any, depth: int = 0) -> Any:
    """Returns a nested value without addresses, ids, images, files, and what is nested too deeply."""
    value = literal_of(value)
    if isinstance(value, LISTS):
        inner = flat(value)
        if len(inner) > _LONGEST_LIST and not any(map(str.isalpha, words_within(inner[:_MANY]))):
            return None  # a long list of numbers
        # an address in a list, unlike an image, is said
        items = (item if _is_page(item) else _pruned(item, depth + 1) for item in inner)
        return [item for item in items if item not in (None, "", {}, [])]
    if isinstance(value, dict):
        fields = value.items() if depth <= 2 * DEEPEST else ()
        kept = {str(name): _pruned(item, depth + 1) for name, item in fields if not is_reference(str(name))}
        return {name: item for name, item in kept.items() if item not in (None, "", {}, [])}
    text = scalar_of(value)
    return None if text is None or _is_address(text) or looks_like_image(text) else text


def _is_address(text: str) -> bool:
    return "://" in text and ADDRESS.fullmatch(text) is not None


def _is_page(value: Any) -> bool:
    return isinstance(value, str) and _is_address(value) and not looks_like_image(value)


def _facts(label: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the facts in a pruned value; labels of an object's members begin with the object's label."""
    if isinstance(value, dict):
        if len(value) > 1 and all(isinstance(item, dict) for item in value.values()):
            called = [item if _title(item)[1] else {"name": name, **item} for name, item in value.items()]
            yield from _facts(label, called, depth)  # such as languages by their codes
        elif len(value) == 1 and (title := _title(value)[1]):
            yield label, title  # the name of something that is described elsewhere
        elif depth < DEEPEST:
            for name, item in value.items():
                yield from _facts(f"{label}, {label_of(name, first=False)}", item, depth + 1)
    elif isinstance(value, list):
        listed = list(dict.fromkeys(text for item in value if (text := _item(item, depth))))
        described = any(isinstance(item, dict) for item in value)
        described = described and all(": " in text.partition(" (")[0] for text in listed)
        long = sum(map(len, listed)) > LONGEST_FACT  # such as the steps of a recipe
        commas = any("," in text or ";" in text for text in listed)
        if listed:
            yield label, ("\n" if described or long else "; " if commas else ", ").join(listed)
    elif scalar := scalar_of(value):
        yield label, plain(scalar)


def _item(value: Any, depth: int) -> str:
    """Returns a pruned list item as text; for an object, its title and text, with other facts in parentheses."""
    if not isinstance(value, dict):
        return " ".join(plain(scalar_of(value) or "").split())
    title_name, title = _title(value)
    if not title and len(value) == 2 and "value" in value:  # next to a `key` or a `trait_type`
        title_name = next(name for name in value if name != "value")
        title = _words(value[title_name])
    text_name, text = field_of(value, "text", {})
    about = " ".join(plain(text_in(text)).split())
    if title and not about and "value" in value:
        text_name, about = "value", _words(value["value"])
    said = [
        (label, fact.replace("\n", "; "))
        for name, item in (value.items() if depth < DEEPEST else ())
        if name not in (title_name, text_name)
        for label, fact in _facts(label_of(name, first=False), item, depth + 1)
        if fact != title
    ]
    if title and not about and len(said) == 1 and len(said[0][1]) >= _SENTENCE:
        about, said = said[0][1], []
    words = f"{title}: {about}" if title and about else title or about
    details = "; ".join(f"{label}: {fact}" for label, fact in said)
    return f"{words} ({details})" if words and details else words or details


def _words(value: Any) -> str:
    """Returns a value, a list of values, or a value in several forms, as words."""
    return ", ".join(filter(None, (" ".join(plain(text_in(item)).split()) for item in flat(value))))


def _title(value: Mapping[str, Any]) -> tuple[str, str]:
    name, title = field_of(value, "title", {})
    return name, plain_title(next(texts_in(title), ""))


def texts_in(value: Any) -> Iterator[str]:
    """Yields the texts in a value, the preferred one first: an object may have a text in several languages or forms."""
    if isinstance(value, dict):
        keys = {folded(str(key)): key for key in reversed(list(value))}
        first = [keys[folded(name)] for name in _FORMS if folded(name) in keys]
        for key in dict.fromkeys([*first, *value]):
            if isinstance(item := literal_of(value[key]), str | list):
                yield from texts_in(item)
    elif isinstance(value, LISTS):
        for item in map(literal_of, flat(value)):
            if isinstance(item, str | list):
                yield from texts_in(item)
            elif isinstance(item, dict) and (title := _title(item)[1]):
                yield title
    elif (text := scalar_of(value)) is not None:
        yield " ".join(text.split())


def has_parts(value: Any) -> bool:
    """Returns whether a value is an object of named parts ("cap", "stem"), not a text in several languages or forms."""
    if not isinstance(value, dict) or sum(isinstance(item, str) for item in value.values()) < 2:
        return False
    return not any(folded(str(key)) in _ALL_FORMS for key in value) and not all(is_language(str(key)) for key in value)


def text_in(value: Any) -> str:
    """Returns the text of an article: the items of a list as paragraphs, or the preferred text of an object."""
    value = literal_of(value)
    if isinstance(value, LISTS):
        return "\n".join(filter(None, map(text_in, flat(value))))
    if isinstance(value, dict):
        return next(texts_in(value), "")
    return scalar_of(value) or ""


def scalar_of(value: Any) -> str | None:
    """Returns a text, a number, a date or a truth value as text, or `None` if it is empty or of another type."""
    if type(value) is str and len(value) <= LONGEST_FACT:  # most values, in less time
        text = value.strip()
        return None if text in EMPTY else text
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, _WRITTEN) or value != value:  # not a number, which data frames have for a missing value
        return None
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    is_file = len(text) > LONGEST_FACT and BLOB.fullmatch(text)
    return None if is_file or text in EMPTY else text


def literal_of(value: Any) -> Any:
    """Unwraps the value of an object that states its language or type, as in JSON-LD, SPARQL and Wikibase."""
    if isinstance(value, dict):
        if "@value" in value:
            return value["@value"]
        if "value" in value and (value.get("type") in _LITERALS or (len(value) == 2 and "language" in value)):
            return value["value"]
    return value


def parsed(value: Any) -> Any:
    """Parses a list or an object that a table contains as text, in JSON or Python syntax."""
    if not isinstance(value, str) or value[:1] + value[-1:] not in ("[]", "{}"):
        return value
    for parse in (json.loads, parse_literal):
        try:
            return parse(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return value


def plain(text: str) -> str:
    """Returns a text without HTML markup; headings become lines `== heading ==`."""
    if "<" in text and _MARKUP.search(text):
        from indexes.knowledge.readers.html import plain_html  # needs an HTML parser, which other texts do without

        return plain_html(text)
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text


def plain_title(title: str) -> str:
    """Returns a title without HTML markup, on one line; a title of nothing but tags stays as it is."""
    return " ".join((plain(title) or title).split())


@lru_cache(maxsize=4096)
def label_of(name: str, first: bool = True) -> str:
    """Returns the name of a field as words.

    `yearOfBirth` and `year_of_birth` become "Year of birth", `taxonID` "Taxon ID".
    """
    if not re.search(r"\s", name):
        name = name.removeprefix("@")
        name = _CAMEL.sub(" ", name.replace("_", " ").replace("-", " ")).strip()
        name = " ".join(word.lower() if re.fullmatch(r"[A-Z][a-z]+", word) else word for word in name.split())
    return name[:1].upper() + name[1:] if first else name
