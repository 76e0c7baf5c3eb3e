"""BM25 against a score worked out by hand, and the word level under it."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from retriever.deixis import without_deixis
from retriever.lexical import SYNONYMS_FILE, Lexicon, load_synonyms, stem, tokenize
from retriever.models.bm25 import BM25


def test_score_by_hand() -> None:
    passages = ["red red lamp", "blue lamp", "green stone cave wall"]
    scores = BM25(k1=1.2, b=0.75, label_weight=0).score(["red lamp"], [passages])[0]
    # 3 passages of 3, 2 and 4 words, mean 3; "red" in 1 of them, "lamp" in 2
    red, lamp = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
    first, second = 1.2 * (0.25 + 0.75 * 3 / 3), 1.2 * (0.25 + 0.75 * 2 / 3)
    top = (red + lamp) * 2.2
    expected = [(red * 2.2 * 2 / (2 + first) + lamp * 2.2 * 1 / (1 + first)) / top, lamp * 2.2 / (1 + second) / top, 0]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert scores.dtype == np.float32


def test_a_synonym_counts_less_than_the_word_itself() -> None:
    synonyms = {"money": ("currency",)}
    passages = ["the currency here", "the money here"]
    scores = BM25(synonyms=synonyms, synonym_weight=0.5).score(["Which money?"], [passages])[0]
    assert scores[1] == pytest.approx(2 * scores[0])


def test_a_label_counts_more_than_a_mention() -> None:
    passages = ["Energy: imports of the population: 3", "Population: total: 12 men and women counted"]
    plain, labeled = (BM25(label_weight=weight).score(["population"], [passages])[0] for weight in (0, 4))
    assert plain[0] > plain[1]
    assert labeled[1] > labeled[0]


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


@pytest.mark.parametrize("kwargs", [{"k1": -1}, {"b": 2}, {"synonym_weight": 2}, {"label_weight": -1}])
def test_settings_out_of_range(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        BM25(**kwargs)


def test_uneven_lists() -> None:
    with pytest.raises(ValueError, match="one list per question, 2, got"):
        BM25().score(["a", "b"], [["x"]])


@pytest.mark.parametrize(
    "family",
    ["government governed governs", "cities city", "manufacturer manufactured manufacturing manufacture", "run running",
     "naturalization naturalized", "population populated populous", "height heights", "glasses glass"],
)  # fmt: skip
def test_stems_of_one_family(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


def test_stems_that_stay_apart() -> None:
    assert stem("nation") != stem("native") and stem("capital") != stem("capita") and stem("station") != stem("state")
    assert tokenize("The Fläche is 2,381,740 sq km") == ("flach", "2,381,740", "sq", "km")


def test_concepts_take_the_longest_phrase() -> None:
    lexicon = Lexicon({"people live": ("population",), "people?": ("folk",)})
    concepts = lexicon.concepts("How many people live there")
    assert [concept.phrases for concept in concepts] == [(("peopl", "live"), ("popul",))]
    assert lexicon.concepts("the people")[0].phrases == (("folk",),)


def test_the_shipped_table(tmp_path) -> None:  # type: ignore[no-untyped-def]
    table = load_synonyms(SYNONYMS_FILE)
    assert "electricity" in table["power"] and "power" in table["electricity"]
    assert "length" in table["how long?"]
    bad = tmp_path / "bad.toml"
    bad.write_text("groups = 3")
    with pytest.raises(ValueError, match=r"bad\.toml"):
        load_synonyms(bad)


def test_thirty_sections_take_milliseconds() -> None:
    passages = [f"section {i} " + "words of some length about rivers and towns " * 22 for i in range(30)]
    reranker = BM25(synonyms=load_synonyms())
    times = []
    for _ in range(7):
        start = time.perf_counter()
        reranker.score(["How many people live in the towns on the rivers of this country?"], [passages])
        times.append(time.perf_counter() - start)
    assert min(times) < 0.003
