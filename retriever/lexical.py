"""Words as the lexical models see them: folded, stemmed, without stop words, and with their rarity.

Also labels of values ("Population: total: 4 million"), and how well they match a question.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

from retriever.unspaced import has_unspaced, terms

RARITY_FILE = Path(__file__).with_name("rarity.txt")
"""The number of passages of encyclopedic prose that contain each stem; written by `pretraining/reader/rarity.py`."""
_SMALL = "a-z\u00df-\u00f6\u00f8-\u00ff\u03b1-\u03c9\u0430-\u045f"  # Latin, Greek, Cyrillic
_SENTENCE_END = re.compile(  # also of Arabic, Urdu and Hindi, and of Chinese and Japanese, which need no space
    rf"[.!?\u061f\u06d4\u0964]\s+(?=[^{_SMALL}])|[\u3002\uff01\uff1f]\s*(?=\S)"
)
MARKS = "".join(  # vowel signs of Indic and Southeast Asian scripts, which Python's \w leaves out
    mark for mark in map(chr, range(0x900, 0xAC00)) if unicodedata.category(mark) in ("Mn", "Mc")
)
_LETTERS = rf"[^\W\d_]+(?:[{MARKS}]+[^\W\d_]*)*"
_WORD = re.compile(rf"{_LETTERS}(?:'{_LETTERS})?|\d+(?:[.,]\d+)*")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+(?:[.,][0-9]+)*")  # the same for folded ASCII, and faster
PREFIX = 5
"""Number of letters that are kept of a word in another language than English."""
_ELISION = re.compile(r"^(?:[cdjlmnst]|qu|un|[dn]?[ae]ll|sull)'(?=\w\w)")  # French and Italian: l'eglise
_ARABIC_ARTICLE = re.compile(  # with a conjunction or preposition, as one word with its noun
    r"^(?:[\u0648\u0641]?[\u0628\u0643]?\u0627\u0644|[\u0648\u0641]?\u0644\u0644|\u0648)(?=\w{3})"
)
_SUFFIXES = (  # (suffix, replacement, shortest stem); the first match is applied
    ("izations", "", 4), ("isations", "", 4), ("ization", "", 4), ("isation", "", 4), ("izing", "", 4), ("ized", "", 4),
    ("ises", "", 5), ("izes", "", 4), ("ised", "", 5), ("ize", "", 4), ("ations", "", 4), ("ation", "", 4),
    ("ating", "", 4), ("ated", "", 4), ("ates", "", 4), ("ate", "", 5), ("ments", "", 4), ("ment", "", 4),
    ("ings", "", 3), ("ing", "", 3), ("edly", "", 4), ("ed", "", 3), ("ions", "", 5), ("ion", "", 5), ("ers", "", 5),
    ("er", "", 5), ("ous", "", 5), ("ily", "y", 3), ("ly", "", 4),
)  # fmt: skip
_SAME = {  # irregular forms, and units by their symbols
    form: stem
    for line in (
        "km kilometer kilometers kilometre kilometres|m meter meters metre metres|cm centimeter centimeters centimetre",
        "cm centimetres|mm millimeter millimeters millimetre millimetres|kg kilogram kilograms kilo kilos|g gram grams",
        "mi mile miles|ft foot feet|l liter liters litre litres|ml milliliter millilitre milliliters",
        "write wrote written|build built|found founded|begin began begun|give gave given|take took taken|know knew",
        "know known|make made makes|win won|lead led|sell sold|lay laid lays|grow grew grown|speak spoke spoken",
        "sing sang sung",
        "eat ate eaten|hold held|become became|come came|fight fought|find finds|lose lost|draw drew drawn|say said",
        "choose chose chosen|die died death|child children|man men|woman women|person people",
        "teach taught|buy bought|bring brought|think thought|fall fell fallen|rise rose risen|run ran|wear wore worn",
    )
    for group in line.split("|")
    for stem, *forms in [group.split()]
    for form in (stem, *forms)
}


def fold(text: str) -> str:
    """Lowercases `text` and strips accents."""
    if text.isascii():  # true of most sentences, and ten times as fast
        return text.lower()
    folded = unicodedata.normalize("NFKD", text.casefold())
    for accent in filter(unicodedata.combining, set(folded)):
        folded = folded.replace(accent, "")
    return folded


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Stems one folded word by dropping plural and common verb and noun endings.

    Example:
        >>> [stem(word) for word in ("government", "governed", "cities", "manufacturer")]
        ['govern', 'govern', 'city', 'manufactur']
    """
    word = word.removesuffix("'s").replace("'", "")
    if word in _SAME:
        return _SAME[word]
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
    return list(map(stem, _forms(text)))


