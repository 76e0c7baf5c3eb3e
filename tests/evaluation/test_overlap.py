from __future__ import annotations

import importlib

import pytest

from evaluation.overlap import f1_recall, language_of, token_f1


@pytest.mark.parametrize(
    ("answer", "references", "score"),
    [
        ("Vincent van Gogh", ["Vincent van Gogh"], 1.0),
        ("Gogh", ["Vincent van Gogh"], 2 * 1 / (3 + 1)),
        ("The Beatles", ["Beatles"], 1.0),
        ("two", ["2 dogs", "two"], 1.0),
        ("red red", ["red"], 2 / 3),  # a second red is one too many
        ("It doesn't", ["it doesnt"], 1.0),
        ("莱昂纳多没有孩子", ["莱昂纳多没有任何孩子。"], 2 * 8 / (8 + 10)),
        ("保时捷 944", ["保时捷 944", "Porsche 944."], 1.0),
        ("Porsche", ["保时捷 944"], 0.0),
        ("", ["red"], 0.0),
        ("red", ["."], 0.0),
        ("red", [], 0.0),
    ],
)
def test_token_f1_equals_values_by_hand(answer: str, references: list[str], score: float) -> None:
    assert token_f1(answer, references) == pytest.approx(score)


@pytest.mark.parametrize(
    ("answer", "references", "score"),
    [
        ("It was painted by Vincent van Gogh, I think", ["Vincent van Gogh"], 1.0),  # superfluous words cost nothing
        ("Gogh", ["Vincent van Gogh"], 1 / 3),
        ("The Beatles", ["The Beatles"], 1 / 2),  # only the answer loses its article
        ("two", ["two"], 0.0),  # only the answer's number words become digits
        ("red red", ["red red red"], 2 / 3),
        ("No. Never.", ["No. Never."], 2 / 2),
        ("red", ["."], 0.0),
        ("", ["red"], 0.0),
        ("the", ["the"], 0.0),
    ],
)
def test_published_f1_recall(answer: str, references: list[str], score: float) -> None:
    pytest.importorskip("nltk")
    assert f1_recall(answer, references, "en") == pytest.approx(score)


def test_published_f1_recall_in_chinese() -> None:
    pytest.importorskip("jieba")
    assert f1_recall("保时捷 944", ["保时捷 944", "Porsche 944."], "zh") == 1.0
    assert f1_recall("它是保时捷。", ["保时捷 944"], "zh") == 1 / 2
    with pytest.raises(ValueError, match="language must be en or zh, got 'de'"):
        f1_recall("ja", ["ja"], "de")


def test_the_missing_tokenizer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation import overlap

    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    overlap._tokenizer.cache_clear()
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ValueError, match=r"F1-Recall needs jieba: pip install 'omgm\[dynvqa\]'"):
        f1_recall("x", ["x"], "zh")


def test_one_chinese_character_makes_a_text_chinese() -> None:
    assert [language_of(text) for text in ("这辆车是什么?", "What is 944?", "", "café")] == ["zh", "en", "en", "en"]
