"""Measures how often BM25 finds the paragraph that a question was asked about, in any language.

    python -m benchmarks.sections xquad.de.json piaf-v1.0.json [--among 20] [--part odd]

The files are in SQuAD's format. Paragraphs are searched in groups of successive ones, so those of a group belong to few
articles. Every second article is of the part "odd"; decisions were made on the others.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

from retriever.models.bm25 import BM25

PARTS = {"all": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}


def recall(path: Path, among: int, part: slice) -> tuple[float, int]:
    """Returns the share of questions whose paragraph scores highest in its group, and the number of questions."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"][part]
    paragraphs = iter([paragraph for article in articles for paragraph in article["paragraphs"]])
    found = count = 0
    while group := list(islice(paragraphs, among)):
        texts = [paragraph["context"] for paragraph in group]
        for right, paragraph in enumerate(group):
            questions = [row["question"] for row in paragraph["qas"]]
            for scores in BM25().score(questions, [texts] * len(questions)):
                found += int(scores.argmax() == right and scores[right] > 0)
                count += 1
    return found / count, count


def main() -> None:
    """Prints a line per file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="files in SQuAD's format")
    parser.add_argument("--among", type=int, default=20, help="paragraphs per group")
    parser.add_argument("--part", choices=PARTS, default="all", help="articles by their position in the file")
    args = parser.parse_args()
    for path in args.files:
        share, count = recall(path, args.among, PARTS[args.part])
        print(f"{path.name}: section recall@1 {share:.3f} of {count} questions", flush=True)


if __name__ == "__main__":
    main()
