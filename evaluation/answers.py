"""Exact match as E-VQA's and InfoSeek's own evaluations define it; `evaluation.bem` is what E-VQA asks beyond it."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_EVQA_PUNCTUATION = str.maketrans("", "", string.punctuation + "\u2018\u2019\u00b4")
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_EVQA_ARTICLE = re.compile(r"\b(the answer is|a|an|the)\b")
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_VERDICTS = {"none": "0", "true": "yes", "entailment": "yes", "false": "no", "contradiction": "no"}
_EVQA_WORDS = {word: str(number) for number, word in enumerate(_DIGITS)} | _VERDICTS
_NUMBER = re.compile(r"[-+]?\.?\d+(?:,\d{3})*\.?\d*(?:[eE][-+]?\d+)?")
_SPAN_PREFIX = "<extra_id_0> "  # what T5 puts before its answers
_TINY = 1e-12  # what the official script adds to lengths and forgives at the threshold


def evqa_match(answer: str, references: Sequence[str], *, multi_answer: bool = False) -> bool:
    """Returns E-VQA's exact match against the best of the references.

    Items of a `multi_answer` reference are separated by `&&`, those of the answer by a comma, " and " or " & "; half of
    the items of both together have to be shared. A reference that normalization leaves empty matches nothing.

    Example:
        >>> evqa_match("Red, white and blue", ["blue&&white&&red&&gold"], multi_answer=True)
        True
    """
    if not multi_answer:
        normalized = evqa_normalize(answer)
        return bool(normalized) and any(evqa_normalize(reference) == normalized for reference in references)
    given = _items(answer.replace(" and ", ",").replace(" & ", ",").split(","))
    return any(_overlap(_items(reference.split("&&")), given) >= 0.5 for reference in references)


def text_match(answer: str, aliases: Sequence[str]) -> bool:
    """Returns InfoSeek's match of a string or a time: equal to any alias, both normalized.

    Example:
        >>> text_match("The Hague.", ["Den Haag", "Hague"])
        True
    """
    normalized = normalize(answer)
    return any(normalize(alias) == normalized for alias in aliases)


def numeric_match(answer: str, accepted: tuple[float, float]) -> bool:
    """Returns InfoSeek's match of a number or a range with the accepted range, ends included.

    A range is right inside the accepted one or when the two share half of their union. An answer without a number is
    read as zero, as the official script reads it.

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
    """Returns the number or the range (the lower end first) that InfoSeek's evaluation reads in a text; `()` for none.

    Only the first two numbers count, and of two that fall only the first. A point before the first digit is dropped
    as the official script does.

    Example:
        >>> read_numbers("1,234.5 to 2,000 km"), read_numbers("9-10"), read_numbers("-5"), read_numbers("many")
        ((1234.5, 2000.0), (9.0, 10.0), (-5.0,), ())
    """
    spaced = "".join(
        " - " if char == "-" and before.isdigit() else char for before, char in zip(f" {text}", text, strict=False)
    )
    found = [match.replace(",", "").strip(".") for match in _NUMBER.findall(spaced)]
    # "-.5.3" is cut at its second point: the official script breaks there
    numbers = [float(match[: match.rindex(".")] if match.count(".") > 1 else match) for match in found[:2]]
    return tuple(numbers) if len(numbers) < 2 or numbers[0] <= numbers[1] else (numbers[0],)


def normalize(text: str) -> str:
    """Returns lower case without ASCII punctuation, articles and spare spaces: InfoSeek's normalization.

    Example:
        >>> normalize(" The  U.S. Dollar ")
        'us dollar'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split())


def evqa_normalize(text: str) -> str:
    """Returns E-VQA's normalization: as `normalize`, with "the answer is" dropped and number words as digits.

    The official list of contractions is left out: punctuation goes first, so it renames words on both sides alike.

    Example:
        >>> evqa_normalize("The answer is: Two meters.")
        '2 meters'
    """
    lowered = text.lower().replace("\n", " ").replace("\t", " ").strip()
    if lowered.startswith(_SPAN_PREFIX):
        lowered = lowered.replace(_SPAN_PREFIX, "")
    words = _EVQA_ARTICLE.sub(" ", lowered.translate(_EVQA_PUNCTUATION)).split()
    return " ".join(_EVQA_WORDS.get(word, word) for word in words)


def _items(parts: Sequence[str]) -> set[str]:
    return {item for part in parts if (item := evqa_normalize(part))}


def _overlap(reference: set[str], given: set[str]) -> float:
    return len(reference & given) / len(reference | given) if reference else 0.0
