"""The words of sections and the names of their entities, against BM25 worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from indexes.store import postings, section_nearest
from indexes.store.columns import SPREAD
from indexes.store.postings import InvertedLists, write_postings
from indexes.store.section_nearest import SectionVectors
from indexes.store.section_words import LAYOUT, QuestionWords, documents_of, name_terms
from retriever.lexical import rarity, stem, tokenize
from retriever.types import Entity, Section

TOWER = Entity("tower", "Eiffel Tower", (Section("Height", "It is 330 m tall.", 0), Section("", "Built in 1889.", 1)))
PERSON = Entity("person", "Gustave Eiffel", (Section("Life", "An engineer.", 0),), names=("Eiffel",))
DOME = Entity("dome", "Kölner Dom (Köln)", (Section("", "Er ist 157 m hoch. Man baute ihn 1248.", 0),))
EMPTY = Entity("empty", "Nothing", ())


@pytest.fixture
def lists(tmp_path: Path) -> InvertedLists:
    entities = enumerate((TOWER, EMPTY, PERSON, DOME))
    write_postings(tmp_path, (one for row, entity in entities for one in documents_of(row, entity)), LAYOUT)
    return InvertedLists.open(tmp_path, LAYOUT)


def test_bm25_as_a_share_of_what_the_question_could_reach(lists: InvertedLists) -> None:
    """ "Gustave" is in the name of one section of four, three times; "engineer" once, in the same section."""
    scores, _ = QuestionWords("gustave engineer sculptor", [lists]).scores(lists)
    weight = {word: math.log1p(3.5 / 1.5) * rarity(word) ** 0.7 for word in tokenize("gustave engineer")}
    absent = math.log1p(4.5 / 0.5) * rarity(stem("sculptor")) ** 0.7
    lengths = lists.documents["length"]
    norm = 1.2 * (0.25 + 0.75 * lengths[2] / lengths.mean())
    first, second = weight.values()
    reached = first * 3 * 2.2 / (3 + norm) + second * 2.2 / (1 + norm)
    assert lists.documents["row"].tolist() == [0, 0, 2, 3]
    assert scores[[0, 1, 3]].tolist() == [0, 0, 0]
    assert scores[2] == pytest.approx(reached / (2.2 * (first + second + absent)), rel=1e-4)


def test_the_longest_name_in_a_question_counts(lists: InvertedLists) -> None:
    _, shares = QuestionWords("How tall is the Eiffel Tower?", [lists]).scores(lists)
    named = (rarity("eiffel") + rarity("tower")) / (rarity("eiffel") + rarity("tower") + rarity("tall"))
    assert shares.tolist() == pytest.approx([named, named, 0, 0])
    _, shares = QuestionWords("Who was Eiffel?", [lists]).scores(lists)
    assert shares.tolist() == [0, 0, 1, 0]  # the person by the other name, not the tower by a part of its own
    both = QuestionWords("Is Gustave Eiffel the builder of the Eiffel Tower?", [lists])
    assert (both.scores(lists)[1] > 0).tolist() == [True, True, True, False]


def test_names_without_accents_brackets_and_articles(lists: InvertedLists) -> None:
    for question in ("koelner dom", "kolner Dom", "KÖLNER DOM", "der Kölner Dom"):
        shares = QuestionWords(question, [lists]).scores(lists)[1]
        assert (shares[3] > 0) == (question != "koelner dom")
    assert [term.strip() for term in name_terms("The Wall, Berlin")] == ["the wall berlin", "the wall", "wall"]
    assert list(name_terms("Who")) == list(name_terms("…")) == []


def test_another_language(lists: InvertedLists) -> None:
    """Words that no section has count for nothing: an English index has no "wie"; forms of a word match."""
    scores, _ = QuestionWords("Wann wurde am Kölner Dom gebaut, wie hoch?", [lists]).scores(lists)
    assert scores.argmax() == 3 and scores[3] > 0.5
    english, _ = QuestionWords("How high is the Kölner Dom of the Visigoths?", [lists]).scores(lists)
    assert english[3] < scores[3]


def test_others_are_searched_with_the_weights_that_were_learned(lists: InvertedLists) -> None:
    new = Entity("bridge", "Tower Bridge", (Section("", "It spans 244 m.", 0),))
    others = lists.of_others(documents_of(7, new))
    words = QuestionWords("How far does the Tower Bridge span?", [lists, others])
    scores, shares = words.scores(others)
    assert scores.shape == (1,) and scores[0] > words.scores(lists)[0].max() and shares[0] > 0.4
    assert others.mean_length != lists.mean_length == others.learned.mean_length


def test_frequent_words_are_left_out_beyond_a_maximum(lists: InvertedLists, monkeypatch: pytest.MonkeyPatch) -> None:
    before = QuestionWords("Eiffel engineer", [lists]).scores(lists)[0]
    monkeypatch.setattr(postings, "MOST", 1)
    after = QuestionWords("Eiffel engineer", [lists]).scores(lists)[0]
    assert before[0] > 0 and after[0] == 0 < after[2]


def test_the_nearest_vectors_are_the_exact_ones() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-100, 100, (3000, 20), dtype=np.int8)
    keys = np.sort(rng.integers(0, 900, 3000)) * 3 // 2  # sections of several windows, all of one row
    question = rng.standard_normal(20).astype(np.float32)
    question /= np.linalg.norm(question)
    vectors = SectionVectors(values, keys)
    cosines = values @ question / np.linalg.norm(values.astype(np.float32), axis=1)
    best = {int(key): float(cosines[keys == key].max()) for key in keys}
    found = vectors.nearest(question, 5)
    assert [position for _, position in found] == sorted(best, key=lambda key: -best[key])[: len(found)]
    assert vectors.cosines(question, [(0, int(keys[0])), (0, 5000)]) == {
        (0, int(keys[0])): pytest.approx(best[int(keys[0])], abs=1e-5)
    }
    assert vectors.nearest(question, 5, left_out=[0]) == {}
    assert vectors.nearest(question, 5, among=np.array([False])) == {}
    assert vectors.nearest(question, 5, among=np.array([True])) == found
    assert SectionVectors(values[:0], keys[:0]).nearest(question, 5) == {}


@pytest.mark.parametrize("scanned", [0, 30_000])
def test_the_nearest_vectors_of_some_entities(monkeypatch: pytest.MonkeyPatch, scanned: int) -> None:
    monkeypatch.setattr(section_nearest, "SCANNED", scanned)
    rng = np.random.default_rng(1)
    values, rows = rng.integers(-100, 100, (5000, 20), dtype=np.int8), np.sort(rng.integers(0, 500, 5000))
    question = rng.standard_normal(20).astype(np.float32)
    among = rng.random(500) < 0.05
    vectors = SectionVectors(values, rows * SPREAD)
    cosines = np.where(among[rows], values @ question / np.linalg.norm(values.astype(np.float32), axis=1), -2)
    best = np.argsort(-cosines)[:10]
    assert list(vectors.nearest(question, 10, among=among)) == list(dict.fromkeys((int(rows[at]), 0) for at in best))
