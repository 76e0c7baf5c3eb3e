"""Turns the fields of a row, including lists and objects, into words: lines `label: value`."""

from __future__ import annotations

import ast
import html
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from indexes.knowledge.formats.fields import field_of, folded, looks_like_image
from indexes.knowledge.formats.html_text import plain_html
from indexes.knowledge.formats.losses import Losses, words_in
from indexes.knowledge.sections import FACTS

EMPTY = frozenset({"", "\\N", "[]", "{}"})
"""Spellings of a missing value in tables; words such as "None" and "NA" are names and codes."""
RIGHTS = re.compile(
    r"licen[cs]es?(?:url|name|link|text)?|rights(?:url|statement)?|usagerights|copyright(?:notice)?|termsofuse"
    r"|lizenz|licencia|licenza"
)
"""Names of fields about the data, not about the thing, as by `folded`."""
LONGEST_FACT = 250  # most characters in a fact; a longer value becomes a section of its own
_BLOB = re.compile(r"(?:data:[\w/+.-]+;base64,)?(?:[A-Za-z\d+/_-]{60,}+\s*+)++[A-Za-z\d+/_-]*+={0,2}\s*")
"""A file that is written into a value, in base64."""
_WRITTEN = (str, int, float, Decimal, date, time)
"""Types of values, those of columns in Parquet among them, that are facts as Python writes them."""
_LITERALS = ("uri", "literal", "typed-literal", "bnode")  # types of values in SPARQL results
_SENTENCE = 40  # if an object has a title and one other value of at least this many characters, that value is its text
_ADDRESSES = "addresses and ids"
_LONGEST_LIST = 30
_SHORT, _MOST_VALUES = 100, 100
_DEEPEST = 6
_PAIRED = r"(?:div|ul|ol|dl|b|i|u|em|strong|small|a|h\d|span|font|table|blockquote|pre|code|kbd|sup|sub)"
_MARKUP = re.compile(
    rf"<(?:p|br|hr|li|dt|dd)\s*/?>|<(?:p|br|hr|li|dt|dd|img|{_PAIRED})\s[^<>]*=[^<>]*>|</(?:p|li|dt|dd|{_PAIRED})\s*>",
    re.IGNORECASE,
)
"""A tag `<a>` that is neither closed nor has attributes is a word of a text about HTML."""
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{2,6}|#x[0-9A-Fa-f]{2,6});")
_LANGUAGES = ("en", "english", "eng", "en-us", "en-gb", "common", "default", "value", "text", "label", "name", "title")
"""Keys of an object that holds one text in several languages or forms, the preferred ones first."""
_FORMS = frozenset(map(folded, (*_LANGUAGES, "html", "markdown", "plain", "raw", "rendered")))
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})*")
_REFERENCES = ("id", "ids", "url", "uri", "href")  # last words of the names of fields that only refer elsewhere


