"""Ask one question about one picture."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import add_json, add_profile, existing, print_json, profile_of

if TYPE_CHECKING:
    from indexes.store import Index
    from retriever.types import Evidence, Generation, RetrievalResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument("--index", type=Path, required=True, metavar="INDEX", help="what build-index wrote")
    parser.add_argument("image", type=Path, metavar="IMAGE", help="the picture")
    parser.add_argument("question", metavar="QUESTION", help="the question about it")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the answer with its entity and its evidence."""
    profile = profile_of(args)
    if not args.question.strip():
        raise ValueError("QUESTION is empty")
    existing(args.image, "IMAGE")

    from indexes.images import load_image
    from omgm.parts import build_generator, open_retriever
    from retriever.evidence import best_evidence
    from retriever.types import GenerationRequest, Query

    image = load_image(args.image)
    retriever, index = open_retriever(profile, args.index)
    generator = build_generator(profile)
    [found] = retriever.retrieve([Query(image, args.question)])
    evidence = best_evidence(index, found.candidates)
    [generation] = asyncio.run(generator.generate([GenerationRequest(args.question, image, evidence)]))
    if args.json:
        print_json(_as_dict(index, found, evidence, generation))
        return
    print(generation.answer if generation.answer is not None else "(no answer: nothing in the evidence fits)")
    if evidence is not None:
        print(f"\n{evidence.entity_title}, section {evidence.section_title!r}:\n{evidence.text}")
    print("\n" + "  ".join(f"{step} {ms:.1f} ms" for step, ms in found.timings_ms.items()))


def _as_dict(index: Index, found: RetrievalResult, evidence: Evidence | None, generation: Generation) -> dict[str, Any]:
    return {
        **asdict(generation),
        "abstained": generation.abstained,
        "evidence": None if evidence is None else asdict(evidence),
        "candidates": [
            {
                "entity": index.entity(candidate.row).id,
                "title": index.entity(candidate.row).title,
                "sim_c": candidate.sim_c,
                "sim_m": candidate.sim_m,
                "fused": candidate.score,
            }
            for candidate in found.candidates
        ],
        "timings_ms": found.timings_ms,
    }
