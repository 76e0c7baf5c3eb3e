r"""Writes public questions as a knowledge base with a file of questions, for `omgm train-encoder --sections`.

    python -m pretraining.public_sections --squad new_wiki_v1.0.json train-v2.0.json \
        --infoboxes infotabs/data/tables --out public

Writes `kb_wiki.json`, `train.csv` and, in wordings and about articles that the training does not see, `validation.csv`
and `test.csv`. A fifth of SQuADShifts' articles and of the infoboxes (by a hash of the title) is in the last two only.
Prose is as published: an article's paragraphs are its sections. Lists of facts are infoboxes by strangers and invented
values, cut into sections of one or several facts; what people ask is in `pretraining/reader/wordings.toml`.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from pretraining.reader.examples import KEPT_OUT, Infobox, read_infoboxes
from pretraining.reader.facts import LONGEST_VALUE, Fact, Split, concept_of, concepts, invented, written
from pretraining.reader.prose import pointing
from pretraining.reader.questions import read_squad, share_of
from retriever.files import replacing, write_whole
from retriever.wording import counted

LISTS, HELD_OUT_LISTS = 400, 60
"""Number of articles of facts in training, and in validation and in test."""
POINTING = 0.7
"""Share of the questions with their article's title that say "this" or "it" instead, as one does about an image."""
COLUMNS = (
    *("question", "answer", "dataset_image_ids", "question_type", "wikipedia_url", "wikipedia_title"),
    *("evidence", "evidence_section_id", "encyclopedic_vqa_split"),
)
FILES: Mapping[Split, str] = {"ask": "train.csv", "validation": "validation.csv", "test": "test.csv"}
_HEADINGS = ("Facts", "Details", "Data", "Overview", "Information", "Key figures", "Features", "Characteristics", "")
_SIMPLE: Mapping[Split, Sequence[str]] = {
    "ask": ("What is the {label}?", "What is {its} {label}?", "{label}?", "Which {label} does {it} have?"),
    "validation": ("What {label} is given for {it}?",),
    "test": ("What do you know about the {label}?",),
}
"""Wordings for labels that belong to no concept."""


class Article(NamedTuple):
    """An article: pairs of a section's title and text, and questions, each with an answer and its section's number."""

    title: str
    sections: list[tuple[str, str]]
    questions: list[tuple[str, str, int]]


def prose(path: Path, rng: random.Random) -> Iterator[Article]:
    """Yields the articles of a file in SQuAD's format, whose paragraphs become sections, with answerable questions."""
    articles = defaultdict[str, Article](lambda: Article("", [], []))
    numbers = dict[str, int]()
    for row in read_squad(path):
        if row.article not in articles:
            articles[row.article] = Article(row.article, [], [])
            numbers.clear()
        article = articles[row.article]
        if row.passage not in numbers:
            numbers[row.passage] = len(numbers)
            heading = row.article if not article.sections else rng.choice(("", "", row.article))
            article.sections.append((heading, row.passage))
        if row.answers:
            asked = pointing(row, rng).question if rng.random() < POINTING else row.question
            article.questions.append((asked, row.answers[0].text, numbers[row.passage]))
    yield from articles.values()


def facts_article(box: Infobox, split: Split, rng: random.Random) -> Article:
    """Returns an article of an infobox's facts and invented ones, with questions about them."""
    _, title, table = box
    facts = [Fact(label, value, concept_of(label)) for label, value in _real(table)]
    facts = rng.sample(facts, min(len(facts), rng.randint(6, 20)))
    able = [name for name, concept in concepts().items() if concept.values]
    for name in rng.sample(able, rng.randint(8, 40)):
        value = invented(rng.choice(concepts()[name].values), rng)
        facts.append(Fact(invented(rng.choice(concepts()[name].labels), rng), value, name))
    for at, fact in enumerate(facts):
        if fact.concept and rng.random() < 0.4:  # the same fact under another label
            facts[at] = fact._replace(label=invented(rng.choice(concepts()[fact.concept].labels), rng))
    rng.shuffle(facts)
    unique = {(fact.concept or fact.label.lower()): fact for fact in facts}
    return _written(title, list(unique.values()), split, rng)


