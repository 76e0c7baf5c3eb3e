"""Build the index of a knowledge base; run it again to resume a killed build."""

from __future__ import annotations

import argparse
import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.commands.common import (
    add_json,
    add_knowledge_base,
    add_max_bad,
    add_profile,
    add_questions,
    add_reading,
    add_seed,
    contents_of,
    describe,
    existing,
    images_of,
    labeled_of,
    print_json,
    profile_of,
    reading_of,
    seed_of,
)
from retriever.wording import counted, duration, gigabytes

if TYPE_CHECKING:
    from indexes.builder.estimate import Estimate

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_images=True)
    add_reading(parser)
    add_max_bad(parser)
    labeled = parser.add_argument_group("labeled images", "images of questions, further keys of the entities they show")
    add_questions(labeled, required=False)
    add_seed(labeled, "seed of the trainings: images that they hold out do not become keys")
    parser.add_argument("--out", type=Path, required=True, metavar="INDEX", help="the index's folder")
    parser.add_argument("--name", help="the index's name; by default the file's")
    parser.add_argument(
        "--no-tokens",
        dest="tokens",
        action="store_false",
        help="leave out what only steps 2 and 3 search: for mine-negatives and train-reranker, in a tenth of the time",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing index")
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="read images and run the models on a Ray cluster: host:port, or auto (docker/README.md)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="estimate time and space from a sample (a chat model is asked for its summaries); build nothing",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Builds the index and prints its contents and problems."""
    profile = profile_of(args)
    kb = existing(args.kb, "--kb")
    images = images_of(args)

    from evaluation.image_overlap import note_images
    from indexes.builder.chat_summarizer import ChatSummarizer
    from indexes.builder.report import counts_of, encoder_warning, ledger_of, problem_lines, read_report
    from indexes.image_copies import KnownImages
    from indexes.store.manifest import IMAGE_PROBLEMS, REPORT, keys_are_images
    from omgm import indexing
    from training.config import TrainingConfig
    from training.questions import is_held_out

    labeled = labeled_of(args)
    if labeled and not keys_are_images(profile.search.candidates):
        what = f"step 1 searches each entity's {profile.search.candidates} alone"
        logger.warning("--queries has no effect: %s; set search.candidates=combined to search labeled images", what)
    if labeled:  # without the held-out ones, which trainings validate on: as keys, they would find themselves
        share, seed = TrainingConfig().validation_share, seed_of(args, profile)
        contents = contents_of({image.image_id: image.path for image in labeled})
        labeled = [image for image in labeled if not is_held_out(contents[image.image_id], share, seed)]
    order = indexing.Build(
        kb=kb,
        out=args.out,
        images=images,
        labeled=labeled,
        name=args.name,
        tokens=args.tokens,
        overwrite=args.overwrite,
        cluster=args.cluster,
        **reading_of(args),
    )
    if args.dry_run:
        estimate = indexing.estimate(profile, order)
        if args.json:
            print_json(asdict(estimate))
        else:
            print("\n".join(_estimate_lines(estimate)))
        return
    with indexing.opened_summarizer(profile) as summarizer:
        index = indexing.build(profile, replace(order, summarizer=summarizer))
    note_images(args.out, KnownImages.of({image.image_id: image.path for image in labeled}))
    report = read_report(index.folder)
    # Not in report.json, which is the same for identical indexes.
    asked = summarizer.counts if isinstance(summarizer, ChatSummarizer) else None
    if args.json:
        asked_for = {} if asked is None else {"summaries": asdict(asked)}
        print_json(describe(index) | counts_of(report) | ledger_of(report) | asked_for)
        if warning := encoder_warning(report):
            logger.warning("%s", warning)
        return
    counts = index.manifest.counts
    print(
        f"{args.out}: {counted(counts.entities, 'entity')}, {counts.with_image:,} with an image, "
        f"{counted(counts.sections, 'section')}, {counts.token_sections:,} with tokens"
    )
    if index.manifest.search is not None:
        print(f"entity index: {index.manifest.search}")
    if asked is not None:
        print(f"summaries: {asked}")
    for line in problem_lines(report):
        print(line)
    if any(counts_of(report).values()):
        print(f"each with its reason: {index.folder / REPORT} and {IMAGE_PROBLEMS}")


def _estimate_lines(estimate: Estimate) -> list[str]:
    """Formats an estimate as lines of text."""

    def listed(parts: dict[str, str]) -> str:
        return ", ".join(f"{name} {value}" for name, value in parts.items())

    lines = [
        f"{counted(estimate.entities, 'entity')}, {counted(estimate.sections, 'section')}, "
        f"about {estimate.with_image:,} with an image; measured on {counted(estimate.sampled, 'entity')}",
        f"disk: {gigabytes(sum(estimate.bytes.values()))} "
        f"({listed({name: gigabytes(size) for name, size in estimate.bytes.items()})}), "
        f"and {gigabytes(estimate.temporary_bytes)} until it is finished",
        f"entity index: {estimate.search}",
    ]
    if estimate.requests:
        lines.append(
            f"summaries: {counted(estimate.requests, 'request')}, about {estimate.tokens_in:,} tokens in and "
            f"{estimate.tokens_out:,} out (4 characters a token)"
        )
    lines.append(
        f"time: about {duration(sum(estimate.seconds.values()))} "
        f"({listed({name: duration(seconds) for name, seconds in estimate.seconds.items()})})"
        + ("" if estimate.search == "flat" else ", and the training of the entity index")
    )
    return [*lines, "nothing was built"]
