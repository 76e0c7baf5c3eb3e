"""Measures Recall@10 of `text_search` on questions in SQuAD's format: is the question's paragraph among the first ten?

Each argument is one collection: JSON files joined by commas. All are cut to the paragraphs of the smallest one, because
recall depends on how many paragraphs there are.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

from retriever.types import Entity, Section
from search_agents.tools.fulltext import FullText


@dataclass(frozen=True)
class Collection:
    """Articles with their paragraphs as sections, and questions, each with the row and position of its paragraph."""

    articles: list[Entity]
    questions: list[tuple[str, int, int]]

    @property
    def paragraphs(self) -> int:
        """The number of paragraphs."""
        return sum(len(article.sections) for article in self.articles)

    def cut(self, paragraphs: int) -> Collection:
        """Returns the first articles that have at most a number of paragraphs, with their questions."""
        count, rows = 0, 0
        for article in self.articles:
            count += len(article.sections)
            rows += count <= paragraphs
        return Collection(self.articles[:rows], [one for one in self.questions if one[1] < rows])

    def entity(self, row: int) -> Entity:
        """Returns an article."""
        return self.articles[row]

    def row_of(self, id_: str) -> int | None:
        """Returns the row of an article."""
        return next((row for row, article in enumerate(self.articles) if article.id == id_), None)

    def __len__(self) -> int:
        """Returns the number of articles."""
        return len(self.articles)


def main() -> None:
    """Prints a row for each collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+", metavar="FILES")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--no-titles", action="store_true", help="search the texts alone")
    options = parser.parse_args()
    collections = [read(files.split(","), options.no_titles) for files in options.collections]
    least = min(collection.paragraphs for collection in collections)
    print("| collection | paragraphs | questions | Recall@1 | Recall@10 | ms per search |")
    print("| --- | --- | --- | --- | --- | --- |")
    for files, whole in zip(options.collections, collections, strict=True):
        collection = whole.cut(least)
        step = max(1, len(collection.questions) // options.questions)
        asked = collection.questions[::step][: options.questions]
        full_text = FullText(collection)  # type: ignore[arg-type]
        full_text.search("first", 1)
        start = time.process_time()
        ranks = [rank(full_text, *question) for question in asked]
        milliseconds = (time.process_time() - start) * 1000 / len(asked)
        first, ten = (sum(found is not None and found < k for found in ranks) / len(asked) for k in (1, 10))
        name = Path(files.split(",")[0]).name
        print(f"| {name} | {collection.paragraphs} | {len(asked)} | {first:.2f} | {ten:.2f} | {milliseconds:.1f} |")


def read(files: list[str], no_titles: bool) -> Collection:
    """Reads files in SQuAD's format."""
    articles: list[Entity] = []
    questions: list[tuple[str, int, int]] = []
    for file in files:
        for one in json.loads(Path(file).read_text(encoding="utf-8"))["data"]:
            row, texts = len(articles), [paragraph["context"] for paragraph in one["paragraphs"]]
            title = "" if no_titles else str(one.get("title", "")).replace("_", " ")
            sections = tuple(Section("", text, position) for position, text in enumerate(texts))
            articles.append(Entity(f"{file}#{row}", title, sections))
            questions += [
                (question["question"], row, position)
                for position, paragraph in enumerate(one["paragraphs"])
                for question in paragraph["qas"]
            ]
    return Collection(articles, questions)


def rank(full_text: FullText, question: str, row: int, position: int) -> int | None:
    """Returns the rank of the question's paragraph from 0, or `None` if it is not among the first ten."""
    found = [(place.row, place.position) for place in full_text.search(question, 10)]
    return found.index((row, position)) if (row, position) in found else None


if __name__ == "__main__":
    main()
