"""Words as the lexical models see them: stems, stop words, synonyms, and the concepts of a question."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

Phrase = tuple[str, ...]
Synonyms = Mapping[str, tuple[str, ...]]

SYNONYMS_FILE = Path(__file__).with_name("models") / "synonyms.toml"
MAX_PHRASE = 5
"""Longest phrase that is looked up in a synonym table, in words."""

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?", re.UNICODE)
_SUFFIXES = (  # (suffix, replacement, shortest stem); the first match is applied
    ("izations", "", 4), ("isations", "", 4), ("ization", "", 4), ("isation", "", 4), ("izing", "", 4), ("ized", "", 4),
    ("ises", "", 5), ("izes", "", 4), ("ised", "", 5), ("ize", "", 4), ("ations", "", 4), ("ation", "", 4),
    ("ating", "", 4), ("ated", "", 4), ("ates", "", 4), ("ate", "", 5), ("ments", "", 4), ("ment", "", 4),
    ("ings", "", 3), ("ing", "", 3), ("edly", "", 4), ("ed", "", 3), ("ions", "", 5), ("ion", "", 5), ("ers", "", 5),
    ("er", "", 5), ("ous", "", 5), ("ily", "y", 3), ("ly", "", 4),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Concept:
    """A concept of a question with the phrases that express it, as stems.

    Attributes:
        phrases: Equivalent phrases, stop words removed.
        literal: How many of them, counted from the first, are the question's own words (0 or 1).
    """

    phrases: tuple[Phrase, ...]
    literal: int = 1


def fold(text: str) -> str:
    """Lowercases `text` and strips accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Stems one folded word by dropping plural and common verb and noun endings.

    Example:
        >>> [stem(word) for word in ("government", "governed", "cities", "manufacturer")]
        ['govern', 'govern', 'city', 'manufactur']
    """
    word = word.removesuffix("'s").replace("'", "")
    if len(word) <= 3 or word[0].isdigit():
        return word
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for suffix, replacement, shortest in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= shortest:
            word = word[: -len(suffix)] + replacement
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 4 else word


STOP_WORDS = frozenset(  # as stems
    stem(word)
    for line in (
        "about also am an and any are as at be been being by can could did do does during each for from had has have",
        "a he her him his how i if in into is it its itself just may me might more most much many must my near of on",
        "one or our out over s shall she should so some such than that the their them then there these they this",
        "those type kind sort through to too under until up upon us very was we were what when where which while who",
        "whom whose why will with within would you your give name tell please called actually currently",
    )
    for word in line.split()
)


def words(text: str) -> list[str]:
    """Splits `text` into the stems of its words and numbers, stop words included."""
    return [stem(match) for match in _WORD.findall(fold(text))]


@lru_cache(maxsize=65536)
def tokenize(text: str) -> tuple[str, ...]:
    """Splits `text` into stems, stop words removed."""
    return tuple(word for word in words(text) if word not in STOP_WORDS)


@lru_cache(maxsize=8)
def load_synonyms(path: Path = SYNONYMS_FILE) -> dict[str, tuple[str, ...]]:
    """Loads a synonyms file as a table: phrase -> phrases that may replace it in a text.

    The file has `groups` of interchangeable phrases and a table of `cues`, which map a phrase of a question to phrases
    of a text, one way. A cue's key ends in "?" in the returned table: its own words are not searched for in a text.

    Raises:
        ValueError: The file does not have this form.
    """
    with path.open("rb") as file:
        data = tomllib.load(file)
    table: dict[str, tuple[str, ...]] = {}
    try:
        entries = [(phrase, group.split("|")) for group in data["groups"] for phrase in group.split("|")]
        entries += [(f"{cue}?", phrases.split("|")) for cue, phrases in data["cues"].items()]
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{path}: must have a list 'groups' and a table 'cues' of strings, their phrases separated by '|'"
        ) from error
    for phrase, others in entries:
        known = table.get(phrase, ())
        table[phrase] = known + tuple(other for other in others if other != phrase and other not in known)
    return table


class Lexicon:
    """Finds the concepts of questions, using a synonym table (phrase -> phrases that may replace it)."""

    def __init__(self, synonyms: Synonyms | None = None) -> None:
        self._table: dict[Phrase, Concept] = {}
        for phrase, others in (synonyms or {}).items():
            key = tuple(words(phrase))
            own = () if phrase.endswith("?") else tokenize(phrase)
            phrases = dict.fromkeys(([own] if own else []) + [tokenize(other) for other in others])
            if known := self._table.get(key):
                phrases = dict.fromkeys((*known.phrases, *phrases))
            phrases.pop((), None)
            self._table[key] = Concept(tuple(phrases), known.literal if known else int(bool(own)))

    def concepts(self, text: str) -> tuple[Concept, ...]:
        """Returns the concepts of `text`: its longest known phrases, and every other word that is not a stop word."""
        return _concepts(self, text)

    def find(self, text: str) -> tuple[Concept, ...]:
        """Computes `concepts` without the cache."""
        stems = words(text)
        found: dict[Concept, None] = {}
        start = 0
        while start < len(stems):
            for length in range(min(MAX_PHRASE, len(stems) - start), 0, -1):
                concept = self._table.get(tuple(stems[start : start + length]))
                if concept is not None:
                    break
            else:
                length, word = 1, stems[start]
                concept = None if word in STOP_WORDS else Concept(((word,),))
            if concept is not None:
                found[concept] = None
            start += length
        return tuple(found)


@lru_cache(maxsize=4096)
def _concepts(lexicon: Lexicon, text: str) -> tuple[Concept, ...]:
    return lexicon.find(text)