def tokenize(text: str, english: bool = True) -> list[str]:
    """Splits `text` into stems, stop words removed.

    Args:
        text: The text.
        english: Whether to keep words that English prose hardly has as they are. Otherwise, they are cut to five
            letters, because `stem` knows English endings only: in most alphabets, what follows is inflection (F. Can
            et al., "Information retrieval on Turkish texts", 2008).
    """
    found = filter(None, map(_counted, _forms(text)))
    return list(found if english else map(cut, found))


def _forms(text: str) -> list[str]:
    folded = fold(text)
    if folded.isascii():
        return _ASCII_WORD.findall(folded)
    found = _WORD.findall(folded)
    return list(chain.from_iterable(map(terms, found))) if has_unspaced(folded) else found


@lru_cache(maxsize=65536)
def _counted(word: str) -> str:
    """Returns the stem of a folded word, or an empty string if it is a stop word."""
    found = stem(_ELISION.sub("", word))
    return "" if found in STOP_WORDS else found


@lru_cache(maxsize=65536)
def cut(stem: str) -> str:
    """Cuts a stem that English prose hardly has to five letters; see `tokenize`."""
    return stem if stem in _rarities() or stem[0].isdigit() else _ARABIC_ARTICLE.sub("", stem)[:PREFIX]


def sentences(text: str) -> list[str]:
    """Splits `text` into sentences and lines, dropping the punctuation and spaces between two sentences.

    Example:
        >>> sentences("It opened in 1931. Who built it?")
        ['It opened in 1931', 'Who built it?']
    """
    return [sentence for line in text.split("\n") if line for sentence in _SENTENCE_END.split(line)]


def rarity(word: str) -> float:
    """Returns how rare a stem is in encyclopedic prose: log(passages / passages that contain it).

    Unknown stems count as rare, short ones less so, since in other languages these are mostly function words.
    """
    table = _rarities()
    if word in table or word[0].isdigit():
        return table.get(word, table[""])
    return table[""] * min(1.0, len(word) / PREFIX) ** 2


def english_share(text: str) -> float:
    """Returns the share of a text's words that English prose has, 1 without words.

    Capitalized words after the first may be names, so they do not count.

    Example:
        >>> english_share("Who built the Kölner Dom?"), english_share("Wie hoch ist der Kölner Dom?")
        (1.0, 0.25)
    """
    found = _WORD.findall(text)
    stems = [stem(fold(word)) for i, word in enumerate(found) if word[0].isalpha() and not (i and word[0].isupper())]
    return sum(word in STOP_WORDS or word in _rarities() for word in stems) / len(stems) if stems else 1.0


_ENGLISH = {
    "what", "who", "whom", "whose", "which", "when", "where", "why", "how", "the", "of", "this", "these",
    "those", "that", "and", "it", "its", "are", "does", "did", "can", "could", "should", "would", "you", "she",
    "they", "your", "their", "there", "with", "from", "some", "much", "many",
}  # fmt: skip
"""Words that hardly occur in questions of other languages, except in names."""
ENGLISH = 0.75
"""Minimum share of English words in a question without any of these."""


_FOREIGN = {  # without "was", "come", "comment", "hur" and others that English has, too
    *("wer", "wie", "wo", "wann", "warum", "wieso", "welche", "welcher", "welches", "wieviel", "ist"),
    *("qui", "que", "quoi", "quel", "quelle", "quels", "quelles", "quand", "combien", "pourquoi", "est"),
    *("quien", "cual", "cuando", "cuanto", "cuanta", "cuantos", "donde", "como", "quem", "qual", "quais", "quando"),
    *("quanto", "quanta", "quanti", "quante", "onde", "dove", "chi", "cosa", "quale", "perche"),
    *("hoe", "waar", "wanneer", "waarom", "welk", "hvor", "hvad", "hvem", "hva", "hvornar", "vem", "vad", "hvilken"),
    *("kuka", "missa", "milloin", "kuinka", "kto", "gdzie", "kiedy", "ile", "jak", "kdo", "kde", "kdy", "kolik"),
    *("berapa", "siapa", "apa", "kapan", "nerede", "kac", "mikor", "hany", "cine", "unde"),
}
"""Question words of other languages in ASCII."""


