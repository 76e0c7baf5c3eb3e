"""Writes questions about photographs of flags, answered by the demo's articles, in E-VQA's and InfoSeek's formats."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from pretraining.demo.articles import TITLES, ArticleEntry, articles
from pretraining.demo.facts import Country, countries, items, rounded, url_of, written

QUESTIONS_FILE = Path(__file__).with_name("questions.toml")
DATASET = "flags"
COLUMNS = (
    "question",
    "answer",
    "dataset_image_ids",
    "dataset_name",
    "dataset_category_id",
    "question_type",
    "wikipedia_url",
    "wikipedia_title",
    "evidence",
    "evidence_section_id",
    "evidence_section_title",
    "encyclopedic_vqa_split",
    "question_original",
    "wikipedia_url_used_in_train",
)
"""The columns of an E-VQA CSV file."""

TOLERANCE = 0.1
Row = dict[str, str]
Split = Literal["train", "val", "test"]

OTHER_NAMES = {
    "Persian": ["Farsi"],
    "Dhivehi": ["Maldivian"],
    "Berber": ["Tamazight"],
    "Denali": ["Mount McKinley"],
    "Ulaanbaatar": ["Ulan Bator"],
    "Kyiv": ["Kiev"],
    "Aoraki / Mount Cook": ["Mount Cook", "Aoraki"],
    "Washington, D.C.": ["Washington"],
    "United States dollar": ["US dollar", "U.S. dollar"],
    "British pound": ["pound sterling"],
    "Mandarin": ["Chinese", "Mandarin Chinese"],
    "Mount Everest": ["Everest", "Sagarmatha", "Qomolangma"],
    "Mont Blanc": ["Monte Bianco"],
    "United Kingdom": ["Britain", "Great Britain", "UK"],
    "Soviet Union": ["USSR"],
}


class QuestionKind(TypedDict):
    """A table of questions.toml.

    Attributes:
        section: The section with the answer, a key of `TITLES`.
        ask: Wordings for all splits.
        test: Wordings for the test split only.
        answer: "number" or "time" for answers that are not names.
        list: True if the answer has several parts.
    """

    section: str
    ask: list[str]
    test: list[str]
    answer: NotRequired[str]
    list: NotRequired[bool]


@cache
def _kinds() -> dict[str, QuestionKind]:
    kinds: dict[str, Any] = tomllib.loads(QUESTIONS_FILE.read_text(encoding="utf-8"))
    return kinds


def _value(country: Country, kind: str) -> str:
    """Returns the fact that a kind of question asks for, as the article writes it; empty if unknown."""
    if kind == "seat":
        one = len(items(country, "capital")) == 1
        return (country["seat_of_government"] or country["capital"]) if one else ""
    if kind == "official_name" and country["official_name"] == country["name"]:
        return ""
    if kind == "national_day_date" and not country["national_day"]:
        return ""
    if kind == "highest_point_m" and not country["highest_point"]:
        return ""
    if kind == "independence_from" and not country["independence_year"]:
        return ""
    return written(country, kind).removeprefix("the ")


def _other_names(text: str) -> list[str]:
    return OTHER_NAMES.get(text, [])


def kinds_of(country: Country) -> list[str]:
    """Returns the kinds of questions that a country's article answers, in the order of questions.toml."""
    return [kind for kind in _kinds() if _value(country, kind)]


def _aliases(country: Country, kind: str) -> list[str]:
    """Returns correct answers other than the one in the article."""
    text, raw = _value(country, kind), country.get(kind, "")
    found = list(_other_names(text))
    if kind == "population":
        found += [rounded(raw), raw]
    elif _kinds()[kind].get("answer") == "number":
        number = text.split(" ")[0]
        short = text.replace(" square kilometers", " km2").replace(" kilometers", " km").replace(" meters", " m")
        found += [short, number, raw]
    elif kind == "river":
        found += [f"the {text}", *([] if "River" in text else [f"{text} River"])]
    elif kind in ("subregion", "independence_from") and written(country, kind) != text:
        found.append(written(country, kind))
    elif kind == "national_day_date":
        day, month = text.split(" ")
        found.append(f"{month} {day}")
    elif kind == "official_name":
        found.append(f"the {text}")
    elif kind == "internet_code":
        found.append(text.removeprefix("."))
    elif kind == "calling_code":
        found += [text.removeprefix("+"), f"00{text.removeprefix('+')}"]
    elif kind == "government":
        found.append(text.replace("-", " "))
    return [alias for alias in dict.fromkeys(found) if alias and alias != text]


