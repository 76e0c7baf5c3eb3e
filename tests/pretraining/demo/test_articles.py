from __future__ import annotations

import csv
import re

import pytest

from pretraining.demo.articles import ArticleEntry, articles
from pretraining.demo.facts import countries, grouped, join, rounded, written
from tests.paths import SHARED


@pytest.fixture(scope="module")
def kb() -> dict[str, ArticleEntry]:
    return articles()


def text_of(kb: dict[str, ArticleEntry], name: str, title: str) -> str:
    entry = kb[f"https://omgm.example/wiki/{name}"]
    titles, texts = entry["section_titles"], entry["section_texts"]
    return texts[titles.index(title)]


def test_every_entry_has_the_knowledge_base_format(kb: dict[str, ArticleEntry]) -> None:
    assert len(kb) == 196
    for url, entry in kb.items():
        assert set(entry) == {
            "title",
            "url",
            "section_titles",
            "section_texts",
            "image_urls",
            "image_reference_descriptions",
            "image_section_indices",
        }
        assert entry["url"] == url == f"https://omgm.example/wiki/{entry['title'].replace(' ', '_')}"
        assert entry["section_titles"][0] == entry["title"]
        assert 5 <= len(entry["section_titles"]) == len(entry["section_texts"]) <= 7
        assert len(entry["image_urls"]) == len(entry["image_reference_descriptions"]) == 1
        assert entry["image_section_indices"] == [0]
        assert re.fullmatch(r"https://omgm\.example/images/flag/[a-z]{2}\.png", entry["image_urls"][0])


def test_every_section_is_made_of_whole_sentences(kb: dict[str, ArticleEntry]) -> None:
    for entry in kb.values():
        for text in entry["section_texts"]:
            assert not text[0].islower() and text.endswith((".", ".”")), text
            assert not re.search(r"[{}|]|\bNone\b|  | \.(?![a-z])|,,| a [aeiAEI]| the the ", text), text


def test_france(kb: dict[str, ArticleEntry]) -> None:
    assert "551,695 square kilometers" in text_of(kb, "France", "Geography")
    borders = "Andorra, Belgium, Germany, Italy, Luxembourg, Monaco, Spain and Switzerland"
    assert borders in text_of(kb, "France", "Geography")
    assert "Paris" in text_of(kb, "France", "Government")
    assert "Bastille Day" in text_of(kb, "France", "Government")
    assert "14 July" in text_of(kb, "France", "Government")
    assert "La Marseillaise" in text_of(kb, "France", "Culture and language")
    assert ".fr" in text_of(kb, "France", "Economy and transport")


def test_japan(kb: dict[str, ArticleEntry]) -> None:
    assert "3,776 meters" in text_of(kb, "Japan", "Geography")
    assert "Mount Fuji" in text_of(kb, "Japan", "Geography")
    assert "Tokyo" in text_of(kb, "Japan", "Government")
    assert "123.2 million" in text_of(kb, "Japan", "Population")
    assert "123,201,945" in text_of(kb, "Japan", "Population")
    assert "Japanese yen" in text_of(kb, "Japan", "Economy and transport")
    assert "landlocked" not in text_of(kb, "Japan", "Geography")


def test_the_flag_is_described_twice_without_invented_history(kb: dict[str, ArticleEntry]) -> None:
    for entry in kb.values():
        text = entry["section_texts"][1]
        assert entry["section_titles"][1] == "Flag"
        assert not re.search(r"history:|meaning:|note:|symboliz", text), text
    assert text_of(kb, "France", "Flag").lower().count("white") >= 2


def test_the_same_words_every_time(kb: dict[str, ArticleEntry]) -> None:
    assert articles() == kb


def test_formal_names_take_an_article(kb: dict[str, ArticleEntry]) -> None:
    assert "the french republic" in text_of(kb, "France", "France").lower()
    assert "The Netherlands" in text_of(kb, "Netherlands", "Netherlands")


@pytest.mark.parametrize(
    ("number", "text"), [("652230", "652,230"), ("66.5", "66.5"), ("0.44", "0.44"), ("1407181209", "1,407,181,209")]
)
def test_grouped(number: str, text: str) -> None:
    assert grouped(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [("47735685", "47.7 million"), ("1407181209", "1.41 billion"), ("9930", ""), ("999999", "")]
)
def test_rounded(number: str, text: str) -> None:
    assert rounded(number) == text


def test_join() -> None:
    assert [join([]), join(["a"]), join(["a", "b"]), join(["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_written_facts() -> None:
    assert written(countries()["nl"], "name") == "Netherlands"
    assert written(countries()["mc"], "area_km2") == "2.02 square kilometers"
    assert written(countries()["va"], "life_expectancy_years") == ""


def test_facts_have_the_shapes_that_sentences_expect() -> None:
    shapes = {
        "area_km2": r"\d+(\.\d+)?",
        "population": r"\d+",
        "coastline_km": r"\d+(\.\d+)?|",
        "highest_point_m": r"\d{2,4}|",
        "national_day_date": r"\d{1,2} [A-Z][a-z]+|",
        "independence_year": r"\d{4}|",
        "railways_km": r"\d+|",
        "internet_code": r"\.[a-z]{2}|",
        "calling_code": r"\+\d{1,3}(-\d{3})?",
        "landlocked": "true|false",
        "median_age_years": r"\d\d(\.\d)?|",
        "life_expectancy_years": r"\d\d(\.\d)?|",
    }
    for code, row in countries().items():
        for field, shape in shapes.items():
            assert re.fullmatch(shape, row[field]), (code, field, row[field])


def test_borders_are_mutual() -> None:
    by_name = {row["name"]: row for row in countries().values()}
    for row in by_name.values():
        for neighbor in filter(None, row["borders"].split("|")):
            if neighbor in by_name:
                assert row["name"] in by_name[neighbor]["borders"].split("|"), (row["name"], neighbor)


def test_figures_agree_with_their_source() -> None:
    source = SHARED / "atlas" / "facts.csv"
    if not source.exists():
        pytest.skip("the source of the figures is not available")
    with source.open(encoding="utf-8", newline="") as file:
        rows = {row["code"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(countries())
    changed = [code for code, row in countries().items() if row["area_km2"] != rows[code]["area_km2"]]
    assert changed == ["rs", "sg", "us"]
    assert all(row["population"] == rows[code]["population"] for code, row in countries().items())