def _real(table: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    for label, values in table.items():
        value = ", ".join(re.sub(r"\[[^\]]{0,12}\]|\s+", " ", value).strip(" ,;") for value in values[:6])
        if label.lower() != "title" and value and len(value) <= LONGEST_VALUE:
            yield label.strip(), value


def _written(title: str, facts: Sequence[Fact], split: Split, rng: random.Random) -> Article:
    article, at = Article(title, [], []), 0
    shortest, longest = rng.choice(((1, 1), (1, 4), (2, 6), (4, 9), (6, 14)))
    while at < len(facts):
        part = facts[at : at + rng.randint(shortest, longest)]
        at += len(part)
        alone = len(part) == 1 and rng.random() < 0.7
        heading = part[0].label.rpartition("/")[2] if alone else rng.choice(_HEADINGS)
        text = part[0].value if alone else written(part, None, rng)[0]
        known = [fact for fact in part if fact.concept] or list(part)
        for fact in rng.sample(known, min(len(known), 3)):
            if fact.value in text:
                asked = _wording(fact, title, split, rng)
                article.questions.append((asked, fact.value, len(article.sections)))
        article.sections.append((heading, text))
    return article


def _wording(fact: Fact, title: str, split: Split, rng: random.Random) -> str:
    known = fact.concept and (split != "ask" or rng.random() < 0.95)
    wording = rng.choice(concepts()[fact.concept].wordings[split] if known else _SIMPLE[split])
    label = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", fact.label.rpartition("/")[2])
    it = rng.choice(("it", "it", "this", "this thing", title))
    its = "its" if it in ("it", "this") else f"{it}'s"
    noun = rng.choice(("thing", "one", "item"))
    text = wording.replace("{its}", its).replace("{it}", it).replace("{noun}", noun)
    text = text.replace("{label}", label if label.isupper() else label.lower())
    return text[0].upper() + text[1:]


def asked_in(path: Path) -> set[str]:
    """Returns the questions of a CSV or JSON Lines file, in lower case."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file)
        return {row["question"].lower() for row in rows}


def write(splits: Mapping[Split, Sequence[Article]], unwanted: set[str], out: Path) -> None:
    """Writes the knowledge base and a file of questions per split, without questions that are unwanted."""
    out.mkdir(parents=True, exist_ok=True)
    entries, numbers = dict[str, dict[str, object]](), count()
    for split, articles in splits.items():
        with replacing(out / FILES[split]) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            rows = csv.DictWriter(file, COLUMNS)
            rows.writeheader()
            for article in articles:
                url = f"https://omgm.example/{next(numbers)}"
                titles, texts = zip(*article.sections, strict=True)
                entries[url] = {
                    "title": article.title or "Untitled",
                    "url": url,
                    "section_titles": titles,
                    "section_texts": texts,
                    "image_urls": [],
                    "image_section_indices": [],
                    "image_reference_descriptions": [],
                }
                for asked, answer, section in article.questions:
                    if asked.lower() not in unwanted:
                        about = (asked, answer.replace("|", "/"), "none", "automatic", url, article.title)
                        values = (*about, texts[section], section, "train" if split == "ask" else "val")
                        rows.writerow(dict(zip(COLUMNS, values, strict=True)))
    write_whole(out / "kb_wiki.json", json.dumps(entries, ensure_ascii=False).encode())


def main() -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", type=Path, nargs="*", default=[], help="files in SQuAD's format")
    parser.add_argument("--infoboxes", type=Path, required=True, help="InfoTabs' folder of tables")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="files whose questions must not occur")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rng = random.Random(0)
    splits: dict[Split, list[Article]] = {"ask": [], "validation": [], "test": []}
    for path in args.squad:
        for article in prose(path, rng):
            held_out = path.name.startswith(KEPT_OUT) and share_of(article.title) == 0
            splits["test" if held_out else "ask"].append(article)
    boxes, others = list[Infobox](), list[Infobox]()
    for box in read_infoboxes(args.infoboxes):
        (others if share_of(box[1]) == 0 else boxes).append(box)
    drawn: tuple[tuple[Split, int, list[Infobox]], ...] = (
        ("ask", LISTS, boxes),
        ("validation", HELD_OUT_LISTS, others[::2]),
        ("test", HELD_OUT_LISTS, others[1::2]),
    )
    for split, number, among in drawn:
        splits[split] += [facts_article(box, split, rng) for box in rng.sample(among, min(number, len(among)))]
    write(splits, {question for path in args.without for question in asked_in(path)}, args.out)
    for split, articles in splits.items():
        questions = sum(len(article.questions) for article in articles)
        print(f"{FILES[split]}: {counted(questions, 'question')} about {counted(len(articles), 'article')}")


if __name__ == "__main__":
    main()