def _answer(country: Country, kind: str) -> tuple[str, str]:
    """Returns the answer cell and the question type of a row."""
    parts = items(country, kind) if _kinds()[kind].get("list") or kind == "capital" else []
    if len(parts) > 1:
        return "&&".join(parts), "multi_answer"
    text = parts[0] if parts else _value(country, kind)
    return "|".join([text, *(_other_names(text) if parts else _aliases(country, kind))]), "templated"


def questions(
    rng: random.Random,
    n: int,
    splits: Sequence[Split] = ("train",),
    world: dict[str, Country] | None = None,
    entries: dict[str, ArticleEntry] | None = None,
) -> list[Row]:
    """Writes `n` questions about each country; returns one row each, with E-VQA's columns (`COLUMNS`).

    The i-th question of a country is about the image `<code>_<i>`. Kinds of questions repeat only when a country's
    article has no more facts. Half of the questions in the test split have wordings that no other split contains.

    Args:
        rng: Chooses kinds and wordings.
        n: Questions per country.
        splits: The i-th question of a country belongs to `splits[i % len(splits)]`.
        world: Countries by code; the real ones by default.
        entries: Their articles by URL.
    """
    entries = entries or articles()
    rows = []
    for code, country in (world or countries()).items():
        kinds = kinds_of(country)
        order = [kind for _ in range(-(-n // len(kinds))) for kind in rng.sample(kinds, len(kinds))][:n]
        entry = entries[url_of(country)]
        for i, kind in enumerate(order):
            rows.append(_row(country, kind, entry, f"{code}_{i}", rng, splits[i % len(splits)]))
    return rows


def _row(country: Country, kind: str, entry: ArticleEntry, image: str, rng: random.Random, split: Split) -> Row:
    source = _kinds()[kind]
    held_out = split == "test" and rng.random() < 0.5
    section = list(TITLES).index(source["section"])
    answer, question_type = _answer(country, kind)
    cells = (
        rng.choice(source["test" if held_out else "ask"]),
        answer,
        image,
        DATASET,
        country["code"],
        question_type,
        entry["url"],
        entry["title"],
        entry["section_texts"][section],
        str(section),
        entry["section_titles"][section],
        split,
        source["ask"][0],
        "True",
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _kind(row: Row) -> str:
    return next(kind for kind, source in _kinds().items() if source["ask"][0] == row["question_original"])


def _evaluation(row: Row) -> list[Any]:
    """Returns the reference for InfoSeek's rules: a number and its range, or the accepted strings."""
    country, kind = countries()[row["dataset_category_id"]], _kind(row)
    if _kinds()[kind].get("answer") == "number":
        value = float(country[kind])
        return [{"wikidata": value, "range": [value * (1 - TOLERANCE), value * (1 + TOLERANCE)]}]
    return row["answer"].replace("&&", "|").split("|")


def infoseek_rows(rows: Iterable[Row]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Converts questions to the lines of InfoSeek's three files: questions, their entities, their types.

    A number is correct within ±10 %; of several correct answers, each one alone is accepted.

    Args:
        rows: Rows of `questions`.
    """
    lines, entities, types = [], [], []
    for i, row in enumerate(rows):
        name = f"{DATASET}_{row['encyclopedic_vqa_split']}_{i:08d}"
        kind = {"number": "Numerical", "time": "Time"}.get(_kinds()[_kind(row)].get("answer", ""), "String")
        lines.append(
            {
                "data_id": name,
                "image_id": row["dataset_image_ids"],
                "question": row["question"],
                "answer": row["answer"].split("|")[0].split("&&"),
                "answer_eval": _evaluation(row),
                "data_split": "val_unseen_question",
            }
        )
        entities.append({"data_id": name, "entity_id": row["wikipedia_url"], "entity_text": row["wikipedia_title"]})
        types.append({"data_id": name, "question_type": kind})
    return lines, entities, types
