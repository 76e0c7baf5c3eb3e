from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.metrics import (
    Outcome,
    harmonic_mean,
    is_unseen_question,
    percent,
    percentile,
    rank_of,
    ranked,
    recall_at_k,
    summarize,
)
from evaluation.report import recall_curve


@pytest.mark.parametrize(("k", "share"), [(1, 0.2), (2, 0.2), (3, 0.4), (5, 0.6), (20, 0.8)])
def test_recall_is_success(k: int, share: float) -> None:
    assert recall_at_k([1, 3, 5, None, 20], k) == share


def test_recall_of_nothing() -> None:
    assert recall_at_k([], 5) == 0.0


def test_ties_are_ordered_by_id() -> None:
    scores = [("b", 0.5), ("c", 0.7), ("a", 0.5)]
    assert ranked(scores) == [("c", 0.7), ("a", 0.5), ("b", 0.5)]
    assert rank_of({"b"}, scores) == 3
    assert rank_of({"b", "a"}, scores) == 2
    assert rank_of({"d"}, scores) is None
    assert rank_of({"d"}, []) is None


def test_means_and_percentiles() -> None:
    assert harmonic_mean(0.5, 0.25) == pytest.approx(1 / 3)
    assert harmonic_mean(0.5, 0.0) == 0.0
    assert percentile([10, 20, 30], 50) == 20
    assert percentile([0, 100], 95) == 95
    assert percentile([], 50) is None


def test_without_any_reference_there_is_no_accuracy() -> None:
    scores = {"exact_match": 0.0, "relaxed_accuracy": 0.0}
    one = replace(outcome("a", None, None, False), answer_scores=scores, without_reference=True, entity_known=False)
    answer = summarize([one, replace(one, id="b")], "plain")["answer"]
    assert answer == {"metric": "exact_match", "accuracy": None, "relaxed_accuracy": None}
    answer = summarize([one, replace(one, id="b", without_reference=False)], "plain")["answer"]
    assert answer == {"metric": "exact_match", "accuracy": 0.0, "relaxed_accuracy": 0.0}


def test_figures_are_shown_in_percent() -> None:
    assert [percent(share) for share in (0.23, 0.0, 1.0, 0.2999, None)] == ["23.0", "0.0", "100.0", "30.0", "-"]


def outcome(
    id: str,
    ranks: tuple[int | None, int | None] | None,
    section: bool | None,
    answer: bool | None,
    groups: tuple[str, str, str] = ("string", "val_unseen_entity", ""),
    unanswered: bool = False,
    failed: str | None = None,
    gold_missing: bool = False,
) -> Outcome:
    steps = {} if ranks is None else {"step1": ranks[0], "step2": ranks[1]}
    named = dict(zip(("question_type", "split", "category"), groups, strict=True))
    return Outcome(id, named, steps, section, answer, unanswered, failed, gold_missing)


def test_a_run_adds_up() -> None:
    figures = summarize(
        [
            outcome("a", (1, 1), True, True, ("string", "val_unseen_question", "x")),
            outcome("b", (7, 2), False, True, ("string", "val_unseen_question", "x")),
            outcome("c", (3, 1), None, False, ("numerical", "val_unseen_question", "y"), unanswered=True),
            outcome("d", None, False, False, failed="image: lost"),
            outcome("e", (None, None), False, False, gold_missing=True),
            outcome("f", (20, 6), True, True),
        ],
        "infoseek",
    )
    assert [figures[f"n_{name}"] for name in ("queries", "failed", "unanswered", "gold_missing")] == [6, 1, 1, 1]
    assert figures["step1"] == {"recall@1": 1 / 6, "recall@5": 2 / 6, "recall@10": 3 / 6, "recall@20": 4 / 6}
    assert figures["step2"] == {"recall@1": 2 / 6, "recall@5": 3 / 6, "recall@10": 4 / 6, "recall@20": 4 / 6}
    assert (figures["step3"]["section_recall@1"], figures["step3"]["n_with_section"]) == (2 / 5, 5)
    assert figures["step3"]["pseudo_recall@5"] is None  # records of an older version do not know it
    assert figures["answer"] == {
        "metric": "infoseek",
        "accuracy": 3 / 6,
        "unseen_question": 2 / 3,
        "unseen_entity": 1 / 3,
        "harmonic_mean": pytest.approx(4 / 9),
    }
    assert figures["failed"] == [{"id": "d", "reason": "image: lost"}]
    assert figures["unanswered"] == ["c"]
    assert list(figures["by_question_type"]) == ["numerical", "string"]
    assert figures["by_question_type"]["string"] == {
        "n": 5,
        "step1_recall@1": 1 / 5,
        "step1_recall@20": 3 / 5,
        "step2_recall@1": 1 / 5,
        "section_recall@1": 2 / 5,
        "accuracy": 3 / 5,
    }
    assert {name: group["n"] for name, group in figures["by_split"].items()} == {
        "val_unseen_entity": 3,
        "val_unseen_question": 3,
    }
    assert {name: group["n"] for name, group in figures["by_category"].items()} == {"x": 2, "y": 1}


