"""Measures how often step 3 finds the paragraph that a question was asked about, in any language.

    python -m benchmarks.sections xquad.de.json piaf-v1.0.json [--among 20] [--part odd] [--set sections.kind=bm25]

The files are in SQuAD's format. Paragraphs are searched in groups of successive ones, so those of a group belong to few
articles. Every second article is of the part "odd"; decisions were made on the others.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, islice
from pathlib import Path

from benchmarks.frame import arguments
from omgm.commands.common import add_profile, profile_of
from omgm.commands.numbers import positive
from omgm.parts import build_text_reranker
from retriever.protocols import TextReranker
from training.reader.questions import read_squad

PARTS = {"all": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}


def recall(path: Path, among: int, part: slice, reranker: TextReranker) -> tuple[float, int]:
    """Returns the share of questions whose paragraph scores highest in its group, and the number of questions.

    Raises:
        ValueError: The file has another format, or the part has no questions.
    """
    articles = defaultdict[str, dict[str, list[str]]](dict)  # article -> paragraph -> its questions
    for row in read_squad(path):
        articles[row.article].setdefault(row.passage, []).append(row.question)
    paragraphs = chain.from_iterable(article.items() for article in list(articles.values())[part])
    hits: list[bool] = []
    while group := list(islice(paragraphs, among)):
        texts = [text for text, _ in group]
        for right, (_, questions) in enumerate(group):
            for scores in reranker.score(questions, [texts] * len(questions)):
                hits.append(scores.argmax() == right and scores[right] > 0)
    if not hits:
        raise ValueError(f"{path}: no questions in this part; choose another --part")
    return sum(hits) / len(hits), len(hits)


def main() -> None:
    """Prints a line per file."""
    parser = arguments(__doc__, out="")
    parser.add_argument("files", type=Path, nargs="+", help="files in SQuAD's format")
    parser.add_argument("--among", type=positive, default=20, help="paragraphs per group")
    add_profile(parser)
    parser.add_argument("--part", choices=PARTS, default="all", help="articles by their position in the file")
    args = parser.parse_args()
    reranker = build_text_reranker(profile_of(args))
    for path in args.files:
        share, count = recall(path, args.among, PARTS[args.part], reranker)
        print(f"{path.name}: section recall@1 {share:.3f} of {count} questions", flush=True)


if __name__ == "__main__":
    main()
