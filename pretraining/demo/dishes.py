"""The demo's dishes: published photographs (pretraining/demo/dishes.toml says whose) with our own articles."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NotRequired, TypedDict

from PIL import Image, ImageEnhance

from pretraining.demo.articles import ArticleEntry
from pretraining.demo.facts import PREFIX
from pretraining.demo.questions import Row
from retriever.files import write_whole
from retriever.images import encoded, load_image

DISHES_FILE = Path(__file__).with_name("dishes.toml")
PHOTOGRAPHS = Path(__file__).with_name("dishes")
DATASET = "dishes"
_TITLES = {"lead": "", "ingredients": "Ingredients", "preparation": "Preparation"}
"""Titles in the article by key of dishes.toml; the lead has the article's title."""


class Dish(TypedDict):
    """A table of dishes.toml.

    Attributes:
        title: The article's title.
        author: Whose photograph it is.
        source: The photograph's file in the repository that it comes from.
        asked: The file of another photograph, which is asked about.
        lead: The article's first section.
        ingredients: The second.
        preparation: The third.
        question: A question about the photograph.
        answer: Its answer, as the article has it.
        evidence: The section with the answer, one of the three.
    """

    title: str
    author: str
    source: str
    asked: NotRequired[str]
    lead: str
    ingredients: str
    preparation: str
    question: str
    answer: str
    evidence: str


@cache
def dishes() -> Mapping[str, Dish]:
    """Returns the dishes by code, in the order in which they are shown."""
    found: dict[str, Dish] = tomllib.loads(DISHES_FILE.read_text(encoding="utf-8"))
    return found


def dish_articles() -> dict[str, ArticleEntry]:
    """Returns the articles about the dishes by URL."""
    return {_url_of(dish): _article(code, dish) for code, dish in dishes().items()}


def _url_of(dish: Dish) -> str:
    return f"{PREFIX}/wiki/{dish['title'].replace(' ', '_')}"


def _article(code: str, dish: Dish) -> ArticleEntry:
    return {
        "title": dish["title"],
        "url": _url_of(dish),
        "section_titles": [title or dish["title"] for title in _TITLES.values()],
        "section_texts": [dish["lead"], dish["ingredients"], dish["preparation"]],
        "image_urls": [f"{PREFIX}/images/dish/{code}.jpg"],
        "image_reference_descriptions": [f"{dish['title']}, photograph by {dish['author']}"],
        "image_section_indices": [0],
    }


def dish_questions() -> list[Row]:
    """Returns one question about each dish, in E-VQA's format."""
    return [_question(code, dish) for code, dish in dishes().items()]


def _question(code: str, dish: Dish) -> Row:
    section = list(_TITLES).index(dish["evidence"])
    title, text = dish["title"], (dish["lead"], dish["ingredients"], dish["preparation"])[section]
    return {
        "question": dish["question"],
        "answer": dish["answer"],
        "dataset_image_ids": code,
        "dataset_name": DATASET,
        "dataset_category_id": code,
        "question_type": "templated",
        "wikipedia_url": _url_of(dish),
        "wikipedia_title": title,
        "evidence": text,
        "evidence_section_id": str(section),
        "evidence_section_title": list(_TITLES.values())[section] or title,
        "encyclopedic_vqa_split": "test",
        "question_original": dish["question"],
        "wikipedia_url_used_in_train": "False",
    }


def write_photographs(folder: Path) -> None:
    """Writes `images/dish/<code>.jpg`, and what is asked about as `queries/<code>.jpg`.

    The latter is another photograph of the dish if there is one, else the same taken again by code.
    """
    for name in ("images/dish", "queries"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for code in dishes():
        content = (PHOTOGRAPHS / f"{code}.jpg").read_bytes()
        write_whole(folder / "images" / "dish" / f"{code}.jpg", content)
        asked = PHOTOGRAPHS / f"{code}-asked.jpg"
        taken = asked.read_bytes() if asked.is_file() else _taken_again(load_image(content), random.Random(code))
        write_whole(folder / "queries" / f"{code}.jpg", taken)


def _taken_again(image: Image.Image, rng: random.Random) -> bytes:
    """Returns a photograph turned, cropped and lit as a hand-held camera would, as a JPEG file."""
    turned = image.rotate(rng.uniform(-5, 5), Image.Resampling.BICUBIC)
    width, height = (round(side * rng.uniform(0.76, 0.84)) for side in image.size)
    left, top = (
        rng.randint(side // 14, side - part - side // 14)
        for side, part in zip(image.size, (width, height), strict=True)
    )
    cut = turned.crop((left, top, left + width, top + height))
    return encoded(ImageEnhance.Brightness(cut).enhance(rng.uniform(0.8, 1.2)), "JPEG", quality=88)
