"""Values in several languages, in columns (`name_en`, `name_de`) or objects (`{"en": …, "de": …}`), are one value."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from indexes.knowledge.languages import words_of

LeftOut = list[tuple[str, str]]
"""What was dropped on purpose: (reason as a noun phrase, text)."""

OTHERS = "texts in other languages"
DEFAULT = "default"  # the key of a column without a language beside others with one
_CODES = words_of(
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee",
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is",
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms",
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk",
    "sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi",
    "yo za zh zu eng deu ger fra fre spa ita por rus jpn zho chi kor nld dut pol ara english german french spanish",
    "italian portuguese russian japanese chinese korean dutch polish arabic swedish",
)
"""Codes of ISO 639-1, usual ones of 639-2, and names."""
_USUAL = words_of("en de fr es it pt nl ru ja zh pl sv ko ar eng deu ger fra fre spa english german french")
"""One of these must be among the languages of columns, since `hi` and `lo` are also high and low."""
_ENGLISH = ("en", "eng", "english")
_NEUTRAL = frozenset({"none", "@none", "und", "mul", DEFAULT})  # keys for texts without a language beside codes
_COLUMNS = (
    re.compile(r"(?P<base>.+?)(?:\s*[_:@.-]|\s*[\[(])(?P<code>[A-Za-z]{2,10}(?:[-_][A-Za-z]{2,4})?)[\])]?"),
    re.compile(r"(?P<base>.*[a-z])(?P<code>[A-Z][a-z])"),
    re.compile(r"(?P<code>[a-z]{2})[_:](?P<base>.+)"),
)
_LANGUAGE_KEYS, _TEXT_KEYS = ("@language", "language", "lang", "xml:lang"), ("@value", "value", "text")
_DEEPEST = 20

Columns = Mapping[str, tuple[str, str]]
"""For a column in one of several languages, the common name of these columns, and its language."""


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Returns the columns that hold the same thing in several languages."""
    values, groups = defaultdict[str, list[Any]](list), defaultdict[str, dict[str, str]](dict)
    for row in rows:
        for name, value in row.items():
            if value not in (None, ""):
                values[str(name)].append(value)
    for name in values:
        for pattern in _COLUMNS:
            if (match := pattern.fullmatch(name)) and is_language(match["code"]):
                groups[match["base"].strip()].setdefault(match["code"].lower(), name)
                break
    columns: dict[str, tuple[str, str]] = {}
    for base, spoken in groups.items():
        if base in values:
            spoken = {**spoken, DEFAULT: base}
        usual = any(_base(code) in _USUAL for code in spoken)
        if len(spoken) > 1 and usual and all(_are_words(values[name]) for name in spoken.values()):
            columns |= {name: (base, code) for code, name in spoken.items()}
    return columns


def _are_words(values: Sequence[Any]) -> bool:
    words = [value for value in values if isinstance(value, str) and re.search(r"[^\W\d_]{2}", value)]
    pictures = [value for value in words if re.search(r"\.(?:jpe?g|png|gif|webp|svg|tiff?)\b", value, re.IGNORECASE)]
    return 2 * len(words) > len(values) and not pictures


def languages_of(rows: Sequence[Mapping[str, Any]], columns: Columns) -> tuple[str, ...]:
    """Returns the languages in which rows say things, the best first: English, else the most complete.

    English comes first if it says half as much as the most complete one.
    """
    counts = Counter[str]()
    for row in rows:
        counts.update(columns[name][1] for name, value in row.items() if name in columns and value not in (None, ""))
        for value in row.values():
            if isinstance(value, Mapping) and has_languages(value):
                counts.update(str(code).lower() for code, text in value.items() if text)
    most = max(counts.values(), default=0)
    ranked = sorted(counts, key=lambda code: (_base(code) in _ENGLISH and 2 * counts[code] >= most, counts[code]))
    return tuple(reversed(ranked))


def joined(values: Mapping[str, Any], columns: Columns) -> Mapping[str, Any]:
    """Returns values with one object, `{"en": …, "de": …}`, in place of columns in several languages."""
    row: dict[str, Any] = {}
    for name, value in values.items():
        base, code = columns.get(name, (name, ""))
        if not code:
            row[name] = value
        elif value not in (None, ""):
            row.setdefault(base, {})[code] = value
    spoken = {base for base, _ in columns.values()}
    return {
        key: next(iter(value.values())) if key in spoken and len(value) == 1 else value for key, value in row.items()
    }


def is_language(name: str) -> bool:
    """Returns whether a key is the code or the name of a language: `de`, `pt-BR`, `English`."""
    return _base(name) in _CODES


def _base(code: str) -> str:
    return re.split("[-_]", str(code).lower(), maxsplit=1)[0]


def has_languages(value: Mapping[str, Any]) -> bool:
    """Returns whether an object holds one text in several languages."""
    codes = [str(key).lower() for key in value]
    if not any(map(is_language, codes)) or not all(is_language(code) or code in _NEUTRAL for code in codes):
        return False
    return all(isinstance(_literal(item), str | list | None) for item in value.values())


def by_preference(value: Mapping[str, Any], languages: Sequence[str]) -> dict[str, Any]:
    """Returns the texts of an object by language, the preferred one first."""
    order = {code: number for number, code in enumerate(languages)}

    def place(code: str) -> tuple[bool, int]:
        number = order.get(code.lower(), len(order) - (_base(code) in _ENGLISH or code == DEFAULT))
        return _literal(value[code]) in (None, "", []), number

    return {code: _literal(value[code]) for code in sorted(value, key=place)}


def in_one_language(value: Any, languages: Sequence[str], left_out: LeftOut, depth: int = 0) -> Any:
    """Returns a value with one text for each object or list of the same text in several languages."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        if has_languages(value):
            return _chosen(by_preference(value, languages), left_out)
        return {key: in_one_language(item, languages, left_out, depth + 1) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    spoken = [code for item in value if isinstance(item, Mapping) for code in _spoken(item)]
    if len(set(spoken)) == len(spoken) == len(value) > 1 and all(map(is_language, spoken)):
        return _chosen(by_preference(dict(zip(spoken, value, strict=True)), languages), left_out)
    return [in_one_language(item, languages, left_out, depth + 1) for item in value]


def _chosen(texts: Mapping[str, Any], left_out: LeftOut) -> Any:
    first, *others = texts.values()
    for other in others:
        left_out += [(OTHERS, str(item)) for item in (other if isinstance(other, list) else [other]) if item]
    return first[0] if isinstance(first, list) and len(first) == 1 else first


def _spoken(item: Mapping[str, Any]) -> Iterator[str]:
    """Yields the language that an object says its only text is in."""
    keys = [key for key in _LANGUAGE_KEYS if isinstance(item.get(key), str)]
    if keys and len(item) == 2 and any(key in item for key in _TEXT_KEYS):
        yield item[keys[0]]


def _literal(value: Any) -> Any:
    if isinstance(value, Mapping) and any(key in value for key in _LANGUAGE_KEYS):
        return next((value[key] for key in _TEXT_KEYS if key in value), value)
    return value
