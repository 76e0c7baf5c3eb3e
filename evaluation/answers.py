"""Exact match as defined by the evaluation scripts of E-VQA and InfoSeek; E-VQA's learned judge is in `bem.py`."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_EVQA_PUNCTUATION = str.maketrans("", "", string.punctuation + "\u2018\u2019\u00b4")
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_EVQA_ARTICLE = re.compile(r"\b(the answer is|a|an|the)\b")
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_VERDICTS = {"none": "0", "true": "yes", "entailment": "yes", "false": "no", "contradiction": "no"}
_EVQA_WORDS = {word: str(number) for number, word in enumerate(_DIGITS)} | _VERDICTS
_NUMBER = re.compile(r"[-+]?\.?\d+(?:,\d{3})*\.?\d*(?:[eE][-+]?\d+)?")
_SPAN_PREFIX = "<extra_id_0> "  # T5 writes it before its answers
_TINY = 1e-12  # the official script adds it to lengths and subtracts it from the threshold


def evqa_match(answer: str, references: Sequence[str], *, multi_answer: bool = False) -> bool:
    """Returns whether an answer matches any reference under E-VQA's exact match.

    The items of a `multi_answer` reference are separated by `&&`, those of the answer by a comma, " and " or " & ". The
    two lists match if they share at least half of their union. A reference that normalizes to "" matches nothing.

    Example:
        >>> evqa_match("Red, white and blue", ["blue&&white&&red&&gold"], multi_answer=True)
        True
    """
    if not multi_answer:
        normalized = _evqa_normalize(answer)
        return bool(normalized) and any(_evqa_normalize(reference) == normalized for reference in references)
    given = _items(answer.replace(" and ", ",").replace(" & ", ",").split(","))
    right = filter(None, (_items(reference.split("&&")) for reference in references))
    return any(2 * len(items & given) >= len(items | given) for items in right)


def text_match(answer: str, aliases: Sequence[str]) -> bool:
    """Returns whether an answer equals any alias after normalization: InfoSeek's rule for strings and times.

    Example:
        >>> text_match("The Hague.", ["Den Haag", "Hague"])
        True
    """
    normalized = normalize(answer)
    return any(normalize(alias) == normalized for alias in aliases)


def numeric_match(answer: str, accepted: tuple[float, float]) -> bool:
    """Returns whether a number or range matches the accepted range under InfoSeek's rule.

    A number must lie in the accepted range, ends included. A range must lie in it, or the overlap of the two must be at
    least half of their union. As in the official script, an answer without a number counts as zero.

    Example:
        >>> numeric_match("about 1,050 m", (900, 1100)), numeric_match("5-20", (9, 11))
        (True, False)
    """
    numbers = read_numbers(answer) or (0.0,)
    low, high = accepted
    if all(low <= number <= high for number in numbers):
        return True
    if len(numbers) == 1:
        return False
    shared = max(0.0, min(high, numbers[1]) - max(low, numbers[0]))
    union = (numbers[1] - numbers[0] + _TINY) + (high - low + _TINY) - shared
    return shared / union >= 0.5 - _TINY


def read_numbers(text: str) -> tuple[float, ...]:
    """Reads the number or range (lower end first) in a text as InfoSeek's script does; returns `()` if there is none.

    Only the first two numbers count, and only the first if the second is lower. A point before the first digit is cut.

    Example:
        >>> read_numbers("1,234.5 to 2,000 km"), read_numbers("9-10"), read_numbers("-5"), read_numbers("many")
        ((1234.5, 2000.0), (9.0, 10.0), (-5.0,), ())
    """
    spaced = "".join(
        # unlike "\d", str.isdigit also accepts superscripts, such as the one in "10 km²-20 km²"
        " - " if char == "-" and before.isdigit() else char
        for before, char in zip(f" {text}", text, strict=False)
    )
    matches = [match.replace(",", "").strip(".") for match in _NUMBER.findall(spaced)]
    # "-.5.3" is cut at its second point, where the official script raises an error
    numbers = [float(match[: match.rindex(".")] if match.count(".") > 1 else match) for match in matches[:2]]
    return tuple(numbers) if len(numbers) < 2 or numbers[0] <= numbers[1] else (numbers[0],)


def normalize(text: str) -> str:
    """Applies InfoSeek's normalization: lower case, no ASCII punctuation, no articles, single spaces.

    Example:
        >>> normalize(" The  U.S. Dollar ")
        'us dollar'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split())


def _evqa_normalize(text: str) -> str:
    """Applies E-VQA's normalization: `normalize`, then drops "the answer is" and turns number words into digits.

    The official list of contractions is not needed: punctuation is removed first, so it would change both sides alike.

    Example:
        >>> _evqa_normalize("The answer is: Two meters.")
        '2 meters'
    """
    lowered = text.lower().replace("\n", " ").replace("\t", " ").strip()
    if lowered.startswith(_SPAN_PREFIX):
        lowered = lowered.replace(_SPAN_PREFIX, "")
    words = _EVQA_ARTICLE.sub(" ", lowered.translate(_EVQA_PUNCTUATION)).split()
    return " ".join(_EVQA_WORDS.get(word, word) for word in words)


def _items(parts: Sequence[str]) -> set[str]:
    return {item for part in parts if (item := _evqa_normalize(part))}


def answer_f1(answer: str, references: Sequence[str]) -> float:
    """Returns the F1 of an answer's words against the best reference's, as MMSearch computes it.

    Both are normalized by SQuAD's rule: lowercased, without punctuation and articles. A date becomes a single word.

    Example:
        >>> answer_f1("The United States", ["United States of America"])
        0.6666666666666666
        >>> answer_f1("2024-11-22", ["2024-11-23"])
        0.0
    """
    given = normalize(answer).split()
    return max((_f1(given, normalize(reference).split()) for reference in references), default=0.0)


def _f1(given: list[str], wanted: list[str]) -> float:
    if not given or not wanted:
        return float(given == wanted)
    common = (Counter(given) & Counter(wanted)).total()
    return 2 * common / (len(given) + len(wanted))
