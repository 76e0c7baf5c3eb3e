r"""Measures how often answers are declined when a third of the entities are left out of the index.

    python -m benchmarks.left_out --kb kb_wiki.json --images DIR --dataset evqa --queries dev.csv --query-images DIR \
        --out DIR [--profile P]

A hash of their ids determines which entities are left out; every second question is asked.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from benchmarks.frame import arguments
from evaluation.datasets import find_query_image
from indexes.knowledge.knowledge_base import guess_format
from omgm.commands.common import add_knowledge_base, add_profile, add_questions, load_questions, profile_of
from omgm.indexing import build
from omgm.opening import open_retriever
from retriever.files import write_whole
from retriever.images import load_image
from retriever.recognition import is_declined
from retriever.types import Query

BATCH = 32


def left_out(entity_id: str) -> bool:
    """Returns whether an entity belongs to the third that is left out."""
    return hashlib.sha256(entity_id.encode()).digest()[1] % 3 == 0


def write_rest(kb: Path, out: Path) -> Path:
    """Writes the knowledge base (E-VQA's JSON, or JSON lines) without the left-out entities; returns the file."""
    text = kb.read_text(encoding="utf-8")
    if guess_format(kb) == "evqa":
        rest = json.dumps({key: entry for key, entry in json.loads(text).items() if not left_out(key)})
    else:
        rest = "".join(line + "\n" for line in text.splitlines() if not left_out(json.loads(line)["id"]))
    path = out / f"kb{kb.suffix}"
    write_whole(path, rest.encode())
    return path


def main() -> None:
    parser = arguments(__doc__, out="")
    add_profile(parser)
    add_knowledge_base(parser)
    add_questions(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the index goes")
    args = parser.parse_args()
    profile = profile_of(args)
    args.out.mkdir(parents=True, exist_ok=True)
    build(profile, write_rest(args.kb, args.out), args.out / "index", images=args.images)
    retriever = open_retriever(profile, args.out / "index")
    if retriever.recognition is None:
        parser.error(f"profile {profile.name} is not calibrated; run omgm sweep --recognition")
    held: list[bool] = []
    absent: list[bool] = []
    questions = load_questions(args)[::2]
    for start in range(0, len(questions), BATCH):
        queries, known = [], []
        for question in questions[start : start + BATCH]:
            path = find_query_image(args.query_images, question.image_id)
            if path is not None:
                queries.append(Query(load_image(path), question.question, question.id))
                known.append(not all(left_out(entity) for entity in question.entity_ids))
        for result, is_held in zip(retriever.retrieve(queries), known, strict=True):
            answered = not is_declined(result.recognized, retriever.recognition.threshold)
            (held if is_held else absent).append(answered)
    print(f"of {len(held)} questions about entities in the index, answered {sum(held) / max(1, len(held)):.3f}")
    print(f"of {len(absent)} about entities left out, declined {1 - sum(absent) / max(1, len(absent)):.3f}")


if __name__ == "__main__":
    main()
