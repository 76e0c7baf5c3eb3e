r"""Compares what step 3 may rank by, within the right article: words, meaning, both, and both with adapted questions.

    python -m benchmarks.section_ablation --squad dev-v2.0.json [--share 0] [--adapted trained/profile.toml]
    python -m benchmarks.section_ablation --index INDEX --queries dev.csv [--only dev_country]

Prints section recall@1 and, for each neighbor in the order of columns, the p-value of a paired randomization test.
Questions without an answer are left out, and so are articles with fewer than `--few` sections.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.frame import arguments
from evaluation.datasets import load
from evaluation.significance import difference
from indexes.store.index import Index
from omgm.commands.common import add_profile, profile_of
from omgm.parts import build_sections
from omgm.profile import load_profile
from retriever.models.bm25 import BM25
from retriever.models.hybrid import HybridReranker, best_cosines
from retriever.models.section_encoder import SectionEncoder
from retriever.texts import section_passage
from retriever.types import FloatArray
from training.reader.questions import read_squad, share_of


class AskedArticle(NamedTuple):
    """An article's sections, their windows, and its questions with the position of the section with the answer."""

    passages: list[str]
    windows: Sequence[NDArray[np.int8]]
    questions: list[tuple[str, int]]


def of_squad(path: Path, encoder: SectionEncoder, few: int, share: int | None) -> Iterator[AskedArticle]:
    """Yields the articles of a file in SQuAD's format, of one share of them if it is given (`share_of`)."""
    articles = defaultdict[str, tuple[dict[str, int], list[tuple[str, int]]]](lambda: ({}, []))
    for row in read_squad(path):
        if share is None or share_of(row.article) == share:
            numbers, questions = articles[row.article]
            number = numbers.setdefault(section_passage(row.article, "", row.passage), len(numbers))
            if row.answers:
                questions.append((row.question, number))
    for numbers, questions in articles.values():
        if len(numbers) >= few:
            yield AskedArticle(list(numbers), encoder.encode_passages(list(numbers)), questions)


def of_index(index: Index, queries: Path, only: str, few: int) -> Iterator[AskedArticle]:
    """Yields the articles of an index that questions about images whose id begins with `only` name."""
    asked = defaultdict[int, list[tuple[str, int]]](list)
    for question in load("evqa", queries):
        row = index.row_of(question.entity_ids[0])
        if row is not None and question.section_index is not None and question.image_id.startswith(only):
            asked[row].append((question.question, question.section_index))
    for row, questions in asked.items():
        entity, windows = index.entity(row), index.section_vectors(row)
        places = {section.index: place for place, section in enumerate(entity.sections)}
        if windows is not None and len(places) >= few:
            passages = [section_passage(entity.title, section.title, section.text) for section in entity.sections]
            known = [(text, places[number]) for text, number in questions if number in places]
            yield AskedArticle(passages, windows, known)


def scored(
    article: AskedArticle, systems: Mapping[str, tuple[SectionEncoder, float]]
) -> dict[str, Sequence[FloatArray]]:
    """Returns the scores of an article's sections for each question by BM25 and by each encoder and its weight."""
    questions = [text for text, _ in article.questions]
    lists = [article.passages] * len(questions)
    words = BM25(whole_question=True).score(questions, lists)
    cosines = dict[int, list[FloatArray]]()
    for encoder in {id(encoder): encoder for encoder, _ in systems.values()}.values():
        asked = HybridReranker(encoder, 1.0).encode(questions)
        cosines[id(encoder)] = [best_cosines(vector, article.windows) for vector in asked]
    found: dict[str, Sequence[FloatArray]] = {"BM25": words}
    for name, (encoder, weight) in systems.items():
        pairs = zip(words, cosines[id(encoder)], strict=True)
        found[name] = [(1 - weight) * by_words + weight * by_meaning for by_words, by_meaning in pairs]
    return found


def main() -> None:
    """Prints a table."""
    parser = arguments(__doc__, out="")
    parser.add_argument("--squad", type=Path, help="a file in SQuAD's format")
    parser.add_argument("--share", type=int, help="only this share of its articles, 0 to 4; 0 is held out")
    parser.add_argument("--index", type=Path, help="an index with vectors of sections")
    parser.add_argument("--queries", type=Path, help="questions about it, with E-VQA's columns")
    parser.add_argument("--only", default="", help="how the ids of their images begin")
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--adapted", nargs="*", default=[], help="profiles of trainings")
    parser.add_argument("--weights", type=float, nargs="*", default=[], help="further weights of the cosine")
    add_profile(parser)
    args = parser.parse_args()
    profile = profile_of(args)
    encoder = build_sections(profile)
    if args.squad:
        articles = list(of_squad(args.squad, encoder, args.few, args.share))
    else:
        articles = list(of_index(Index.open(args.index, sections=encoder), args.queries, args.only, args.few))
    usual = profile.sections.cosine_weight
    systems = {"dense": (encoder, 1.0), f"hybrid {usual:g}": (encoder, usual)}
    systems |= {f"hybrid {weight:g}": (encoder, weight) for weight in args.weights}
    for name in args.adapted:
        adapted = load_profile(name, [])
        own, named = build_sections(adapted), Path(name).parent.name
        systems[f"{named} dense"] = own, 1.0
        for weight in dict.fromkeys((adapted.sections.cosine_weight, *args.weights)):
            systems[f"{named} {weight:g}"] = own, weight
    hits = defaultdict[str, list[float]](list)
    for article in articles:
        for name, scores in scored(article, systems).items():
            gold = [position for _, position in article.questions]
            hits[name] += [float(one.argmax() == position) for one, position in zip(scores, gold, strict=True)]
    count = sum(len(article.questions) for article in articles)
    print(f"{count} questions about {len(articles)} articles")
    for name, shares in hits.items():
        print(f"{name:24} {np.mean(shares):.3f}")
    for first, second in pairwise(hits):
        found = difference(np.array(hits[first]), np.array(hits[second]))
        print(f"{first} -> {second}: {found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p = {found.p_value:.4f}")


if __name__ == "__main__":
    main()
