"""Analyzes a question: what it asks for, and the words that should be near its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from generators.reader.tokens import tokenize_text, word_set
from retriever.deixis import without_deixis
from retriever.lexical import STOP_WORDS, implied, is_english

_BE = word_set("is are was were be been 's")
_DO = word_set("do does did has have had can could will would should may might must")
_OPEN = word_set("of in on at for to from with by that which who did do does is are was were has have had can")
"""Words that end the noun phrase that the question asks for."""
_PRONOUNS = word_set("it its he she his her him here they their them")
_NEGATIONS = word_set("not never cannot neither nor")
_MEASURED = word_set("tall high big large far wide deep heavy fast thick broad hot cold strong")


@dataclass(frozen=True, slots=True)
class AnalyzedQuestion:
    """What a question asks for.

    Attributes:
        kind: The question words, such as "who", "how many", "what is", "which" (before a noun), "yes/no".
        focus: The class of the noun that the question asks for ("year" in "in which year"), or "".
        focus_stem: The stem of the focus.
        words: Stems of the content words in order, including the focus, with their weights.
        exact: The subset of `words` that are names or figures.
        figures: The subset of `words` that are figures or number words.
        lower: All words in lower case.
        pointing: Whether the question refers to the image: "this bridge", or "it" without a name as antecedent.
        negated: Whether a word negates the question, as in "Who did not sign?".
        keys: The stems of the first and the last content word after the focus.
        key_classes: The classes of `keys`.
    """

    kind: str
    focus: str
    focus_stem: str
    words: Mapping[str, float]
    exact: frozenset[str]
    figures: frozenset[str]
    lower: frozenset[str]
    pointing: bool
    negated: bool
    keys: tuple[str, str]
    key_classes: tuple[str, str]


def limitation(question: str) -> str | None:
    """Returns why the reader does not try to answer a question, as the end of a sentence, or `None` if it does."""
    if not is_english(question):  # of its answers to German questions, one in sixteen was right
        return "the extractive reader reads questions in English only"
    if _kind(tokenize_text(question).lower)[0] == "yes/no":
        return "the extractive reader does not answer yes-or-no questions"
    return None


def analyze(question: str, rarity: Mapping[str, float], known: frozenset[str] = frozenset()) -> AnalyzedQuestion:
    """Analyzes a question.

    Args:
        question: The question.
        rarity: Stem -> inverse document frequency; missing words have that of "".
        known: Stems of the evidence; those that the question implies are added to its words.
    """
    core = without_deixis(question)
    tokens = tokenize_text(core)
    lower = tokens.lower
    kind, start = _kind(lower)
    focus = _focus(lower, start, kind)
    words = {
        word: rarity.get(word, rarity.get("", 1.0))
        for word, low in zip(tokens.stems, lower, strict=True)
        if word and word not in STOP_WORDS and low not in _BE and low not in _DO
    }
    content = [i for i, word in enumerate(tokens.stems) if word in words]
    after = [i for i in content if i >= start and i > focus]
    keys = (after[0], after[-1]) if after else (-1, -1)
    words |= {word: rarity.get(word, rarity.get("", 1.0)) for word in implied(question) if word in known}
    return AnalyzedQuestion(
        kind,
        tokens.classes[focus] if focus >= 0 else "",
        tokens.stems[focus] if focus >= 0 else "",
        words,
        frozenset(tokens.stems[i] for i in range(1, len(lower)) if tokens.capital[i] or tokens.number[i])
        & words.keys(),
        frozenset(tokens.stems[i] for i in range(1, len(lower)) if tokens.number[i]) & words.keys(),
        frozenset(lower),
        core.split() != question.split() or (not _PRONOUNS.isdisjoint(lower) and "<Name>" not in tokens.classes[1:]),
        any(is_negation(low) for low in lower),
        (tokens.stems[keys[0]], tokens.stems[keys[1]]) if after else ("", ""),
        (tokens.classes[keys[0]], tokens.classes[keys[1]]) if after else ("", ""),
    )


def is_negation(low: str) -> bool:
    """Returns whether a lowercase word is a negation: "not", "never", "didn't"."""
    return low in _NEGATIONS or low.endswith(("n't", "n\u2019t"))


def _kind(lower: tuple[str, ...]) -> tuple[str, int]:
    """Returns the question words and the position after them."""
    for i, word in enumerate(lower):
        after = lower[i + 1] if i + 1 < len(lower) else ""
        if word in ("who", "whom", "when", "where", "why", "whose"):
            return ("who" if word == "whom" else word), i + 1
        if word == "how":
            return (f"how {after}" if after in ("many", "much", "long", "old", "often") else
                    "how high" if after in _MEASURED else "how"), i + 2  # fmt: skip
        if word in ("what", "which"):
            if after in _BE:
                return "what is", i + 2
            return ("what did" if after in _DO else "which"), i + 1
        if i == 0 and (word in _BE or word in _DO):
            return "yes/no", 1
    return "other", 0


def _focus(lower: tuple[str, ...], start: int, kind: str) -> int:
    """Returns the position of the noun that the question asks for ("city" in "what is the largest city in"), or -1."""
    if kind not in ("which", "what is", "other", "how many"):
        return -1
    if kind == "what is" and lower[start : start + 1] and lower[start] not in ("the", "a", "an"):
        return -1
    last = -1
    for i in range(start, min(start + 6, len(lower))):
        if not lower[i][0].isalnum() or lower[i] in _OPEN:
            break
        last = i
        if kind in ("which", "how many") and i > start:
            # "which city hosted": the second word may be a verb, so the first one is taken unless it is an adjective
            last = i if lower[start].endswith(("al", "ic", "an", "ish", "ous", "ese")) else start
            break
    return last
