from __future__ import annotations

import random
import re
import tomllib
from collections import Counter

import pytest

from pretraining.demo.articles import articles
from pretraining.demo.facts import countries
from pretraining.demo.questions import COLUMNS, QUESTIONS_FILE, Row, infoseek_rows, kinds_of, questions

Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return questions(random.Random(0), 30, ("train", "val", "test"))


def find(rows: list[Row], code: str, original: str) -> Row:
    return next(r for r in rows if r["dataset_category_id"] == code and r["question_original"] == original)


def test_rows_have_the_columns_of_evqa(rows: list[Row]) -> None:
    assert COLUMNS[0] == "question" and len(COLUMNS) == 14
    assert all(tuple(row) == COLUMNS for row in rows)
    assert all(value for row in rows for value in row.values())
    assert len(rows) == 196 * 30
    assert len({row["dataset_image_ids"] for row in rows}) == len(rows)
    assert rows[0]["dataset_image_ids"] == "af_0" and rows[31]["dataset_image_ids"] == "al_1"


def test_every_answer_occurs_literally_in_its_evidence(rows: list[Row]) -> None:
    kb = articles()
    for row in rows:
        entry = kb[row["wikipedia_url"]]
        section = int(row["evidence_section_id"])
        assert entry["title"] == row["wikipedia_title"]
        assert entry["section_texts"][section] == row["evidence"]
        assert entry["section_titles"][section] == row["evidence_section_title"]
        first = row["answer"].split("|")[0]
        for item in first.split("&&"):
            assert item in row["evidence"], (row["question"], item, row["evidence"])
        assert row["question_type"] == ("multi_answer" if "&&" in first else "templated")


def test_answers_have_no_empty_or_repeated_alternative(rows: list[Row]) -> None:
    for row in rows:
        parts = re.split(r"\||&&", row["answer"])
        assert all(parts) and len(set(parts)) == len(parts), row["answer"]


def test_hand_checked_answers(rows: list[Row]) -> None:
    def answer(code: str, original: str) -> str:
        return find(rows, code, original)["answer"]

    assert answer("fr", "What is the capital of this country?") == "Paris"
    assert answer("fr", "How large is this country?") == "551,695 square kilometers|551,695 km2|551,695|551695"
    borders = "Andorra&&Belgium&&Germany&&Italy&&Luxembourg&&Monaco&&Spain&&Switzerland"
    assert answer("fr", "Which countries does it border?") == borders
    assert answer("fr", "On which date is this country's national day?") == "14 July|July 14"
    assert answer("jp", "What is the highest point of this country?") == "Mount Fuji"
    assert answer("jp", "How high is the highest point of this country?").startswith("3,776 meters|")
    assert answer("jp", "How many people live here?") == "123,201,945|123.2 million|123201945"
    assert answer("jp", "What language is spoken in this country?") == "Japanese"
    assert answer("nl", "What is the capital of this country?") == "Amsterdam"
    assert answer("nl", "What is the seat of government?") == "The Hague"
    assert answer("za", "What is the capital of this country?") == "Pretoria&&Bloemfontein&&Cape Town"
    assert answer("bw", "From which country did this country become independent?").startswith("United Kingdom|")


def test_no_question_without_a_fact() -> None:
    assert "borders" not in kinds_of(countries()["jp"])
    assert "coastline_km" not in kinds_of(countries()["ch"])
    assert "seat" not in kinds_of(countries()["za"])
    assert "national_day" not in kinds_of(countries()["gb"])
    assert "independence_year" not in kinds_of(countries()["jp"])
    assert {"capital", "population", "languages"} <= set(kinds_of(countries()["va"]))


def test_wordings_are_many_and_their_test_wordings_are_kept_apart(rows: list[Row]) -> None:
    kinds = tomllib.loads(QUESTIONS_FILE.read_text(encoding="utf-8"))
    every = [wording for kind in kinds.values() for wording in kind["ask"] + kind["test"]]
    assert len(set(every)) == len(every)
    assert all(len(kind["ask"]) + len(kind["test"]) >= 8 for kind in kinds.values())
    held_out = {wording for kind in kinds.values() for wording in kind["test"]}
    used = Counter((row["encyclopedic_vqa_split"], row["question"] in held_out) for row in rows)
    assert used["train", True] == used["val", True] == 0
    assert 0.45 < used["test", True] / (used["test", True] + used["test", False]) < 0.55


def test_seed_decides() -> None:
    assert questions(random.Random(3), 3) == questions(random.Random(3), 3)
    assert questions(random.Random(3), 3) != questions(random.Random(4), 3)


def test_kinds_do_not_repeat_while_others_are_left() -> None:
    rows = questions(random.Random(1), 5)
    for code in countries():
        originals = [row["question_original"] for row in rows if row["dataset_category_id"] == code]
        assert len(set(originals)) == 5


def test_infoseek_form(rows: list[Row]) -> None:
    asked, entities, types = infoseek_rows(rows)
    assert len(asked) == len(entities) == len(types) == len(rows)
    assert all(a["data_id"] == e["data_id"] == t["data_id"] for a, e, t in zip(asked, entities, types, strict=True))
    by_question = {(r["dataset_category_id"], r["question_original"]): i for i, r in enumerate(rows)}
    i = by_question["jp", "How many people live here?"]
    assert types[i]["question_type"] == "Numerical"
    (number,) = asked[i]["answer_eval"]
    assert number["wikidata"] == 123201945
    assert number["range"] == pytest.approx([110881750.5, 135522139.5])
    assert entities[i]["entity_text"] == "Japan" and entities[i]["entity_id"] == "https://omgm.example/wiki/Japan"
    i = by_question["ad", "Which countries does it border?"]
    assert asked[i]["answer"] == asked[i]["answer_eval"] == ["France", "Spain"]
    i = by_question["fr", "On which date is this country's national day?"]
    assert types[i]["question_type"] == "Time" and asked[i]["answer_eval"] == ["14 July", "July 14"]
