from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from evaluation.bem import Bem
from evaluation.datasets import Question, dynvqa
from evaluation.judge import judge, judge_all


def question(style: str = "evqa", **changes: object) -> Question:
    fields = {"id": "q", "question": "?", "image_id": "i", "answers": ("2",), "entity_ids": ("e",), "style": style}
    return Question(**fields | changes)  # type: ignore[arg-type]


def test_each_question_is_judged_by_its_own_rules() -> None:
    assert judge(question(), "two") == {"evqa_exact_match": 1.0}
    assert judge(question("infoseek", question_type="string"), "two") == {"infoseek": 0.0}
    numerical = question("infoseek", question_type="numerical", numeric_range=(1.8, 2.2))
    assert judge(numerical, "about 2.1 m") == {"infoseek": 1.0}
    assert judge(question(question_type="multi_answer", answers=("a1&&b1",)), "b1 and a1") == {"evqa_exact_match": 1.0}
    assert judge(question(question_type="templated", answers=("a1&&b1",)), "b1 and a1") == {"evqa_exact_match": 0.0}
    people = ("race",) * 2 + ("racing",) * 8
    assert judge(question("okvqa", answers=people), "race") == {"vqa_accuracy": pytest.approx(8 / 10 * 2 / 3 + 0.2 / 3)}
    assert judge(question("plain", answers=("100",)), "103") == {"exact_match": 0.0, "relaxed_accuracy": 1.0}
    assert judge(question("plain", answers=("The Hague",)), "Hague") == {"exact_match": 1.0, "relaxed_accuracy": 1.0}


def test_dynvqa_has_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nltk")
    pytest.importorskip("jieba")
    asked = question("dynvqa", question="Who?", answers=("Vincent van Gogh",))
    # all three tokens of the reference among the five of the answer
    assert judge(asked, "It was Vincent van Gogh") == {"f1_recall": 1.0, "token_f1": 2 * 3 / (3 + 5)}
    monkeypatch.setattr(dynvqa, "can_segment", lambda: False)
    assert judge(asked, "It was Vincent van Gogh") == {"token_f1": 0.75}


@pytest.mark.parametrize("answer", [None, "", "  "])
@pytest.mark.parametrize("style", ["evqa", "infoseek", "okvqa", "dynvqa", "plain"])
def test_no_answer_is_wrong_by_every_metric(style: str, answer: str | None) -> None:
    asked = question(style, answers=("the",) * 10, numeric_range=(0, 0) if style == "infoseek" else None)
    assert set(judge(asked, answer).values()) == {0.0}
    assert judge(asked, answer).keys() == judge(asked, "something").keys()


class TableModel:
    """The tokenizer and the model of a judge that looks up which (candidate, reference, question) are equivalent."""

    def __init__(self, yes: Sequence[tuple[str, str, str]]) -> None:
        self.yes, self.texts = yes, [""]
        self.asked: list[tuple[str, ...]] = []

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        self.texts += texts
        return [[len(self.texts) - len(texts) + place + 10] for place in range(len(texts))]

    def logits(self, ids: np.ndarray, segment_ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        triples = [tuple(self.texts[row[place] - 10] for place in (1, 3, 5)) for row in ids]
        self.asked += triples
        return np.array([[0.0, 0.0 if triple in self.yes else math.log(0.9)] for triple in triples], dtype=np.float32)


def test_bem_judges_answers_without_an_exact_match() -> None:
    table = TableModel([("sea eagle", "erne", "what?"), ("red; white", "white,red", "which?")])
    bem = Bem(table.tokenize, table.logits, marks=(1, 2))
    questions = [
        question(question="what?", answers=("eagle", "erne")),
        question(question="what?", answers=("eagle", "erne")),
        question(question="what?", answers=("eagle", "erne")),
        question(question="which?", question_type="multi_answer", answers=("white&&red",)),
        question(question="what?", answers=("eagle",)),
        question("infoseek", answers=("erne",)),
    ]
    answers = ["Eagle.", "sea eagle", "hawk", "red; white", None, "sea eagle"]
    assert judge_all(questions, answers, bem) == [
        {"evqa_bem": 1.0, "evqa_exact_match": 1.0},
        {"evqa_bem": 1.0, "evqa_exact_match": 0.0},  # a probability of one half is enough
        {"evqa_bem": 0.0, "evqa_exact_match": 0.0},
        {"evqa_bem": 1.0, "evqa_exact_match": 0.0},
        {"evqa_bem": 0.0, "evqa_exact_match": 0.0},
        {"infoseek": 0.0},
    ]
    assert sorted(table.asked) == [
        ("hawk", "eagle", "what?"),
        ("hawk", "erne", "what?"),
        ("red; white", "white,red", "which?"),
        ("sea eagle", "eagle", "what?"),
        ("sea eagle", "erne", "what?"),
    ]
    assert next(iter(judge_all(questions, answers, bem)[0])) == "evqa_bem"
    assert judge_all(questions[:1], ["hawk"]) == [{"evqa_exact_match": 0.0}]