def is_english(question: str) -> bool:
    """Returns whether a question is probably in English; up to three ASCII words may be a name, so they pass."""
    asked = re.findall("[a-z]+", question.lower())
    if not _ENGLISH.isdisjoint(asked):
        return True
    if question.isascii() and len(asked) <= 3:
        return len(asked) < 2 or _FOREIGN.isdisjoint(asked[:2]) or english_share(question.lower()) >= 0.5
    return english_share(question) >= ENGLISH


@lru_cache(maxsize=1)
def _rarities() -> Mapping[str, float]:
    rows = (line.split("\t") for line in RARITY_FILE.read_text(encoding="utf-8").splitlines())
    counts = {stem: int(count) for stem, count in rows}
    passages = counts.pop("")
    return {"": math.log(passages / 2)} | {stem: math.log(passages / count) for stem, count in counts.items()}


_IMPLIED = tuple(
    (re.compile(rf"\b(?:{cue})\b", re.IGNORECASE), tokenize(words))
    for cue, words in {
        r"how long": "length long",
        r"how (?:wide|broad)": "width wide",
        r"how (?:tall|high)": "height elevation tall high",
        r"how (?:big|large)": "area size",
        r"how (?:heavy|much .* weigh)": "weight mass",
        r"how old": "age",
        r"how many (?:people|inhabitants)": "population",
        r"(?:who|company|brand) (?:makes?|made|produces?)": "manufacturer maker producer",
        r"who (?:wrote|has written)": "author writer",
        r"who (?:painted|drew)": "artist painter",
        r"when (?:was|were) .*(?:made|created|written|painted|printed|issued)": "date",
    }.items()
)


def implied(question: str) -> list[str]:
    """Returns the stems of what a question asks for without naming it.

    Example:
        >>> implied("How heavy is it?")
        ['weight', 'mass']
    """
    return [word for cue, words in _IMPLIED if cue.search(question) for word in words]


_LABEL = re.compile(r"[\W_]*([^:=|]{1,60}?)\s*(?:[:=|]|\s-)(?=\s|$)")
LONGEST_LABEL, LEVELS = 6, 3
"""Words of a label, and labels in a row that are read: "Elevation: highest point: Mount Gimie" has two."""


def labels_of(line: str, english: bool = True) -> Iterator[frozenset[str]]:
    """Yields the stems of the labels that a line begins with, of each alone and of all together.

    Example:
        >>> [sorted(label) for label in labels_of("Elevation: highest point: Mount Gimie 948 m")]
        [['elev'], ['highest', 'point'], ['elev', 'highest', 'point']]
    """
    found, place = list[frozenset[str]](), 0
    while len(found) < LEVELS and (match := _LABEL.match(line, place)):
        stems = frozenset(tokenize(match[1], english))
        if not stems or len(match[1].split()) > LONGEST_LABEL or (found and re.search(r"\d", match[1])):
            break
        found.append(stems)
        yield stems
        place = match.end()
    if len(found) > 1:
        yield frozenset(chain.from_iterable(found))


def best_label(
    labels: Iterable[frozenset[str]], asked: Iterable[str], own: Sequence[str], weight: Callable[[str], float]
) -> float:
    """Returns how well the best label matches a question, 0 to 1.

    This is the share of the label's words that are asked for, times the share of the question that they make up.

    Args:
        labels: The stems of each label.
        asked: The question's stems, and those that it implies.
        own: Those that it has itself.
        weight: Returns the weight of a stem.
    """
    known = set(asked)
    total, best = sum(map(weight, dict.fromkeys(own))), 0.0
    for label in labels:
        if common := sum(weight(word) for word in label & known):
            share = min(1.0, common / total) if total else 1.0
            best = max(best, common / sum(map(weight, label)) * share)
    return best
