"""BM25 against scores worked out by hand, and its tokenization into words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from retriever.deixis import without_deixis
from retriever.lexical import rarity, sentences, stem, tokenize
from retriever.models.bm25 import BM25


def test_score_by_hand() -> None:
    passages = ["red red lamp", "blue lamp", "green stone cave wall"]
    plain = BM25(k1=1.2, b=0.75, pair_weight=0, rarity_power=0, sentence_weight=0)
    scores = plain.score(["red lamp"], [passages])[0]
    # 3 passages of 3, 2 and 4 words, mean 3; "red" in 1 of them, "lamp" in 2
    red, lamp = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
    first, second = 1.2 * (0.25 + 0.75 * 3 / 3), 1.2 * (0.25 + 0.75 * 2 / 3)
    top = (red + lamp) * 2.2
    expected = [(red * 2.2 * 2 / (2 + first) + lamp * 2.2 * 1 / (1 + first)) / top, lamp * 2.2 / (1 + second) / top, 0]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert scores.dtype == np.float32


def test_adjacent_words_count_more_together_in_either_order() -> None:
    passages = ["the tower of the bell", "a bell was rung in this old tower"]
    apart, together = (
        BM25(pair_weight=weight, rarity_power=0, sentence_weight=0).score(["bell tower"], [passages])[0]
        for weight in (0, 1)
    )
    # Both passages have both words; in the first, shorter one they are adjacent once stop words are removed.
    assert apart[0] > apart[1]
    assert together[0] - together[1] > apart[0] - apart[1]
    # 2 passages of 2 and 4 words ("rung" and "old" count), mean 3; only the first one has the pair
    rare, common = math.log(1 + 1.5 / 1.5), math.log(1 + 0.5 / 2.5)
    saturated = 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3))
    expected = (2 * common + rare) * 2.2 * saturated / ((2 * common + rare) * 2.2)
    assert together[0] == pytest.approx(expected, rel=1e-5)


def test_words_that_are_rare_in_prose_count_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.models.bm25.rarity", {"bell": 4.0, "begin": 1.0}.__getitem__)
    passages = ["the bell", "it began"]  # both words are in one of two passages of one word each
    reranker = BM25(pair_weight=0.4, rarity_power=0.5, sentence_weight=0)
    scores = reranker.score(["When did the bell begin?"], [passages])[0]
    saturated = 1 / (1 + 1.2)  # times a word's maximum of 2.2; the pair occurs in no passage
    np.testing.assert_allclose(scores, [2 * saturated / 3, 1 * saturated / 3], rtol=1e-5)
    together = reranker.score(["When did the bell begin?"], [["the bell began", "it"]])[0]
    pair = 0.4 * math.sqrt((4 + 1) / 2)
    np.testing.assert_allclose(together, [1 / (1 + 1.2 * (0.25 + 0.75 * 2)), 0], rtol=1e-5)
    mixed = reranker.score(["When did the bell begin?"], [["the bell began", "it began"]])[0]
    # 2 passages of 2 and 1 words, mean 1.5; "begin" is in both, so it is worth less
    rare, common = math.log(1 + 1.5 / 1.5), math.log(1 + 0.5 / 2.5)
    first, second = (1.2 * (0.25 + 0.75 * length / 1.5) for length in (2, 1))
    expected = [(2 * rare + common + pair * rare) / (1 + first), common / (1 + second)]
    np.testing.assert_allclose(mixed, np.array(expected) / (2 * rare + common + pair * rare), rtol=1e-5)


def test_words_that_stand_in_one_sentence_count_more() -> None:
    passages = ["A red door. A lamp there.", "A red lamp. A door there."]
    apart, together = (
        BM25(pair_weight=0, rarity_power=0, sentence_weight=weight).score(["red lamp"], [passages])[0]
        for weight in (0, 1)
    )
    assert apart[0] == apart[1]
    # Words of equal weight w: a passage of mean length reaches 2 w of 2 * 2.2 w, and its best sentence w or 2 w of 2 w.
    np.testing.assert_allclose(together, [(2 + 1) / (4.4 + 2), (2 + 2) / (4.4 + 2)], rtol=1e-5)


def test_the_label_of_a_value_says_more_than_its_words() -> None:
    lists = ["Population: total: 4 million\nArea: 5 ha", "Population distribution: the population lives in the north"]
    question = "What is the population?"
    plain, labeled = (BM25(label_weight=weight).score([question], [lists])[0] for weight in (0, 1))
    assert plain[1] > plain[0]
    assert labeled[0] == pytest.approx(1)  # "population" is all of one label, and all of the question
    population, distribution = (rarity(stem(word)) ** 0.7 for word in ("population", "distribution"))
    share = population / (population + distribution)
    np.testing.assert_allclose(labeled[1], plain[1] + (1 - plain[1]) * share, rtol=1e-5)


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("How heavy is it?", "- net_weight = 3 kg"),  # implied
        ("What is the highest point?", "Elevation: highest point: Mount Gimie 948 m"),  # the second of two labels
        ("What is the highest elevation?", "Elevation: highest: 948 m"),  # both together
        ("Which glass should I use?", "Glass | coupe"),
        ("In which year was it built?", "Built - 1931"),
    ],
)
def test_labels_in_many_styles(question: str, line: str) -> None:
    passages = [line, f"A note on it, {line.translate(str.maketrans(':=|', '   ')).replace(' - ', ' ')}"]
    plain, labeled = (BM25(label_weight=weight).score([question], [passages])[0] for weight in (0, 1))
    assert labeled[0] > plain[0] and labeled[1] == plain[1]


def test_long_phrases_and_clock_times_are_no_labels() -> None:
    passages = ["It is open from 9:30 to 17:00 daily", "He wrote about the many old mills of the town: three stand"]
    for question in ("When is it open?", "How many mills of the town stand?"):
        plain, labeled = (BM25(label_weight=weight).score([question], [passages])[0] for weight in (0, 1))
        np.testing.assert_array_equal(plain, labeled)


def test_a_title_that_all_passages_share_does_not_count() -> None:
    texts = ["The tower burned down.", "A bell was cast.", "Its roof is of stone."]
    titled = [f"# Tower\n{text}" for text in texts]
    for question in ("When did the tower burn?", "Who cast the bell of the tower?"):
        plain, shared = (BM25().score([question], [given])[0] for given in (texts, titled))
        np.testing.assert_array_equal(plain, shared)
    [alone] = BM25().score(["Which tower?"], [titled[1:2]])
    assert alone[0] > 0


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("How tall is this tower?", "Its height is 300 m"),
        ("How heavy is it?", "Weight: 3 kg"),
        ("How old does it get?", "an age of 30"),
        ("Which company makes this product?", "Manufacturer: Bravo"),
        ("How many people live here?", "a population of 3,000"),
    ],
)
def test_question_words_imply_others(question: str, passage: str) -> None:
    [scores] = BM25().score([question], [["Something else", passage]])
    assert scores[0] == 0 and scores[1] > 0


def test_lists_of_any_length() -> None:
    scores = BM25().score(["lamp", "lamp", "lamp"], [[], ["a lamp"], ["cave", "wall"]])
    assert [len(s) for s in scores] == [0, 1, 2]
    assert 0 < scores[1][0] <= 1
    assert scores[2].tolist() == [0, 0]
    assert BM25().score([], []) == []


def test_words_that_point_at_the_image_do_not_count() -> None:
    question = "What is the capital of the country with this flag?"
    passages = ["The country has this flag, a flag", "The capital is Rabat"]
    scores = BM25().score([question], [passages])[0]
    assert scores[0] == 0 and scores[1] > 0
    assert without_deixis("this country's anthem").split() == ["anthem"]


@pytest.mark.parametrize(
    "kwargs",
    [{"k1": -1}, {"b": 2}, {"pair_weight": -1}, {"rarity_power": -1}, {"sentence_weight": -1},
     {"label_weight": 2}],
)  # fmt: skip
def test_settings_out_of_range(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        BM25(**kwargs)


def test_uneven_lists() -> None:
    with pytest.raises(ValueError, match="one list per question, 2, got"):
        BM25().score(["a", "b"], [["x"]])


@pytest.mark.parametrize(
    "family",
    ["government governed governs", "cities city", "manufacturer manufactured manufacturing manufacture", "run running",
     "naturalization naturalized", "population populated populous", "height heights", "glasses glass",
     "write wrote written", "km kilometres kilometer"],
)  # fmt: skip
def test_stems_of_one_family(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


def test_stems_that_stay_apart() -> None:
    assert stem("nation") != stem("native") and stem("capital") != stem("capita") and stem("station") != stem("state")
    assert tokenize("The Fläche is 2,381,740 sq km") == ["flach", "2,381,740", "sq", "km"]


def test_sentences() -> None:
    text = 'It opened in 1931 (see fig. below). "Who built it?" Ada\u2019s did!\nA line\n\nanother'
    assert sentences(text) == [
        "It opened in 1931 (see fig. below)",
        '"Who built it?" Ada\u2019s did!',
        "A line",
        "another",
    ]
    assert sentences("") == []
    assert sentences("At 3.\n\nOn page 4.\n then") == ["At 3.", "On page 4.", " then"]


def test_rarity_in_prose() -> None:
    year, name = (rarity(tokenize(word)[0]) for word in ("year", "Brobdingnag"))
    assert 0 < year < rarity("tower") < name == rarity("another-unknown")
