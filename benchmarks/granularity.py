r"""Compares what step 1 can search (the paper's Table 5): Recall@K of images against four candidates for an entity.

    python benchmarks/granularity.py --profile embedded --kb kb_wiki.json --images . \
        --queries dev.csv --query-images queries [--kb-filter images/flag/] [--entity-filter images/flag/]

Builds one index each of summaries, titles, whole articles and main images with the profile's encoder (no tokens), and
searches it with the image of every question. A question counts as wrong if its image cannot be read, and, when main
images are searched, if its entity has none. `--kb-filter` selects entities of the knowledge base and their questions,
`--entity-filter` only questions. With `--out`, the indexes are kept and reused.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.subset import about, write_kb
from evaluation.datasets import Question, find_query_image, load
from evaluation.metrics import CUTOFFS, rank_of, recall_at_k
from indexes.build import build_index
from indexes.formats import read_knowledge_base
from indexes.manifest import Candidates
from indexes.store import Index
from indexes.summarizers import ExtractiveSummarizer
from omgm.parts import build_encoder, build_summarizer
from omgm.profile import load_profile
from omgm.settings import Profile
from retriever.images import load_image
from retriever.protocols import DualEncoder

logger = logging.getLogger(__name__)
_BATCH = 64


def granularity(
    profile: Profile, kb: Path, images: Path, questions: Sequence[Question], query_images: Path, out: Path
) -> list[dict[str, float | str]]:
    """Computes Recall@K of step 1 for each kind of candidate."""
    encoder = build_encoder(profile)
    vectors = encode_images(encoder, questions, query_images)
    rows: list[dict[str, float | str]] = []
    for candidates in get_args(Candidates):
        index = build_index(
            kb,
            images,
            out / candidates,
            # Only summaries that are searched are worth asking a server for.
            summarizer=build_summarizer(profile) if candidates in ("summary", "combined") else ExtractiveSummarizer(),
            encoder=encoder,
            fusion=None,
            candidates=candidates,
        )
        rows.append({"candidates": candidates} | recalls(index, questions, vectors))
    return rows


def encode_images(encoder: DualEncoder, questions: Sequence[Question], query_images: Path) -> dict[str, torch.Tensor]:
    """Returns the vector of every image by its id; unreadable ones are logged and left out."""
    vectors: dict[str, torch.Tensor] = {}
    ids = list(dict.fromkeys(question.image_id for question in questions))
    for start in range(0, len(ids), _BATCH):
        images = {}
        for image_id in ids[start : start + _BATCH]:
            path = find_query_image(query_images, image_id)
            try:
                if path is None:
                    raise ValueError(f"{query_images}: no image {image_id!r}")
                images[image_id] = load_image(path)
            except ValueError as error:
                logger.warning("%s: counts as wrong", error)
        vectors |= zip(images, encoder.encode_images(list(images.values())), strict=True)
    return vectors


def recalls(index: Index, questions: Sequence[Question], vectors: Mapping[str, torch.Tensor]) -> dict[str, float]:
    """Returns Recall@K of the questions over an index."""
    k = max(CUTOFFS)
    rankings: dict[str, list[tuple[str, float]]] = {}
    if vectors:
        scores, rows = index.search(torch.stack(list(vectors.values())), k)
        for image_id, row, score in zip(vectors, rows.tolist(), scores.tolist(), strict=True):
            rankings[image_id] = [(index.entity(r).id, s) for r, s in zip(row, score, strict=True) if r >= 0]
    ranks = [rank_of(question.entity_ids, rankings.get(question.image_id, [])) for question in questions]
    return {f"recall@{cutoff}": recall_at_k(ranks, cutoff) for cutoff in CUTOFFS}


def as_markdown(rows: Sequence[Mapping[str, float | str]]) -> str:
    """Returns the table in Markdown, in percent."""
    lines = ["| step 1 searches | " + " | ".join(f"R@{k}" for k in CUTOFFS) + " |", "| --- " * (len(CUTOFFS) + 1) + "|"]
    for row in rows:
        figures = " | ".join(f"{100 * float(row[f'recall@{k}']):.1f}" for k in CUTOFFS)
        lines.append(f"| image → {row['candidates']} | {figures} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="embedded", metavar="P", help="a name from configs/ or a file")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="SECTION.KEY=VALUE")
    parser.add_argument("--kb", type=Path, required=True, metavar="FILE", help="the knowledge base")
    parser.add_argument("--images", type=Path, required=True, metavar="DIR", help="the folder of its images")
    parser.add_argument("--dataset", default="evqa", metavar="NAME", help="evqa or infoseek (%(default)s)")
    parser.add_argument("--queries", type=Path, required=True, metavar="FILE", help="the questions")
    parser.add_argument("--query-images", type=Path, required=True, metavar="DIR", help="the folder of their images")
    parser.add_argument("--kb-filter", metavar="TEXT", help="search only entities whose main image or id contains it")
    parser.add_argument("--entity-filter", metavar="TEXT", help="ask only about such entities")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N questions, spread over the file")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to keep the indexes; by default they are deleted"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    profile = load_profile(args.profile, args.overrides)
    questions = load(args.dataset, args.queries)
    with tempfile.TemporaryDirectory(prefix="omgm-granularity-") as temporary:
        out = args.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        kb = args.kb
        if args.kb_filter is not None:
            kept = write_kb(args.kb, args.kb_filter, out)
            kb = out / f"kb_wiki{'.json' if args.kb.suffix.lower() == '.json' else '.jsonl'}"
            questions = [question for question in questions if not kept.isdisjoint(question.entity_ids)]
        entities = {entity.id: entity for entity in read_knowledge_base(kb)}
        if args.entity_filter is not None:
            wanted = {key for key, entity in entities.items() if about(entity, args.entity_filter)}
            questions = [question for question in questions if not wanted.isdisjoint(question.entity_ids)]
        if not questions:
            parser.error("no question is left")
        if args.limit is not None:
            questions = questions[:: -(-len(questions) // args.limit)]
        rows = granularity(profile, kb, args.images, questions, args.query_images, out)
    if args.json:
        report = {"profile": profile.name, "entities": len(entities), "questions": len(questions), "rows": rows}
        print(json.dumps(report, indent=2))
    else:
        print(f"{len(questions)} questions, {len(entities)} entities, profile {profile.name}\n\n{as_markdown(rows)}")


if __name__ == "__main__":
    main()
