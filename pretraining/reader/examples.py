r"""Writes the examples that the span model learns from, one JSON object a line.

    python -m pretraining.reader.examples --squad new_wiki_v1.0.json train-v2.0.json --tokens val \
        --qed qed-dev.jsonlines --infoboxes infotabs/data/tables --out examples

Writes `train.jsonl` and `last.jsonl` for the two trainings, and beside them `prose.jsonl`, `facts.jsonl` (validation)
and `facts-test.jsonl`, from articles and wordings that the training does not see. A fifth of SQuADShifts' articles (by
a hash of the title) is kept out altogether.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from pretraining.reader.facts import questions_about
from pretraining.reader.prose import TURNED, names_in, prose_questions, turned
from pretraining.reader.questions import SpanQuestion, read_evqa, read_qed, read_squad, read_tokens, share_of
from retriever.files import replacing
from retriever.wording import counted

LISTS, HELD_OUT_LISTS = 6000, 300
"""Number of lists of facts in training, and in validation and test."""
KEPT_OUT = "new_wiki"
"""Files whose name begins so have a fifth of their articles kept out."""
COLLECTIONS = ("Filtered Reddit", "Amazon Reviews")
"""Beginnings of titles that name no article: posts and reviews."""
Infobox = tuple[str, str, Mapping[str, Sequence[str]]]


def main() -> None:
    """Writes the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", type=Path, nargs="*", default=[], help="files in SQuAD's format")
    parser.add_argument("--tokens", type=Path, nargs="*", default=[], help="SQuAD as files of tokens")
    parser.add_argument("--qed", type=Path, nargs="*", default=[], help="files of QED")
    parser.add_argument("--evqa", type=Path, nargs="*", default=[], help="files with E-VQA's columns and evidence")
    parser.add_argument("--infoboxes", type=Path, required=True, help="InfoTabs' folder of tables")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="files whose questions must not occur")
    parser.add_argument("--last", type=int, default=9000, help="size of last.jsonl")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rng = random.Random(0)
    known, held_out = list[SpanQuestion](), list[SpanQuestion]()
    for path in args.squad:
        for question in read_squad(path):
            aside = path.name.startswith(KEPT_OUT) and share_of(question.article) == 0
            (held_out if aside else known).append(question)
    known += chain.from_iterable(map(read_qed, args.qed))
    found = [
        question._replace(article="") if question.article.startswith(COLLECTIONS) else question
        for question in prose_questions(known, rng)
    ]
    for question in chain.from_iterable(map(read_tokens, args.tokens)):  # whose articles are unknown
        found.append(question)
        if rng.random() < TURNED:
            found += turned(question, sorted(names_in([question.passage])), rng)
    found += chain.from_iterable(map(read_evqa, args.evqa))
    boxes, other_boxes = list[Infobox](), list[Infobox]()
    for box in read_infoboxes(args.infoboxes):
        (other_boxes if share_of(box[1]) == 0 else boxes).append(box)
    found += questions_about(boxes, LISTS, "ask", random.Random(1))
    unwanted = {question.lower() for path in args.without for question in _asked(path)}
    found = [question for question in found if question.question.lower() not in unwanted]
    rng.shuffle(found)
    write(found, args.out / "train.jsonl")
    write(held_out, args.out / "prose.jsonl")
    write(questions_about(other_boxes, HELD_OUT_LISTS, "validation", random.Random(2)), args.out / "facts.jsonl")
    write(questions_about(other_boxes, HELD_OUT_LISTS, "test", random.Random(3)), args.out / "facts-test.jsonl")
    lists = list(questions_about(boxes, LISTS // 2, "ask", random.Random(4)))
    last = [question for question in lists if question.question.lower() not in unwanted]
    last += rng.sample(found, max(args.last - len(last), 0))
    rng.shuffle(last)
    write(last, args.out / "last.jsonl")
    declined = sum(not question.answers for question in found)
    print(f"{counted(len(found), 'question')}, {declined} of them without an answer")


def read_infoboxes(folder: Path) -> list[Infobox]:
    """Reads InfoTabs' tables: kind, title, and values by label, of each."""
    kinds = dict(line.split("\t")[:2] for line in (folder / "table_categories.tsv").read_text().splitlines()[1:])
    found = []
    for path in sorted((folder / "json").glob("*.json")):
        table = json.loads(path.read_text(encoding="utf-8"))
        title = "".join(table.pop("title", [])[:1])
        found.append((kinds.get(path.stem, ""), title, table))
    return found


def _asked(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file)
        return [row["question"] for row in rows]


def write(questions: Iterable[SpanQuestion], path: Path) -> None:
    """Writes examples; each has a question, a text, its title, and answers with their places."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for question in questions:
            answers = [[answer.text, answer.start] for answer in question.answers]
            row = {
                "question": question.question,
                "text": question.passage,
                "title": question.article,
                "answers": answers,
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
