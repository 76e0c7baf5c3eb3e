"""Writes the demo's knowledge base: articles about the world's countries, from the facts in countries.csv."""

from __future__ import annotations

import random
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TypedDict

from pretraining.demo.describe import describe
from pretraining.demo.facts import PREFIX, Country, countries, items, rounded, seed_of, url_of, with_article, written
from pretraining.demo.flags import Flag, load_flags

SENTENCES_FILE = Path(__file__).with_name("sentences.toml")
TITLES = {
    "lead": "",
    "flag": "Flag",
    "geography": "Geography",
    "population": "Population",
    "government": "Government",
    "economy": "Economy and transport",
    "culture": "Culture and language",
}
"""Titles in the article by section name in sentences.toml; the lead has the article's title."""

CLAIMS = re.compile(
    r"meaning|history|note:|stands? for|represent|symboli|is for|similar|derived|adopted|introduced|in use"
)
"""Words that take a description beyond what is visible; such claims are invented and must not be in an article."""

FORMAL = re.compile(
    r"\b(Republic|Kingdom|States?|Commonwealth|Principality|Federation|Confederation|Union|Sultanate|Duchy|Nation)\b"
)
"""Official names with one of these words take "the" inside a sentence."""


class ArticleEntry(TypedDict):
    """An article in the knowledge-base format of E-VQA."""

    title: str
    url: str
    section_titles: list[str]
    section_texts: list[str]
    image_urls: list[str]
    image_reference_descriptions: list[str]
    image_section_indices: list[int]


@cache
def _wordings() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(SENTENCES_FILE.read_text(encoding="utf-8"))


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _position(country: Country) -> str:
    latitude, longitude = round(float(country["latitude"])), round(float(country["longitude"]))
    return f"{abs(latitude)}° {'N' if latitude >= 0 else 'S'}, {abs(longitude)}° {'E' if longitude >= 0 else 'W'}"


def _values(country: Country) -> dict[str, str]:
    """Returns the values that a sentence can name in braces."""
    values = {field: written(country, field) for field in country}
    formal = values["official_name"]
    values["formally"] = f"the {formal}" if FORMAL.search(formal) else formal
    values["the"] = with_article(country["name"])
    values["position"] = _position(country)
    values["population_rounded"] = rounded(country["population"])
    values["seat"] = country["seat_of_government"]
    values["currency"] = " and the ".join(items(country, "currencies"))
    values["a_government"] = ("an " if country["government"][:1] in set("aei") else "a ") + country["government"]
    values |= {"The": _capitalized(values["the"]), "River": _capitalized(values["river"])}
    return values | {"Formally": _capitalized(values["formally"])}


def _number_of(country: Country, field: str) -> str:
    """Returns the key of the wordings for a list: `field` with `_none`, `_one` or `_many`."""
    return field + {0: "_none", 1: "_one"}.get(len(items(country, field)), "_many")


def _groups(country: Country) -> dict[str, list[tuple[str, ...]]]:
    """Returns the wordings of each section; those in a tuple stay together, in order."""

    def known(*fields: str) -> list[tuple[str, ...]]:
        return [(field,) for field in fields if country[field]]

    def dated(detail: str, plain: str) -> list[tuple[str, ...]]:
        return known(detail) if country[detail] and country[plain] else known(plain)

    seat = "seat_elsewhere" if country["seat_of_government"] else "seat_same"
    one_capital = len(items(country, "capital")) == 1
    return {
        "lead": [
            ("official_name" if country["official_name"] != country["name"] else "only_name",),
            *dated("independence_from", "independence_year"),
            ("position",),
        ],
        "flag": [("look", "bearer", "look_again")],
        "geography": [
            *known("area_km2"),
            (_number_of(country, "borders"),),
            *([("landlocked",)] if country["landlocked"] == "true" else known("coastline_km")),
            *dated("highest_point_m", "highest_point"),
            *known("river"),
        ],
        "population": [
            ("population_rounded" if rounded(country["population"]) else "population",),
            *known("life_expectancy_years", "median_age_years"),
        ],
        "government": [
            (_number_of(country, "capital"), *([seat] if one_capital else [])),
            *known("government"),
            *dated("national_day_date", "national_day"),
        ],
        "economy": [(_number_of(country, "currencies"),), *known("railways_km", "internet_code", "calling_code")],
        "culture": [(_number_of(country, "languages"),), *known("anthem", "demonym")],
    }


def _look(flag: Flag, rng: random.Random | None) -> str:
    """Describes the flag in a sentence; with `rng`, in random wording that claims nothing about meaning or history."""
    drawn = (describe(flag, rng) for _ in range(40))
    plain = next((text for text in drawn if not CLAIMS.search(text)), "") if rng else ""
    return " ".join((plain or describe(flag)).split()).rstrip(".") + "."


def article(country: Country, flag: Flag) -> ArticleEntry:
    """Writes the article about a country.

    A country always gets the same text. An unknown fact gets no sentence.
    """
    rng = random.Random(seed_of(country["code"]))
    values = _values(country) | {"look": _capitalized(_look(flag, rng)), "look_again": _look(flag, None)}
    texts = []
    for section, groups in _groups(country).items():
        first, *rest = groups
        rng.shuffle(rest)
        keys = [key for group in (first, *rest) for key in group]
        texts.append(" ".join(rng.choice(_wordings()[section][key]).format_map(values) for key in keys))
    return {
        "title": country["name"],
        "url": url_of(country),
        "section_titles": [title or country["name"] for title in TITLES.values()],
        "section_texts": texts,
        "image_urls": [f"{PREFIX}/images/flag/{country['code']}.png"],
        "image_reference_descriptions": [f"Flag of {values['the']}"],
        "image_section_indices": [0],
    }


def articles(world: dict[str, Country] | None = None, flags: dict[str, Flag] | None = None) -> dict[str, ArticleEntry]:
    """Writes the knowledge base "flags of the world"; returns articles by URL, in the order of countries.csv.

    Args:
        world: Countries by code; the real ones by default.
        flags: Their flags by code.

    Raises:
        ValueError: A country has no flag.
    """
    world = world or countries()
    flags = flags or load_flags()
    missing = [code for code in world if code not in flags]
    if missing:
        raise ValueError(f"flags.toml: no flag for {', '.join(missing)}; add one line for each")
    return {url_of(country): article(country, flags[code]) for code, country in world.items()}
