"""Measures the reader's answers to questions about public collections, in wordings that no training or rule has seen.

    python -m tests.corpora.questions --corpora DIR [--half tune]

Check out each repository of `questions.toml` at its commit as `DIR/OWNER/NAME`; whatever is not there is left out.
`questions.csv` has the answers that count as right, separated by "|"; without one, the question is to be declined. The
reader gets the section with the answer; of a yes-or-no question, all sections.
"""

from __future__ import annotations

import argparse
import csv
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from generators.reader.reader import ExtractiveReader
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sections import FACTS
from retriever.types import Evidence, GenerationRequest, OtherSection

HERE = Path(__file__).parent
BEHIND = -0.02
"""How far step 3 ranks each further section of a yes-or-no question below the facts."""


def normalized(text: str) -> str:
    """Returns a text as answers are compared: without articles, punctuation and upper case."""
    return " ".join(re.sub(r"\W+", " ", re.sub(r"\b(?:the|an?)\b", " ", text.casefold())).split())


def sections_of(paths: Sequence[Path]) -> dict[str, list[Evidence]]:
    """Reads the sections of files and folders by the title of their entity; many may lack a title."""
    found = dict[str, list[Evidence]]()
    for path in paths:
        for entity in read_knowledge_base(path, skipped=SkippedEntries(1)):
            rows = (Evidence(entity.id, entity.title, part.title, part.text) for part in entity.sections)
            found.setdefault(entity.title, []).extend(rows)
    return found


def request_for(question: str, answers: Sequence[str], sections: Sequence[Evidence]) -> GenerationRequest:
    """Returns the question with the section whose value is an answer or else has one; by default with the facts."""
    facts = next((part for part in sections if part.section_title == FACTS and "\n" in part.text), sections[0])
    if answers[:1] in (["Yes"], ["No"]):
        others = tuple(OtherSection(part, BEHIND) for part in sections if part is not facts)
        return GenerationRequest(question, None, facts, others=others)

    def fit(part: Evidence) -> tuple[bool, bool, bool]:
        values = {line.split(": ", 1)[-1].strip(" .") for line in part.text.split("\n")}
        return not values.isdisjoint(answers), answers[0] in part.text, any(each in part.text for each in answers)

    return GenerationRequest(question, None, max(sections, key=fit) if answers else facts)


def main() -> None:
    """Prints right, wrong and declined answers of each collection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--half", choices=("tune", "report"))
    args = parser.parse_args()
    collections = tomllib.loads((HERE / "questions.toml").read_text(encoding="utf-8"))
    with (HERE / "questions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    reader = ExtractiveReader()
    for name, collection in collections.items():
        root = args.corpora / collection["repository"]
        if (args.half and collection["half"] != args.half) or not root.is_dir():
            continue
        sections = sections_of([root / path for path in collection["paths"]])
        counts = Counter[str]()
        for row in rows:
            if row["collection"] == name:
                answers = list(filter(None, row["answers"].split("|")))
                [reply] = reader.read_all([request_for(row["question"], answers, sections[row["title"]])])
                right = normalized(reply.answer or "") in map(normalized, answers)
                kind = "" if answers else "unanswerable, "
                counts[kind + ("declined" if reply.answer is None else "right" if right else "wrong")] += 1
        print(f"{collection['half']}, {name}: {dict(sorted(counts.items()))}")


if __name__ == "__main__":
    main()
