"""Languages: which one an article is in, and values in several, in columns (`name_en`) or objects (`{"en": …}`)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any


def words_of(*lines: str) -> frozenset[str]:
    """Returns the words of some lines."""
    return frozenset(word for line in lines for word in line.split())


DEFAULT = "default"  # the key of a column without a language beside others with one
_NAMES = words_of(
    "english german french spanish italian portuguese russian japanese chinese korean dutch polish arabic swedish"
)
_CODE = re.compile(r"[a-z]{2}|eng|deu|ger|fra|fre|spa|ita|por|rus|jpn|zho|chi|kor|nld|dut|pol|ara")
_USUAL = words_of("en de fr es it pt nl ru ja zh pl sv ko ar eng deu ger fra fre spa english german french")
"""One of these must be among the languages of columns, since `hi` and `lo` are also high and low."""
_ENGLISH = ("en", "eng", "english")
_NEUTRAL = frozenset({"none", "@none", "und", "mul", DEFAULT})  # keys for texts without a language beside codes
_COLUMNS = (
    re.compile(r"(?P<base>.+?)(?:\s*[_:@.-]|\s*[\[(])(?P<code>[A-Za-z]{2,10}(?:[-_][A-Za-z]{2,4})?)[\])]?"),
    re.compile(r"(?P<base>.*[a-z])(?P<code>[A-Z][a-z])"),
    re.compile(r"(?P<code>[a-z]{2})[_:](?P<base>.+)"),
)
_IMAGE = re.compile(r"\.(?:jpe?g|png|gif|webp|svg|tiff?)\b", re.IGNORECASE)
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
    return 2 * len(words) > len(values) and not any(map(_IMAGE.search, words))


def languages_of(rows: Sequence[Mapping[str, Any]], columns: Columns) -> tuple[str, ...]:
    """Returns the languages in which rows say things, the best first: English, else the most complete.

    English comes first if it says half as much as the most complete one.
    """
    counts = Counter[str]()
    for row in rows:
        counts.update(columns[name][1] for name, value in row.items() if name in columns and value not in (None, ""))
        for value in row.values():
            if isinstance(value, dict) and has_languages(value):
                counts.update(str(code).lower() for code, text in value.items() if text)
    most = max(counts.values(), default=0)
    ranked = sorted(counts, key=lambda code: (_base(code) in _ENGLISH and 2 * counts[code] >= most, counts[code]))
    return tuple(reversed(ranked))


def joined(values: Mapping[str, Any], columns: Columns) -> Mapping[str, Any]:
    """Returns values with one object, `{"en": …, "de": …}`, in place of columns in several languages."""
    if not columns:
        return values
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
    return _CODE.fullmatch(base := _base(name)) is not None or base in _NAMES


def _base(code: str) -> str:
    return re.split("[-_]", str(code).lower(), maxsplit=1)[0]


def has_languages(value: Mapping[str, Any]) -> bool:
    """Returns whether an object holds one text in several languages, unlike the names of these languages."""
    codes = [str(key).lower() for key in value]
    usual = any(_base(code) in _USUAL for code in codes) or (len(codes) == 1 and codes[0] in _NEUTRAL)
    if not usual or not all(is_language(code) or code in _NEUTRAL for code in codes):
        return False
    texts = [_literal(item) for item in value.values()]
    return all(isinstance(text, str | list | None) for text in texts) and not any(
        isinstance(text, str) and text.lower() in _NAMES for text in texts
    )


def by_preference(value: Mapping[str, Any], languages: Sequence[str]) -> dict[str, Any]:
    """Returns the texts of an object by language, the preferred one first."""
    order = {code: number for number, code in enumerate(languages)}

    def place(code: str) -> tuple[bool, int]:
        number = order.get(code.lower(), len(order) - (_base(code) in _ENGLISH or code == DEFAULT))
        return _literal(value[code]) in (None, "", []), number

    return {code: _literal(value[code]) for code in sorted(value, key=place)}


def in_one_language(value: Any, languages: Sequence[str], depth: int = 0) -> Any:
    """Returns a value with one text for each object or list of the same text in several languages.

    Where no field of many rows is in several languages, objects with codes as keys say something else for each.
    """
    if not isinstance(value, dict | list) or depth > _DEEPEST:
        return value
    if isinstance(value, list):
        spoken = {item[key]: item for item in value if isinstance(item, dict) and (key := _language_key(item))}
        if not (len(spoken) == len(value) > 1 and all(map(is_language, spoken))):
            return [in_one_language(item, languages, depth + 1) for item in value]
        value = spoken
    elif not languages or not has_languages(value):
        return {key: in_one_language(item, languages, depth + 1) for key, item in value.items()}
    text = next(iter(by_preference(value, languages).values()))
    return text[0] if isinstance(text, list) and len(text) == 1 else text


def _language_key(item: Mapping[str, Any]) -> str:
    """Returns the key of the language that an object says its only text is in, "" if it says none."""
    is_text = len(item) == 2 and any(key in item for key in _TEXT_KEYS)
    return next((key for key in _LANGUAGE_KEYS if is_text and isinstance(item.get(key), str)), "")


def _literal(value: Any) -> Any:
    if isinstance(value, dict) and any(key in value for key in _LANGUAGE_KEYS):
        return next((value[key] for key in _TEXT_KEYS if key in value), value)
    return value


_LOOKED_AT, _SECTIONS = 600, 5  # characters of a text that are looked at, and texts of an article
_FUNCTION_WORDS = words_of(
    "the of and to in is was are were be been being has have had it its this that these those with as by on from",
    "at which who when where they them their he she his her but or not can may will would also than into about",
    "between during after before there only a an for if one all most some other more each",
)
_FOREIGN = words_of(
    "der die das den dem des und ist nicht ein eine einen einer eines mit von zum zur im auf bei wird wurde auch",
    "sich oder le la les un une et est dans du des que qui sur par pour au aux avec son sa ses ce cette ne pas",
    "plus el los las y en con del una por es su se lo como más para fue il lo gli di che e è per della del nel",
    "sono alla het een van op te dat niet zijn werd wordt om voor door os uma não ao dos das pelo pela são foi og",
    "av til som ikke er det på fra och att är för med den ett inte ja on ei se että ovat w z na się jest oraz",
    "przez ve bir bu için ile olarak v je se na že jsou și este cu pe din egy az hogy nem của và là các",
)
_END = re.compile(r"[.!?\u2026]")  # the end of a sentence
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_FEWEST = 5  # fewest words of a sentence: less may be names or numbers
_ENOUGH, _SHARE = 25, 0.1  # from so many words on, English has at least this share of its function words


def is_foreign(texts: Iterable[str]) -> bool:
    """Returns whether an article is in another language than English.

    Only sentences count, so lists of names, numbers and facts are not judged; capitalized words within a sentence may
    be names and do not count either. A text mostly in another script than the Latin one is foreign.

    Example:
        >>> is_foreign(["Der Turm ist hoch und steht in Oslo."]), is_foreign(["Ojo de Liebre, Baja California; 1951"])
        (True, False)
    """
    english = foreign = counted = 0
    for text in islice(texts, _SECTIONS):
        start = text[:_LOOKED_AT]
        letters = sum(map(str.isalpha, start))
        if letters > 2 * len(_LATIN.findall(start)):
            return True
        for sentence in _END.split(start)[:-1]:  # the last one may be cut
            found = _WORD.findall(sentence)
            words = [word.lower() for n, word in enumerate(found) if n == 0 or not word[0].isupper()]
            if len(found) >= _FEWEST:
                english += sum(word in _FUNCTION_WORDS for word in words)
                foreign += sum(word in _FOREIGN and word not in _FUNCTION_WORDS for word in words)
                counted += len(words)
    return foreign > english or (counted >= _ENOUGH and english < _SHARE * counted)
