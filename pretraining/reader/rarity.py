r"""Counts in how many passages of prose each stem occurs, for the weights of BM25 (`retriever/rarity.txt`).

    python -m pretraining.reader.rarity --squad new_wiki_v1.0.json train-v2.0.json --tokens val \
        --out retriever/rarity.txt

Articles of share 0 (`pretraining.reader.questions.share_of`) are left out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pretraining.reader.questions import read_squad, read_tokens, share_of
from retriever.files import write_whole
from retriever.lexical import STOP_WORDS, words

FREQUENT = 5
"""Fewest passages that must contain a stem; rarer stems are treated alike."""


def table(passages: Iterable[str]) -> str:
    """Returns a line per frequent stem with its number of passages, after a line with the number of all passages."""
    stems, count = Counter[str](), 0
    for passage in dict.fromkeys(passages):
        stems.update(set(words(passage)) - STOP_WORDS)
        count += 1
    rows = [("", count), *sorted(row for row in stems.items() if row[1] >= FREQUENT)]
    return "".join(f"{stem}\t{number}\n" for stem, number in rows)


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", type=Path, nargs="+", required=True, help="files in SQuAD's format")
    parser.add_argument("--tokens", type=Path, nargs="*", default=[], help="files of tokens, without their endings")
    parser.add_argument("--out", type=Path, required=True, help="table to write")
    args = parser.parse_args()
    questions = [question for path in args.squad for question in read_squad(path) if share_of(question.article)]
    questions += [question for path in args.tokens for question in read_tokens(path)]
    write_whole(args.out, table(question.passage for question in questions).encode())


if __name__ == "__main__":
    main()
