"""Facts about the world's countries and how they are written (countries.csv, README.md)."""

from __future__ import annotations

import csv
import zlib
from functools import cache
from pathlib import Path

COUNTRIES_FILE = Path(__file__).with_name("countries.csv")
Country = dict[str, str]
"""A row of countries.csv: text by column name, empty if the fact is unknown; `|` separates the items of a list."""

PREFIX = "https://omgm.example"
WITH_ARTICLE = {
    "Bahamas",
    "Central African Republic",
    "Comoros",
    "DR Congo",
    "Dominican Republic",
    "Gambia",
    "Ivory Coast",
    "Maldives",
    "Marshall Islands",
    "Netherlands",
    "Ottoman Empire",
    "Philippines",
    "Republic of the Congo",
    "Solomon Islands",
    "Soviet Union",
    "United Arab Emirates",
    "United Kingdom",
    "United States",
}
UNITS = {
    "area_km2": "square kilometers",
    "coastline_km": "kilometers",
    "railways_km": "kilometers",
    "highest_point_m": "meters",
    "life_expectancy_years": "years",
    "median_age_years": "years",
}


@cache
def countries() -> dict[str, Country]:
    """Returns the rows of countries.csv by lower-case ISO code, in the file's order.

    Raises:
        ValueError: A row lacks its code or name.
    """
    with COUNTRIES_FILE.open(encoding="utf-8", newline="") as file:
        rows = {row["code"]: dict(row) for row in csv.DictReader(file)}
    for code, row in rows.items():
        if not code or not row["name"]:
            raise ValueError(f"{COUNTRIES_FILE}: row {row}: needs a code and a name")
    return rows


def seed_of(code: str) -> int:
    """Returns a number that depends on `code` alone; unlike `hash`, it is the same on every machine."""
    return zlib.crc32(code.encode())


def url_of(country: Country) -> str:
    """Returns the URL of a country's article, its entity id in the knowledge base."""
    return f"{PREFIX}/wiki/{country['name'].replace(' ', '_')}"


def with_article(name: str) -> str:
    """Returns a country's name as written inside a sentence.

    Example:
        >>> with_article("Netherlands"), with_article("France")
        ('the Netherlands', 'France')
    """
    return f"the {name}" if name in WITH_ARTICLE else name


def items(country: Country, field: str) -> list[str]:
    """Returns the items of a list field, such as `borders`; empty if the fact is unknown."""
    return [item for item in country[field].split("|") if item]


def join(parts: list[str]) -> str:
    """Joins items into a list in prose.

    Example:
        >>> join(["Iran", "Iraq", "Syria"])
        'Iran, Iraq and Syria'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""


def grouped(number: str) -> str:
    """Writes a number with thousands separators; decimals are kept.

    Example:
        >>> grouped("652230"), grouped("66.5")
        ('652,230', '66.5')
    """
    whole, _, decimals = number.partition(".")
    return f"{int(whole):,}" + (f".{decimals}" if decimals else "")


def rounded(number: str) -> str:
    """Writes a large count the way people say it; returns `""` below a million.

    Example:
        >>> rounded("47735685"), rounded("1407181209"), rounded("9930")
        ('47.7 million', '1.41 billion', '')
    """
    value = int(number)
    if value >= 10**9:
        return f"{value / 10**9:.2f} billion"
    return f"{value / 10**6:.1f} million" if value >= 10**6 else ""


def written(country: Country, field: str) -> str:
    """Writes a fact the way articles and answers both do; returns `""` if it is unknown."""
    value = country[field]
    if not value:
        return ""
    if field in UNITS:
        return f"{grouped(value)} {UNITS[field]}"
    if field == "population":
        return grouped(value)
    if field == "borders":
        return join([with_article(name) for name in items(country, field)])
    if field in ("capital", "currencies", "languages"):
        return join(items(country, field))
    if field == "river":
        return f"the {value}"
    if field == "independence_from":
        return with_article(value)
    return value
