"""Tokenizes evidence and questions: character offsets, stems, sentences, clauses, and word classes for the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from retriever.lexical import STOP_WORDS, fold, stem
from retriever.types import IntArray

Flags = NDArray[np.bool_]


def word_set(*lines: str) -> frozenset[str]:
    """Splits lines into a set of words."""
    return frozenset(word for line in lines for word in line.split())


NUMBER_WORDS = word_set(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands",
    "million millions billion billions trillion dozen dozens half quarter third thirds zero",
)
UNITS = word_set(
    "km kilometer kilometers kilometre kilometres mi mile miles m meter meters metre metres cm centimeter centimeters",
    "centimetre centimetres mm millimeter millimeters millimetre millimetres ft feet foot inch inches in yard yards",
    "kg kilogram kilograms kilos g gram grams mg lb lbs pound pounds ounce ounces oz ton tons tonne tonnes hectare",
    "hectares acre acres liter liters litre litres ml dl l sq square cubic year years month months week weeks day days",
    "hour hours minute minutes second seconds percent per cent % kcal kj mph km/h degrees °c °f people inhabitants",
    "gw mw kw gwh kwh watts volts bar psi °",
)
MONTHS = word_set(
    "january february march april may june july august september october november december",
    "jan feb mar apr jun jul aug sep sept oct nov dec spring summer autumn winter fall",
)
COLORS = word_set(
    "red blue green yellow white black brown grey gray orange pink purple violet golden silver cream crimson scarlet",
    "maroon turquoise beige buff rufous tan olive chestnut bronze ivory lavender magenta reddish bluish greenish",
    "yellowish whitish blackish brownish greyish grayish pinkish purplish gold azure",
)
PARTICLES = word_set("de of the and & von van der den du des da do dos del della di la le las los el al y ibn bin")
_CLAUSE_WORDS = word_set("which who whose while but although though whereas where because with and")
_SUFFIXES = (
    "tion", "sion", "ment", "ness", "ity", "ism", "ship", "ence", "ance", "logy", "ing", "ed", "ly", "ous", "ful",
    "less", "able", "ible", "ive", "al", "ic", "ish", "ary", "ory", "er", "or", "ist", "ian", "ese", "ans", "es", "s",
)  # fmt: skip
_TOKEN = re.compile(
    r"(?=[\w.]{0,40}\d)(?:\d+|[^\W\d_]+)(?:\.(?:\d+|[^\W\d_]+)){2,}\b"  # identifiers and dates: 76.AO.82, 1.5.1886
    r"|\d+(?:[.,]\d+)*|[^\W\d_]\.(?:[^\W\d_]\.)+|[^\W\d_]+(?:['\u2019-][^\W\d_]+)*|\n+|[^\w\s]"
)
_ABBREVIATIONS = word_set(
    "st mr mrs ms dr prof jr sr no vol vs etc ca approx c fig gen lt col sgt capt rev hon mt ft inc co"
)


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of a text as parallel arrays.

    Attributes:
        starts: Start of each token in characters.
        ends: End of each token in characters, exclusive.
        lower: Lowercase forms, without accents.
        stems: Stems; empty for punctuation.
        classes: Word classes for the model: the word itself, or its kind or shape.
        sentence: Number of each token's sentence.
        clause: Number of each token's clause; a label ("Height:") starts a new one.
        label: True for the words of a label.
        capital: True for capitalized words.
        number: True for figures and number words.
    """

    starts: IntArray
    ends: IntArray
    lower: tuple[str, ...]
    stems: tuple[str, ...]
    classes: tuple[str, ...]
    sentence: IntArray
    clause: IntArray
    label: Flags
    capital: Flags
    number: Flags


