"""Measures the extractive reader on the right section, and how often BM25 finds that section.

    python -m benchmarks.reader --evqa questions.csv [--errors 3]
    python -m benchmarks.reader --squad dev-v2.0.json
    python -m benchmarks.reader --squad new_wiki_v1.0.json --blind

`questions.csv` has the columns of Encyclopedic-VQA with `evidence` filled in. An answer is right if it equals a
reference after normalization or, for a numerical reference, if its first number is within 10 % of it. Files in SQuAD's
format are measured as by SQuAD 2.0's script: exact match (EM) and F1, separately for questions with and without an
answer; an abstention is right for the latter only. `--blind` keeps only articles that the weights were not trained on.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.frame import arguments
from generators.reader.reader import ExtractiveReader
from retriever.models.bm25 import BM25
from retriever.texts import section_passage
from retriever.types import Evidence
from training.reader.questions import SpanQuestion, normalize, overlap, read_evqa, read_squad, share_of

FEW = 10
"""Articles with fewer paragraphs are not searched: XQuAD has only five per article."""


def correct(answer: str | None, references: Sequence[str]) -> bool:
    for reference in references:
        if re.fullmatch(r"-?\d+(\.\d+)?", reference):
            found = re.search(r"-?\d+(?:\.\d+)?", (answer or "0").replace(",", ""))
            if found and abs(float(found[0]) - float(reference)) <= 0.1 * abs(float(reference)):
                return True
        elif answer is not None and normalize(answer) == normalize(reference):
            return True
    return False


def by_wording(questions: Sequence[SpanQuestion], reader: ExtractiveReader, errors: int) -> None:
    asked, right, silent = Counter[str](), Counter[str](), Counter[str]()
    wrong = defaultdict[str, dict[tuple[str, str], str]](dict)
    cache = dict[tuple[str, str], str | None]()
    for question in questions:
        key, wording = (question.question, question.passage), question.question
        if key not in cache:
            cache[key] = reader.read(wording, Evidence("", question.article, "", question.passage)).answer
        asked[wording] += 1
        silent[wording] += cache[key] is None
        if correct(cache[key], [answer.text for answer in question.answers]):
            right[wording] += 1
        else:
            wrong[wording][question.article, question.answers[0].text] = str(cache[key])
    for wording, count in sorted(asked.items(), key=lambda item: right[item[0]] / item[1]):
        print(f"{right[wording] / count:5.2f} {count:5d} silent {silent[wording]:4d}  {wording}")
        for (title, gold), answer in list(wrong[wording].items())[:errors]:
            print(f"             {title}: {answer!r} for {gold!r}")
    print(f"{right.total() / max(len(questions), 1):.3f} of {len(questions)}")


def by_overlap(questions: Sequence[SpanQuestion], reader: ExtractiveReader) -> None:
    """Prints SQuAD 2.0's scores: of questions with an answer (HasAns), without one (NoAns), and of all."""
    exact, f1, silent, times = list[float](), list[float](), list[bool](), list[float]()
    for question in questions:
        start = time.perf_counter()
        answer = reader.read(question.question, Evidence("", question.article, "", question.passage)).answer
        times.append(1e3 * (time.perf_counter() - start))
        text = normalize(answer or "")
        references = [normalize(reference.text) for reference in question.answers] or [""]
        silent.append(answer is None)
        exact.append(float(text in references))
        f1.append(max(overlap(text, reference) if reference else float(not text) for reference in references))
    answerable = np.array([bool(question.answers) for question in questions])
    for name, rows in (("HasAns", answerable), ("NoAns", ~answerable), ("all", np.ones(len(questions), bool))):
        if rows.any():
            scores = [float(np.array(values)[rows].mean()) for values in (exact, f1, silent)]
            print(f"{name}: {rows.sum()} questions: EM {scores[0]:.3f}, F1 {scores[1]:.3f}, abstained {scores[2]:.3f}")
    print(f"{np.median(times):.1f} ms per question (median), {np.quantile(times, 0.95):.1f} ms (p95)")


def section_recall(questions: Sequence[SpanQuestion], reranker: BM25) -> None:
    articles: dict[str, list[str]] = {}
    for question in questions:
        articles.setdefault(question.article, []).append(question.passage)
    sections = {title: list(dict.fromkeys(passages)) for title, passages in articles.items()}
    found = list[bool]()
    for question in questions:
        passages = sections[question.article]
        if question.answers and len(passages) >= FEW:
            texts = [section_passage(question.article, "", passage) for passage in passages]
            [scores] = reranker.score([question.question], [texts])
            found.append(passages[int(scores.argmax())] == question.passage)
    print(f"section recall@1 within the article: {np.mean(found or [False]):.3f} of {len(found)}")


def main() -> None:
    parser = arguments(__doc__, out="")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--evqa", type=Path, help="question file with evidence")
    source.add_argument("--squad", type=Path, nargs="+", help="files in SQuAD's format")
    parser.add_argument("--blind", action="store_true", help="only the fifth of the articles that training keeps out")
    parser.add_argument("--weights", type=Path, help="other weights than the shipped ones")
    parser.add_argument("--errors", type=int, default=0, help="wrong answers to print per wording (--evqa)")
    args = parser.parse_args()
    reader = ExtractiveReader(weights=args.weights) if args.weights else ExtractiveReader()
    if args.evqa:
        by_wording(list(read_evqa(args.evqa)), reader, args.errors)
        return
    questions = [question for path in args.squad for question in read_squad(path)]
    questions = [question for question in questions if not (args.blind and share_of(question.article))]
    by_overlap(questions, reader)
    section_recall(questions, BM25())


if __name__ == "__main__":
    main()
