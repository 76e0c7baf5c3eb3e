from __future__ import annotations

import itertools

import pytest

from evaluation.vqa import relaxed_match, vqa_accuracy, vqa_process


@pytest.mark.parametrize(("agreeing", "accuracy"), [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (10, 1.0)])
def test_accuracy_by_how_many_agree(agreeing: int, accuracy: float) -> None:
    people = ["red"] * agreeing + [f"other {i}" for i in range(10 - agreeing)]
    assert vqa_accuracy("Red", people) == pytest.approx(accuracy if agreeing < 10 else 0.0)  # unanimous: not processed
    assert vqa_accuracy("red", people) == pytest.approx(accuracy)


def test_accuracy_is_the_mean_over_all_nine_of_ten() -> None:
    for people in itertools.combinations_with_replacement(["a dog", "cat", "2 birds"], 10):
        said = [vqa_process(person) for person in people] if len(set(people)) > 1 else list(people)
        for answer in ("cat", "2 birds"):
            nines = [said[:i] + said[i + 1 :] for i in range(10)]
            wanted = sum(min(1, nine.count(answer) / 3) for nine in nines) / 10
            assert vqa_accuracy(answer, people) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("text", "processed"),
    [
        ("The Two Dogs", "2 dogs"),
        ("none", "0"),
        ("x-ray", "x ray"),
        ("x - ray", "x ray"),
        ("red/blue", "red blue"),
        ("1,000", "1000"),
        ("1,000 red/blue", "1000 redblue"),  # a comma in a number removes all punctuation
        ("yes!", "yes"),
        ("3.5", "3.5"),
        ("end.", "end"),
        ("U.S.", "us"),
        ("12:30", "12:30"),
        ("dont", "don't"),
        ("couldnt've", "couldn't've"),
        ("couldn'tve", "couldn't've"),
        ("oclock", "o'clock"),
        ("its", "its"),
        ("a an the", ""),
    ],
)
def test_processing(text: str, processed: str) -> None:
    assert vqa_process(text) == processed


def test_white_space_counts_for_nothing() -> None:
    assert vqa_accuracy(" red\n", ["red"] * 10) == 1.0
    assert vqa_accuracy("red\tdog", ["red dog"] * 9 + ["cat"]) == 1.0
    assert vqa_accuracy("red", []) == 0.0


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("105", "100", True),
        ("105.1", "100", False),
        ("95", "100", True),
        ("-95", "-100", True),
        ("95", "-100", False),
        ("5%", "0.05", True),
        ("0", "0", True),
        ("0.0", "0", False),  # no tolerance around zero
        ("Blue", "blue", True),
        ("blue.", "blue", False),
        ("five", "5", False),
        ("1,000", "1000", False),  # not a number by the definition
    ],
)
def test_relaxed_accuracy(answer: str, reference: str, right: bool) -> None:
    assert relaxed_match(answer, reference) is right