def short_values(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the short texts and whole numbers in a row with the names of their fields; dots lead into objects."""
    waiting: deque[tuple[str, Any]] = deque(row.items())
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        name, value = waiting.popleft()
        if isinstance(value, Mapping):
            waiting += [(f"{name}.{inner}", one) for inner, one in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(name, one) for one in value]
        elif isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value)) <= _SHORT:
            yield str(name), str(value)


def facts_of(name: str, value: Any, losses: Losses) -> Iterator[tuple[str, str]]:
    """Yields the facts in a field as (label, value)."""
    yield from _facts(_label(name), value, losses)


def words_within(value: Any) -> str:
    """Returns all texts in a value, for counting; it may be nested deeper than Python's stack."""
    return " ".join(filter(None, map(scalar_of, _leaves(value, objects=True))))


def _leaves(value: Any, objects: bool = False) -> Iterator[Any]:
    """Yields what nested lists hold, in order, and with `objects` what objects hold; they may be very deep."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list | tuple):
            waiting += reversed(one)
        elif objects and isinstance(one, Mapping):
            waiting += reversed(list(one.values()))
        else:
            yield one


def as_sections(
    facts: Iterable[tuple[str, str]], losses: Losses, sections_of: Mapping[str, bool] | None = None
) -> list[tuple[str, str]]:
    """Returns facts (label, value) as sections: each long value under its label, and the others as lines of "Facts".

    For some labels, `sections_of` says whether the value is a section; for others, its length decides.
    """
    sections, lines, facts = list[tuple[str, str]](), list[str](), list(facts)
    losses.repeat(words_in(label for label, _ in facts))
    for label, value in facts:
        if "\n" in value or (sections_of or {}).get(label, len(value) > LONGEST_FACT):
            sections.append((label, value))
        else:
            lines.append(f"{label}: {value}")
    return [*sections, (FACTS, "\n".join(lines))]


def _facts(label: str, value: Any, losses: Losses, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the facts in a field as (label, value); labels of an object's members begin with the object's label."""
    value = literal_of(parsed(value))
    if isinstance(value, Mapping):
        said = {name: one for name, one in value.items() if not _leads_elsewhere(name)}
        if len(said) < len(value):
            losses.leave_out(_ADDRESSES, words_within([one for name, one in value.items() if name not in said]))
        if len(value) > 1 and all(isinstance(one, Mapping) for one in value.values()):
            called = [one if _title(one)[1] else {"name": name, **one} for name, one in value.items()]
            yield from _facts(label, called, losses, depth)  # such as languages by their codes
        elif len(said) == 1 < len(value) and (title := _title(said)[1]):
            yield label, title  # the name of something that is described elsewhere
        elif depth < _DEEPEST:
            for name, one in said.items():
                yield from _facts(f"{label}, {_label(name, first=False)}", one, losses, depth + 1)
        else:
            losses.leave_out("values nested too deeply", words_within(said))
    elif isinstance(value, list | tuple):
        texts = [text for one in value if (text := _item(one, losses, depth))]
        listed = list(dict.fromkeys(texts))
        if len(listed) < len(texts):
            losses.leave_out("repeated items", " ".join(texts), words_in(texts) - words_in(listed))
        objects = any(isinstance(one, Mapping) for one in value)
        described = objects and all(": " in text.partition(" (")[0] for text in listed)
        if len(listed) > _LONGEST_LIST and not any(map(str.isalpha, "".join(listed))):
            losses.leave_out("long lists of numbers", " ".join(listed))
        elif listed:
            long = sum(map(len, listed)) > LONGEST_FACT  # such as the steps of a recipe
            separator = ", "
            if described or long:
                separator = "\n"
            elif any("," in one or ";" in one for one in listed):
                separator = "; "
            yield label, separator.join(listed)
    elif fact := scalar_of(value):
        if re.fullmatch(r"\w+://\S+", fact):
            losses.leave_out(_ADDRESSES, fact)
        else:
            yield label, plain(fact, losses)
    elif isinstance(value, str) and value.strip() not in EMPTY:
        losses.leave_out("files within values", value, 1)


def _item(value: Any, losses: Losses, depth: int) -> str:
    """Returns a list item as text; for an object, its title and text, with other facts in parentheses."""
    value = literal_of(value)
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, (_item(one, losses, depth) for one in _leaves(value))))
    if not isinstance(value, Mapping):
        return " ".join(plain(scalar_of(value) or "", losses).split())
    title_name, title = _title(value)
    if not title and len(value) == 2 and "value" in value:  # next to a `key` or a `trait_type`
        title_name = next(name for name in value if name != "value")
        title = _words(value[title_name])
    text_name, text = field_of(value, "text", {})
    about = " ".join(plain(text_in(text), losses).split())
    if title and not about and "value" in value:
        text_name, about = "value", _words(value["value"])
    for name, said_of in ((title_name, title), (text_name, about)):
        leave_out_others(value.get(name), said_of, losses)
    others = {name: one for name, one in value.items() if name not in (title_name, text_name)}
    losses.leave_out(_ADDRESSES, words_within([one for name, one in others.items() if _leads_elsewhere(name)]))
    others = {name: one for name, one in others.items() if not _leads_elsewhere(name)}
    if depth >= _DEEPEST:
        losses.leave_out("values nested too deeply", words_within(others))
        others = {}
    said = list[tuple[str, str]]()
    for name, one in others.items():
        for label, fact in _facts(_label(name, first=False), one, losses, depth + 1):
            if looks_like_image(fact):
                losses.leave_out("images of parts", fact, 1, "images")
            elif fact != title:
                said.append((label, fact.replace("\n", "; ")))
    if title and not about and len(said) == 1 and len(said[0][1]) >= _SENTENCE:
        about, said = said[0][1], []
    words = f"{title}: {about}" if title and about else title or about
    losses.repeat(words_in(label for label, _ in said))
    details = [f"{label}: {fact}" for label, fact in said]
    return f"{words} ({'; '.join(details)})" if words and details else words or "; ".join(details)


