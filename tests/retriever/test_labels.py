"""Labels of values, by hand."""

from __future__ import annotations

import pytest

from retriever.labels import best_label, labels_of


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ("Elevation: highest point: Mount Gimie 948 m", [{"elev"}, {"highest", "point"}, {"elev", "highest", "point"}]),
        ("- net_weight = 3 kg", [{"net", "weight"}]),
        ("| Glass | coupe", [{"glass"}]),
        ("Built - 1931", [{"built"}]),
        ("open from 9:30 to 17:00", []),
        ("the tall old mills of a quiet town: three stand", []),
        ("area: 2010: 5 ha", [{"area"}]),
        ("no label here", []),
    ],
)
def test_a_line_begins_with_labels(line: str, labels: list[set[str]]) -> None:
    expected = [{"build" if stem == "built" else stem for stem in label} for label in labels]
    assert list(labels_of(line)) == expected


def test_the_match_is_a_product_of_two_shares() -> None:
    labels = [frozenset({"median", "age"}), frozenset({"climate"})]
    weight = {"median": 3.0, "age": 1.0, "climate": 2.0, "country": 1.0, "size": 1.0}.__getitem__
    assert best_label(labels, ["age"], ["age"], weight) == pytest.approx(1 / 4)
    assert best_label(labels, ["median", "age", "country"], ["median", "age", "country"], weight) == pytest.approx(
        4 / 5
    )
    assert best_label(labels, ["climate"], [], weight) == 1  # implied alone
    assert best_label(labels, ["size"], ["size"], weight) == 0
