"""Writes questions whose evidence is a list of labeled values, as in infoboxes and data sheets.

    python -m pretraining.demo.records --out questions.csv

Half of the questions are about such a list, half about the articles' prose. They are training data for the extractive
reader (`pretraining/reader`), which otherwise learns from prose alone. Every fourth country is left out.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from pretraining.demo.build import write_rows
from pretraining.demo.facts import Country, countries, seed_of, written
from pretraining.demo.questions import Row, questions

LABELS = {
    "official_name": ("Official name", "Full name", "Country name: conventional long form"),
    "capital": ("Capital", "Capital: name", "Capital city"),
    "subregion": ("Region", "Location", "Part of the world"),
    "area_km2": ("Area", "Area: total", "Total area", "Surface"),
    "population": ("Population", "Inhabitants", "Population: total"),
    "languages": ("Languages", "Official languages", "Spoken languages"),
    "currencies": ("Currency", "Money", "Currency and exchange"),
    "borders": ("Border countries", "Neighbors", "Land boundaries: border countries"),
    "coastline_km": ("Coastline", "Length of the coast"),
    "highest_point": ("Highest point", "Elevation: highest point", "Highest mountain"),
    "river": ("Longest river", "Major rivers", "River"),
    "government": ("Government type", "Form of government", "Government and politics"),
    "national_day": ("National holiday", "National day"),
    "national_day_date": ("Date of the national day", "Celebrated on"),
    "independence_year": ("Year of independence", "Independence", "Independent since"),
    "independence_from": ("Independence from", "Former ruler"),
    "anthem": ("National anthem", "National anthem: title", "Anthem"),
    "life_expectancy_years": ("Life expectancy at birth", "Life expectancy", "Life expectancy: total population"),
    "median_age_years": ("Median age", "Median age: total", "Age (median)"),
    "railways_km": ("Railways", "Railways: total", "Length of railways"),
    "internet_code": ("Internet country code", "Top-level domain", "Domain"),
    "calling_code": ("Calling code", "Telephone code"),
    "demonym": ("Demonym", "Nationality: noun"),
}
"""Labels for each fact."""
DETAILS = ("", "", "", "", " (2025 est.)", " (est.)", ", rounded")
SEPARATORS = ("\n", "\n", "; ", " ", ";\n")


def sheet(country: Country, rng: random.Random) -> str:
    """Writes the facts about a country as labeled values in random order."""
    fields = [field for field in LABELS if country[field]]
    fields = rng.sample(fields, rng.randint(2 * len(fields) // 3, len(fields)))
    lines = []
    for field in fields:
        value = written(country, field)
        detail = rng.choice(DETAILS) if value[0].isdigit() else ""
        lines.append(f"{rng.choice(LABELS[field])}: {value.removeprefix('the ')}{detail}")
    return rng.choice(SEPARATORS).join(lines)


def reading_questions(rng: random.Random) -> list[Row]:
    """Writes four questions about each country, half of them about a list of labeled values that holds the answer."""
    world = {code: country for code, country in countries().items() if seed_of(code) % 4}
    rows = questions(rng, 4, world=world)
    for row in rows[::2]:
        text = sheet(world[row["dataset_category_id"]], rng)
        if row["answer"].split("|")[0].split("&&")[0] in text:
            row["evidence"] = text
    return rows


def main() -> None:
    """Writes the questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="CSV file to write, with the columns of E-VQA")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write_rows(args.out, reading_questions(random.Random(args.seed)))


if __name__ == "__main__":
    main()
