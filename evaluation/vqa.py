"""VQA accuracy over ten annotators' answers (VQA v2, OK-VQA), and relaxed accuracy, with 5 % tolerance."""

from __future__ import annotations

import re
from collections.abc import Sequence

ENOUGH = 3  # an answer that this many annotators gave is fully right

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_COMMA_IN_NUMBER = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")
_ARTICLES = frozenset({"a", "an", "the"})
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: str(number) for number, word in enumerate(_DIGITS)} | {"none": "0"}
_NEGATED = "are ca could did does do had has have is might must need ought sha should was were wo would ai"
_ENDINGS = {
    "d": "he how it someone something there they where who you",
    "ll": "how it somebody someone something they what who why you",
    "s": "he how somebody someone that there what when where who why",
    "re": "there they what why you",
    "ve": "could might must not should they we what where who would you",
    "d've": "he it she somebody someone something there they we who you y'all",
    "n't've": "could had might should would",
}
_WHOLE = "ma'am o'clock 'twas y'all y'all'll 'ow's'at"


def vqa_accuracy(answer: str, references: Sequence[str]) -> float:
    """Returns the official VQA accuracy (0 to 1) of an answer against those of (ten) annotators.

    Each annotator is left out in turn; the score is then a third for each of the others who gave this answer, at most
    1, and the accuracy is the mean. As in the official script, if all annotators agree, no text is processed at all,
    not even lowercased.

    Example:
        >>> vqa_accuracy("Two.", ["2"] * 3 + ["three"] * 7)
        0.9
    """
    said = [_flat(reference) for reference in references]
    given = _flat(answer)
    if len(set(said)) > 1:
        said, given = [vqa_process(reference) for reference in said], vqa_process(given)
    agreeing = sum(reference == given for reference in said)
    # leaving out one of those who agree leaves one fewer
    with_them, without_them = min(1.0, (agreeing - 1) / ENOUGH), min(1.0, agreeing / ENOUGH)
    return (agreeing * with_them + (len(said) - agreeing) * without_them) / len(said) if said else 0.0


def relaxed_match(answer: str, reference: str) -> bool:
    """Returns whether two numbers differ by at most 5 % of the reference, or two texts only in case.

    A percent sign divides by 100. A reference of zero is compared as text, because 5 % of it is zero.

    Example:
        >>> relaxed_match("104", "100"), relaxed_match("5%", "0.051"), relaxed_match("Blue", "blue")
        (True, True, True)
    """
    given, wanted = _number(answer), _number(reference)
    if given is not None and wanted:
        return abs(given - wanted) / abs(wanted) <= 0.05
    return answer.lower() == reference.lower()


def vqa_process(text: str) -> str:
    r"""Processes a text as the official VQA evaluation does before comparing.

    Lowercases, removes articles and punctuation (except apostrophes, colons and points before a digit), turns number
    words into digits, and restores missing apostrophes in known contractions.

    Example:
        >>> vqa_process("The U.S. doesnt have two-door cars!")
        "us doesn't have 2 door cars"
    """
    bare = text
    for mark in _PUNCTUATION:
        goes = mark + " " in text or " " + mark in text or _COMMA_IN_NUMBER.search(text) is not None
        bare = bare.replace(mark, "" if goes else " ")
    words = (_NUMBERS.get(word, word) for word in _PERIOD.sub("", bare).lower().split())
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def _contractions() -> dict[str, str]:
    """Returns the correct form of each contraction that lacks an apostrophe."""
    forms = [f"{word}n't" for word in _NEGATED.split()] + _WHOLE.split()
    forms += [f"{word}'{ending}" for ending, words in _ENDINGS.items() for word in words.split()]
    forms = [form.replace("'n't", "n't") for form in forms]
    return {form[:i] + form[i + 1 :]: form for form in forms for i, mark in enumerate(form) if mark == "'"}


_CONTRACTIONS = _contractions()


def _flat(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").strip()


def _number(text: str) -> float | None:
    try:
        return float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        return None
