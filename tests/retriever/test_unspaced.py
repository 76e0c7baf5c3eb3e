"""Scripts without spaces: what counts as a word, and which terms find a passage."""

from __future__ import annotations

import numpy as np

from retriever.lexical import sentences, tokenize
from retriever.models.bm25 import BM25
from retriever.unspaced import count_words, has_unspaced, terms


def test_pairs_of_characters_are_terms() -> None:
    assert list(terms("浸泡八小时")) == ["浸泡", "泡八", "八小", "小时"]
    assert list(terms("水")) == ["水"]
    assert list(terms("wasser")) == ["wasser"]
    assert list(terms("vitamin水果")) == ["vitamin", "水果"]


def test_figures_between_characters_are_words() -> None:
    assert tokenize("下入250g花生米。") == ["下入", "250", "g", "花生", "生米"]
    assert tokenize("ガラス") == ["カラ", "ラス"]  # accents are stripped from kana too, on both sides


def test_words_are_counted() -> None:
    assert count_words("") == 0
    assert count_words("Боль шой  театр") == 3
    assert count_words("樹齢1000年、高さ 12 m") == 9  # 樹 齢 1000 年 、 高 さ 12 m
    assert count_words("แม่น้ำ 12 m") == 4  # two of at most four characters each, then two


def test_three_letters_of_an_alphabet_without_spaces_are_a_term() -> None:
    assert list(terms("ช้าง")) == ["ช้า", "้าง"]
    assert list(terms("5มีนา")) == ["5", "มีน", "ีนา"]
    assert list(terms("มา")) == ["มา"]
    assert tokenize("ចាន") == ["ចាន"]  # Khmer: the vowel sign belongs to the word


def test_which_texts_have_such_a_script() -> None:
    assert has_unspaced("need 味噌")
    assert has_unspaced("ພາສາລາວ") and has_unspaced("မြန်မာ")
    assert not has_unspaced("Größe, размер, 12")


def test_sentences_end_in_other_scripts() -> None:
    assert sentences("花は桜。高さは5m。滝もある。") == ["花は桜", "高さは5m", "滝もある。"]
    assert sentences("أين يقع؟ بني عام 1900.") == ["أين يقع", "بني عام 1900."]
    assert sentences("Тираж 5 млн. экз. Художник И. Федин") == ["Тираж 5 млн. экз", "Художник И", "Федин"]


def test_the_section_that_answers_a_chinese_question_is_found() -> None:
    ingredients = "# Wiki Article: 豆浆\n## Section Title: 配料\n黄豆\n水"
    steps = "# Wiki Article: 豆浆\n## Section Title: 步骤\n将 500g 干黄豆在水中浸泡 8 小时。清洗干净。"
    scores = BM25().score(["黄豆要浸泡多少小时"], [[ingredients, steps]])[0]
    assert scores[1] > 2 * scores[0] > 0
    np.testing.assert_array_equal(BM25().score(["法国首都"], [[ingredients, steps]])[0], [0, 0])