@pytest.mark.parametrize(
    ("split", "unseen"),
    [
        ("val_unseen_question", True), ("Unseen Question", True), ("test-unseen-question", True),
        ("val_unseen_entity", False), ("Unseen Entity", False), ("train", None), ("", None),
    ],
)  # fmt: skip
def test_the_splits_of_infoseek(split: str, unseen: bool | None) -> None:
    one = outcome("a", (1, 1), True, True, ("string", split, ""))
    assert is_unseen_question(one) is unseen
    answer = summarize([one], "infoseek")["answer"]
    expected = (1.0 if unseen else None, 1.0 if unseen is False else None)
    assert (answer["unseen_question"], answer["unseen_entity"]) == expected


def test_figures_that_were_not_measured_are_null() -> None:
    only = Outcome("a", {"question_type": "templated", "split": "", "category": ""}, {"step1": 2}, None, None)
    figures = summarize([only], "evqa")
    assert figures["step1"]["recall@5"] == 1.0
    assert figures["step2"]["recall@5"] is None
    assert figures["step3"]["section_recall@1"] is None
    assert figures["answer"] == {"metric": "evqa_exact_match", "accuracy": None}
    assert figures["by_split"] == {}


def test_one_split_alone_has_no_harmonic_mean() -> None:
    alone = summarize([outcome("a", (1, 1), None, True)], "infoseek-csv")["answer"]
    assert (alone["metric"], alone["accuracy"]) == ("infoseek_csv", 1.0) and "harmonic_mean" not in alone
    figures = summarize([outcome("a", (1, 1), None, True)], "infoseek")
    assert (figures["answer"]["unseen_entity"], figures["answer"]["harmonic_mean"]) == (1.0, None)


def test_nothing_to_summarize() -> None:
    with pytest.raises(ValueError, match="no queries"):
        summarize([], "evqa")


def test_the_recall_curve_has_a_value_per_cutoff() -> None:
    assert recall_curve([outcome("a", (1, 2), None, None), outcome("b", (3, 1), None, None)], "step1", 4) == [
        0.5,
        0.5,
        1.0,
        1.0,
    ]


def scored(id: str, scores: dict[str, float], sections: dict[str, int | None], labeled: bool = True) -> Outcome:
    named = {"question_type": "templated", "split": "", "category": ""}
    right = next(iter(scores.values())) >= 0.5
    section = sections.get("section") == 1 if labeled else None
    return Outcome(id, named, {"step1": 1}, section, right, section_ranks=sections, answer_scores=scores)


def test_scores_and_section_ranks_add_up() -> None:
    figures = summarize(
        [
            scored("a", {"evqa_bem": 1.0, "evqa_exact_match": 1.0}, {"section": 1, "pseudo": 1}),
            scored("b", {"evqa_bem": 1.0, "evqa_exact_match": 0.0}, {"section": 6, "pseudo": 3}),
            scored("c", {"evqa_bem": 0.0, "evqa_exact_match": 0.0}, {"section": None, "pseudo": None}),
            scored("d", {"evqa_bem": 0.0, "evqa_exact_match": 0.0}, {"pseudo": 20}, labeled=False),
        ],
        "evqa",
    )
    assert figures["answer"] == {"metric": "evqa_bem", "accuracy": 0.5, "evqa_exact_match": 0.25}
    assert figures["step3"] == {
        "section_recall@1": 1 / 3,
        "section_recall@5": 1 / 3,
        "section_recall@10": 2 / 3,
        "section_recall@20": 2 / 3,
        "n_with_section": 3,
        "pseudo_recall@1": 0.25,
        "pseudo_recall@5": 0.5,
        "pseudo_recall@10": 0.5,
        "pseudo_recall@20": 0.75,
    }


def test_without_bem_the_figures_say_so() -> None:
    answer = summarize([scored("a", {"evqa_exact_match": 1.0}, {})], "evqa")["answer"]
    assert (answer["metric"], answer["accuracy"]) == ("evqa_exact_match", 1.0)
    assert "Measured without BEM" in answer["note"]


def test_graded_scores_are_averaged() -> None:
    graded = [scored("a", {"vqa_accuracy": 0.3}, {}), scored("b", {"vqa_accuracy": 1.0}, {})]
    figures = summarize(graded, "okvqa")
    assert figures["answer"] == {"metric": "vqa_accuracy", "accuracy": pytest.approx(0.65)}
    assert figures["by_question_type"]["templated"]["accuracy"] == pytest.approx(0.65)


def test_a_question_without_an_entity_does_not_count_in_recall() -> None:
    named = {"question_type": "other", "split": "", "category": ""}
    known = Outcome("a", named, {"step1": 1}, None, None)
    unknown = Outcome("b", named, {"step1": None}, None, None, entity_known=False)
    assert summarize([known, unknown], "plain")["step1"]["recall@1"] == 1.0
    assert recall_curve([known, unknown], "step1", 2) == [1.0, 1.0]
    figures = summarize([unknown], "okvqa")
    assert figures["step1"]["recall@1"] is None
    assert figures["answer"]["metric"] == "vqa_accuracy"