@lru_cache(maxsize=1024)
def tokenize_text(text: str) -> Tokens:
    """Splits a text into tokens, sentences and clauses."""
    matches = list(_TOKEN.finditer(text))
    forms = [match[0] for match in matches]
    lower = tuple(fold(form) or form for form in forms)  # a lone accent folds to nothing
    words = [form[0].isalnum() for form in forms]
    stems = tuple(stem(form) if word else "" for form, word in zip(lower, words, strict=True))
    sentence = np.zeros(len(forms), np.int64)
    clause = np.zeros(len(forms), np.int64)
    label = np.zeros(len(forms), np.bool_)
    for i in range(1, len(forms)):
        ended = _ends_sentence(forms, i - 1)
        sentence[i] = sentence[i - 1] + ended
        stops = forms[i - 1] in ";,:()\u2014\u2013" and not _joins_figures(forms, i - 1)
        clause[i] = clause[i - 1] + (ended or stops or lower[i] in _CLAUSE_WORDS)
        if forms[i] == ":" and text[matches[i].end() : matches[i].end() + 1] in (" ", "\n", "") and words[i - 1]:
            begin = _label_start(forms, sentence, i)
            label[begin:i] = True
            clause[begin : i + 1] = clause[begin - 1] + 1 if begin else 0
    return Tokens(
        np.array([match.start() for match in matches], np.int64),
        np.array([match.end() for match in matches], np.int64),
        lower,
        stems,
        tuple(_class(form, low) for form, low in zip(forms, lower, strict=True)),
        sentence,
        clause,
        label,
        np.array([form[0].isupper() for form in forms], np.bool_),
        np.array([form[0].isdigit() or low in NUMBER_WORDS for form, low in zip(forms, lower, strict=True)], np.bool_),
    )


def is_color(low: str) -> bool:
    """Returns whether a word is a color, alone or after a hyphen, as in "lavender-blue"."""
    return low.rpartition("-")[2] in COLORS


def _joins_figures(forms: list[str], i: int) -> bool:
    """Returns whether an en or em dash is between figures, as in "20-24" with an en dash."""
    return (
        forms[i] in "\u2013\u2014"
        and 0 < i < len(forms) - 1
        and forms[i - 1][0].isdigit()
        and forms[i + 1][0].isdigit()
    )


def _ends_sentence(forms: list[str], i: int) -> bool:
    if forms[i][0] == "\n":
        return True
    if forms[i] in ('"', "”", ")", "]") and i and forms[i - 1] in ".!?":
        return i + 1 < len(forms) and (forms[i + 1][0].isupper() or forms[i + 1][0].isdigit())
    if forms[i] not in (".", "!", "?") or i + 1 >= len(forms):
        return False
    before, after = forms[i - 1] if i else "", forms[i + 1]
    if forms[i] == "." and (before.lower() in _ABBREVIATIONS or (len(before) == 1 and before.isupper())):
        return False
    return after[0].isupper() or after[0].isdigit() or after in '"“['


def _label_start(forms: list[str], sentence: IntArray, colon: int) -> int:
    """Returns the first word of the label that ends at a colon: back to a capitalized word, at most six words."""
    begin = colon - 1
    while (
        begin > 0
        and colon - begin < 6
        and sentence[begin - 1] == sentence[colon]
        and forms[begin - 1][0].isalpha()
        and not forms[begin][0].isupper()
    ):
        begin -= 1
    return begin


def _class(form: str, low: str) -> str:
    """Returns the class of a token: its kind, such as "<year>" or "<Name>", or else the word itself."""
    if not form[0].isalnum():
        return form[0]
    if form[0].isdigit():
        return "<year>" if re.fullmatch(r"1\d{3}|20\d\d", form) else "<figure>"
    if low in MONTHS and (form[0].isupper() or low in ("spring", "summer", "autumn", "winter")):
        return "<month>"
    if low in NUMBER_WORDS:
        return "<number>"
    if is_color(low):
        return "<color>"
    if form[0].isupper() and stem(low) not in STOP_WORDS:
        return "<Name>"
    if low in UNITS and low != "in":
        return "<unit>"
    return low


def suffix_class(word_class: str) -> str:
    """Returns the class for a word that is not in the model's vocabulary, by its ending."""
    if not word_class[:1].isalpha():
        return "<other>"
    return next((f"-{suffix}" for suffix in _SUFFIXES if word_class.endswith(suffix)), "<word>")


def stems_of(text: str) -> frozenset[str]:
    """Returns the stems of a text's words."""
    return frozenset(tokenize_text(text).stems) - {""}
