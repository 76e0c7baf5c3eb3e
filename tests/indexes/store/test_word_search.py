"""The search by words, with values worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from indexes.store import postings, word_search
from indexes.store.grams import grams
from indexes.store.word_search import WordSearch, write_words


def search(folder: Path, *documents: tuple[int, str]) -> WordSearch:
    folder.mkdir(exist_ok=True)
    write_words(folder, documents)
    return WordSearch.open(folder)


def test_the_grams_of_a_word_are_within_it_and_its_spaces() -> None:
    # " ab", "ab ", " ab " and " c "
    assert len(grams("ab")[0]) == 3 and len(grams("ab c")[0]) == 4
    assert set(grams("ab")[0]) < set(grams("c ab!")[0])
    assert grams("abab")[1].tolist() == [1] * 7  # " ab", "aba", "bab", "ab ", " aba", "abab", "bab "
    assert sorted(grams("aaaa")[1].tolist()) == [1, 1, 1, 1, 1, 2]  # "aaa" twice, " aa", "aa ", " aaa", "aaa ", "aaaa"
    assert grams("")[0].size == grams("?! ...")[0].size == 0


@pytest.mark.parametrize(
    ("one", "other"), [("LÄTT", "latt"), ("Café", "CAFE"), ("Straße", "STRASSE"), ("ﬁn", "fin"), ("a-b", "a b")]
)
def test_case_accents_and_punctuation_do_not_count(one: str, other: str) -> None:
    assert grams(one)[0].tolist() == grams(other)[0].tolist()


def test_a_similarity_is_the_cosine_of_tf_idf(tmp_path: Path) -> None:
    found = search(tmp_path, (0, "ab"), (0, "cd"), (2, "ab ef"))
    # Three documents: the three grams of "ab" are in two, those of "cd" and "ef" in one.
    often, rare = math.log(4 / 3) + 1, math.log(4 / 2) + 1
    both = 3 * often**2 / (math.sqrt(3 * often**2) * math.sqrt(3 * often**2 + 3 * rare**2))
    assert found.similar("ab", 5) == pytest.approx({0: 1.0, 2: both})
    assert found.similar("ef", 5, [0, 2, 7]) == pytest.approx(
        {2: 3 * rare**2 / (math.sqrt(3) * rare * math.sqrt(3 * often**2 + 3 * rare**2)), 0: 0.0, 7: 0.0}
    )
    unknown = math.log(4) + 1  # in no document
    mixed = 3 * rare**2 / (math.sqrt(3) * rare * math.sqrt(3 * rare**2 + 3 * unknown**2))
    assert found.similar("cd xy", 1) == pytest.approx({0: mixed})


def test_words_count_as_often_as_they_occur(tmp_path: Path) -> None:
    found = search(tmp_path, (0, "ab ab cd"))
    one = math.log(2 / 2) + 1
    assert found.similar("ab", 1)[0] == pytest.approx(2 * 3 * one / (math.sqrt(3) * math.sqrt(3 * 4 + 3)))


def test_of_many_postings_those_of_the_rarest_grams_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(tmp_path, (0, "ab"), (1, "ab"), (2, "ab cd"), (3, "ab"))
    assert found.similar("ab cd", 1) == pytest.approx({2: 1.0})
    often, rare = 1.0, math.log(5 / 2) + 1
    monkeypatch.setattr(postings, "MOST", 3)  # the three grams of "cd" have one each, those of "ab" four
    expected = {2: 3 * rare**2 / (3 * rare**2 + 3 * often**2), 0: 0.0}
    assert found.similar("ab cd", 5, [0]) == pytest.approx(expected)
    assert found.similar("ab", 1) != {}  # at least one gram is searched


def test_misread_and_joined_words_are_still_similar(tmp_path: Path) -> None:
    found = search(tmp_path, (0, "MILD LÄTTYOGHURT NATURELL"), (1, "STANDARD MJÖLK"), (2, "GRÄDDFIL"))
    for read in ("MILDLATTYOGHURT", "M1LD LATTY0GHURT NATUREL", "lätt yoghurt"):
        best = found.similar(read, 3)
        assert next(iter(best)) == 0 and best[0] > 0.25, read
    assert found.similar("", 3) == {} and found.similar("qqq", 3, [1]) == {1: 0.0}


def test_the_best_come_first_and_equal_ones_in_order(tmp_path: Path) -> None:
    found = search(tmp_path, *((row, f"tea {'green ' * (row % 3)}") for row in range(9)))
    assert [*found.similar("tea", 4)] == [0, 3, 6, 1]
    assert [*found.similar("tea", 1, [8, 0])] == [0, 8]


def test_other_documents_are_searched_with_the_weights_that_were_learned(tmp_path: Path) -> None:
    found = search(tmp_path / "all", (0, "ab"), (1, "ab cd"), (2, "ef"))
    changes = found.with_weights([(7, "ab cd"), (9, "new words")])
    assert changes.similar("ab", 2)[7] == pytest.approx(found.similar("ab", 2)[1])
    # 9 grams of "words" and 5 of "new", all of them new
    assert changes.similar("words", 2) == {9: pytest.approx(9 / (math.sqrt(9) * math.sqrt(14)))}
    assert found.with_weights([]).similar("ab", 2) == {}


def test_what_does_not_fit_into_memory_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    words = ["".join(generator.choice(list("abcdefghij"), 5)) for _ in range(300)]
    documents = [(row, " ".join(generator.choice(words, 6))) for row in range(400)]
    whole = search(tmp_path / "whole", *documents)
    monkeypatch.setattr(postings, "_HELD", 500)
    search(tmp_path / "parts", *documents)
    for name in word_search.FILES:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == sorted(word_search.FILES)
    assert next(iter(whole.similar(documents[123][1], 3))) == 123
