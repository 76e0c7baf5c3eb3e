from __future__ import annotations

import random

from pretraining.demo.facts import countries, seed_of
from pretraining.demo.records import LABELS, reading_questions, sheet


def test_a_sheet_has_labeled_values() -> None:
    text = sheet(countries()["ch"], random.Random(0))
    assert sum(f"{label}: " in text for labels in LABELS.values() for label in labels) >= len(LABELS) // 2
    assert all(field in countries()["ch"] for field in LABELS)


def test_half_of_the_questions_are_about_sheets_and_every_fourth_country_is_left_out() -> None:
    rows = reading_questions(random.Random(0))
    labeled = [row for row in rows if ": " in row["evidence"].partition(".")[0]]
    assert 0.3 < len(labeled) / len(rows) < 0.6
    assert all(seed_of(row["dataset_category_id"]) % 4 for row in rows)
    assert all(row["answer"].split("|")[0].split("&&")[0] in row["evidence"] for row in labeled)
