"""Evidence against an answer: words of the question that its sentence lacks, negates or reverses, and drift."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from generators.reader.question import AnalyzedQuestion, is_negation
from generators.reader.tokens import Tokens, word_set
from retriever.types import FloatArray

_ENOUGH = 5
"""Number of leading letters that two forms of a word share."""
_DENIES = word_set(
    "not never no none nor neither without cannot nobody nothing non unable except rarely few little hardly only",
    "fail failed fails failing refuse refused lack lacks lacked prevent prevented",
)
_OPPOSITES: dict[str, set[str]] = {}
for _pair in (
    "before after|first last|north south|east west|northern southern|eastern western|northeast southwest",
    "northwest southeast|increase decrease|increased decreased|increasing decreasing|rise fall|rose fell|gain lose",
    "gained lost|high low|higher lower|highest lowest|large small|larger smaller|largest smallest|more less|most least",
    "more fewer|majority minority|maximum minimum|many few|above below|raised lowered|long short|longest shortest",
    "tallest shortest|fast slow|fastest slowest|old new|older newer|oldest newest|oldest youngest|early late",
    "earlier later|earliest latest|begin end|began ended|start end|started ended|open close|opened closed|birth death",
    "born died|win lose|won lost|attack defend|attacked defended|friend enemy|ally enemy|support oppose",
    "supported opposed|accept reject|accepted rejected|agree disagree|agreed disagreed|allow prevent|allowed prevented",
    "cause prevent|caused prevented|join leave|joined left|buy sell|bought sold|import export|imports exports",
    "add remove|added removed|create destroy|created destroyed|success failure|successful unsuccessful|legal illegal",
    "positive negative|strong weak|stronger weaker|best worst|easy difficult|rare common|always never|often rarely",
    "same different|all none|male female|men women|man woman|inside outside|internal external|public private",
    "major minor|rich poor|domestic foreign|hot cold|light dark|left right|liberal conservative|love hate|like dislike",
):
    for _words in _pair.split("|"):
        _one, _other = _words.split()
        _OPPOSITES.setdefault(_one, set()).add(_other)
        _OPPOSITES.setdefault(_other, set()).add(_one)


def doubts(tokens: Tokens, question: AnalyzedQuestion, title: Set[str]) -> FloatArray:
    """Returns the doubts about an answer in each sentence, float32 [sentences, 26].

    Fifteen columns describe the evidence: whether the question is negated; whether an opposite of one of its words
    occurs; weight and number of its missing words; number of its words in the title; missing names and figures; total
    and maximum weight of the words that occur; whether the question drifts, and if so, whether all of its words are
    missing, the share, number and weight of those that are, and names among them. Eleven describe the sentence: whether
    it has no negation though the question has one; an opposite; share, number and maximum weight of the missing words;
    share of those that occur elsewhere; names and figures that occur elsewhere; total and maximum weight of the words
    that occur; whether the question drifts and all words are missing.

    A question drifts if it neither refers to the image nor has a word of the title: "Who wrote Hamlet?" asked about
    Japan. Its missing words say more than those of "What kind of cash do I need here?". Words of the title do not count
    as missing, since a section rarely repeats what its article is about.

    Args:
        tokens: The evidence.
        question: The question.
        title: Stems of the entity's title.
    """
    count = int(tokens.sentence.max(initial=0)) + 1
    lower, stems = [set[str]() for _ in range(count)], [set[str]() for _ in range(count)]
    for low, stem, sentence in zip(tokens.lower, tokens.stems, tokens.sentence.tolist(), strict=True):
        lower[sentence].add(low)
        stems[sentence].add(stem)
    total = sum(question.words.values()) or 1.0
    expected = {word: weight for word, weight in question.words.items() if word not in title}
    figures, names = question.figures - title, question.exact - question.figures - title
    all_lower, all_stems = set[str]().union(*lower), set[str]().union(*stems)
    nowhere = _missing(expected, all_stems)
    drifts = not question.pointing and len(expected) == len(question.words)
    missed = [len(nowhere) == len(expected), sum(nowhere.values()) / total, len(nowhere) / 5]
    missed += [sum(nowhere.values()) / 8, min(len(names - all_stems), 2)]
    anywhere = [
        question.negated,
        _turned(question.lower, all_lower),
        sum(nowhere.values()) / total,
        len(nowhere) / 5,
        (len(question.words) - len(expected)) / 3,
        min(len(names - all_stems), 2),
        min(len(figures - all_stems), 2),
        *_present(expected, nowhere),
        drifts,
        *(drifts * each for each in missed),
    ]
    rows = []
    for forms, here in zip(lower, stems, strict=True):
        missing = _missing(expected, here)
        rows.append([
            *anywhere,
            question.negated and forms.isdisjoint(_DENIES) and not any(is_negation(low) for low in forms),
            _turned(question.lower, forms),
            sum(missing.values()) / total,
            len(missing) / 5,
            max(missing.values(), default=0.0) / 8,
            sum(weight for word, weight in missing.items() if word in all_stems) / total,
            min(len(names & all_stems - here), 2),
            min(len(figures & all_stems - here), 2),
            *_present(expected, missing),
            drifts and len(missing) == len(expected),
        ])  # fmt: skip
    return np.array(rows, np.float32)


def _present(expected: Mapping[str, float], missing: Mapping[str, float]) -> tuple[float, float]:
    """Returns the sum and the maximum of the weights of the words that are not missing, both divided by 8."""
    weights = [weight for word, weight in expected.items() if word not in missing]
    return sum(weights) / 8, max(weights, default=0.0) / 8


def _turned(asked: Set[str], lower: Set[str]) -> bool:
    """Returns whether a text lacks a word of the question and has its opposite."""
    return any(low not in lower and not lower.isdisjoint(_OPPOSITES[low]) for low in asked & _OPPOSITES.keys())


def _missing(words: Mapping[str, float], stems: Set[str]) -> dict[str, float]:
    """Returns the words, with their weights, that match no stem of a text, not even by their first letters."""
    beginnings = {stem[:_ENOUGH] for stem in stems if len(stem) >= _ENOUGH}
    return {word: weight for word, weight in words.items() if word not in stems and word[:_ENOUGH] not in beginnings}