def leave_out_others(value: Any, used: str, losses: Losses) -> None:
    """Counts the texts in an object of one text in several languages or forms, except the one that is used."""
    if isinstance(value, Mapping):
        said = words_within(value)
        losses.leave_out("texts in other languages", said, words_in([said]) - words_in([used]))


def _words(value: Any) -> str:
    """Returns a value, a list of values, or a value in several languages, as words."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_words, _leaves(value))))
    return " ".join(plain(text_in(value)).split())


def _title(value: Mapping[str, Any]) -> tuple[str, str]:
    name, title = field_of(value, "title", {})
    return name, plain_title(next(texts_in(title), ""))


def _leads_elsewhere(name: str) -> bool:
    return str(name).startswith("@") or _label(str(name)).lower().rpartition(" ")[2] in _REFERENCES


def texts_in(value: Any) -> Iterator[str]:
    """Yields the texts in a value, the preferred one first: an object may have a text in several languages or forms."""
    if isinstance(value, Mapping):
        keys = {folded(key): key for key in reversed(value)}
        first = [keys[folded(name)] for name in _LANGUAGES if folded(name) in keys]
        for key in dict.fromkeys([*first, *value]):
            if isinstance(one := literal_of(value[key]), str | list):
                yield from texts_in(one)
    elif isinstance(value, list | tuple):
        for one in map(literal_of, _leaves(value)):
            if isinstance(one, str | list):
                yield from texts_in(one)
            elif isinstance(one, Mapping) and (title := _title(one)[1]):
                yield title
    elif (text := scalar_of(value)) is not None:
        yield " ".join(text.split())


def has_parts(value: Any) -> bool:
    """Returns whether a value is an object of named parts ("cap", "stem"), not a text in several languages or forms."""
    if not isinstance(value, Mapping) or sum(isinstance(one, str) for one in value.values()) < 2:
        return False
    usual = any(folded(str(key)) in _FORMS for key in value)
    return not usual and not all(_LANGUAGE_CODE.fullmatch(str(key)) for key in value)


def text_in(value: Any) -> str:
    """Returns the text of an article: the items of a list as paragraphs, or the preferred text of an object."""
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, map(text_in, _leaves(value))))
    if isinstance(value, Mapping):
        return next(texts_in(value), "")
    return scalar_of(value) or ""


def scalar_of(value: Any) -> str | None:
    """Returns a text, a number, a date or a truth value as text, or `None` if it is empty or of another type."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value != value:  # not a number, which data frames have for a missing value
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip() if isinstance(value, _WRITTEN) else ""
    is_file = len(text) > LONGEST_FACT and _BLOB.fullmatch(text)
    return None if is_file or text in EMPTY else text


def literal_of(value: Any) -> Any:
    """Unwraps the value of an object that states its language or type, as in JSON-LD, SPARQL and Wikibase."""
    if isinstance(value, Mapping):
        if "@value" in value:
            return value["@value"]
        if "value" in value and (value.get("type") in _LITERALS or (len(value) == 2 and "language" in value)):
            return value["value"]
    return value


def parsed(value: Any) -> Any:
    """Parses a list or an object that a table contains as text, in JSON or Python syntax."""
    if not isinstance(value, str) or value[:1] + value[-1:] not in ("[]", "{}"):
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return value


def plain(text: str, losses: Losses | None = None) -> str:
    """Returns a text without HTML markup; headings become lines `== heading ==`."""
    if _MARKUP.search(text):
        return plain_html(text, losses or Losses())
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)


def plain_title(title: str) -> str:
    """Returns a title without HTML markup, on one line; a title of nothing but tags stays as it is."""
    return " ".join((plain(title) or title).split())


@lru_cache(maxsize=4096)
def _label(name: str, first: bool = True) -> str:
    """Returns the name of a field as words: `yearOfBirth` and `year_of_birth` as "Year of birth"."""
    if not re.search(r"\s", name):
        name = name.removeprefix("@")
        name = re.sub(r"(?<=[a-z\d])(?=[A-Z][a-z])", " ", name.replace("_", " ").replace("-", " ")).strip()
        words = [word.lower() if re.fullmatch(r"[A-Z][a-z]+", word) else word for word in name.split()]
        name = " ".join(words)
    return name[:1].upper() + name[1:] if first else name
