"""Measures the extractive reader on the gold evidence, per wording, by rules like InfoSeek's.

    python -m benchmarks.reader --evqa questions.csv [--half seen|unseen] [--errors 3]

`questions.csv` has the columns of Encyclopedic-VQA with `evidence` filled. An answer is right if it equals a reference
after normalization or, for a reference that is a number, if its first number is within 10 % of it.
"""

from __future__ import annotations

import argparse
import csv
import re
import string
import time
import zlib
from collections import Counter, defaultdict
from pathlib import Path

from generators.reader.reader import ExtractiveReader
from retriever.types import Evidence


def normalize(text: str) -> str:
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


def correct(answer: str | None, references: list[str]) -> bool:
    for reference in references:
        if is_number(reference):
            found = re.search(r"-?\d+(?:\.\d+)?", (answer or "0").replace(",", ""))
            if found and abs(float(found[0]) - float(reference)) <= 0.1 * abs(float(reference)):
                return True
        elif answer is not None and normalize(answer) == normalize(reference):
            return True
    return False


def half_of(wording: str) -> str:
    return "seen" if zlib.crc32(wording.encode()) % 2 else "unseen"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evqa", type=Path, required=True, help="question file with evidence")
    parser.add_argument("--half", choices=["seen", "unseen"], help="only the wordings of one half")
    parser.add_argument("--errors", type=int, default=0, help="wrong answers to print per wording")
    args = parser.parse_args()
    with args.evqa.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["evidence"]]
    rows = [row for row in rows if args.half in (None, half_of(row["question"]))]
    reader, cache = ExtractiveReader(), dict[tuple[str, str], str | None]()
    asked, right, silent = Counter[str](), Counter[str](), Counter[str]()
    wrong = defaultdict[str, dict[tuple[str, str], str]](dict)
    start = time.perf_counter()
    for row in rows:
        key, wording = (row["question"], row["evidence"]), row["question"]
        if key not in cache:
            evidence = Evidence("", row["wikipedia_title"], row["evidence_section_title"], row["evidence"])
            cache[key] = reader.read(wording, evidence).answer
        answer, references = cache[key], row["answer"].split("|")
        asked[wording] += 1
        silent[wording] += answer is None
        if correct(answer, references):
            right[wording] += 1
        else:
            wrong[wording][row["wikipedia_title"], row["answer"]] = str(answer)
    seconds = time.perf_counter() - start
    for wording, count in sorted(asked.items(), key=lambda item: right[item[0]] / item[1]):
        print(f"{right[wording] / count:5.2f} {count:5d} silent {silent[wording]:4d}  {wording}")
        for (title, gold), answer in list(wrong[wording].items())[: args.errors]:
            print(f"             {title}: {answer!r} for {gold!r}")
    accuracy = sum(right.values()) / max(len(rows), 1)
    print(f"{accuracy:.3f} of {len(rows)}; {1e3 * seconds / max(len(cache), 1):.2f} ms each")


if __name__ == "__main__":
    main()
