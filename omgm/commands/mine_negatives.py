"""Find hard negatives: the entities that step 1 ranks highest for each training question."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_index,
    add_overwrite,
    add_profile,
    add_questions,
    check_known,
    finder,
    images_of,
    load_questions,
    profile_of,
)
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_index(parser)
    add_questions(parser)
    parser.add_argument(
        "--images",
        type=Path,
        metavar="DIR",
        help="the knowledge base's images, to record the gold entity's image most similar to the question's",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    """Mines hard negatives and writes them to the output file."""
    profile = profile_of(args)
    questions = load_questions(args)

    from indexes.knowledge.sources import open_images
    from indexes.store.index import Index, check_candidates
    from omgm.parts import build_encoder
    from training.mine import mine_negatives

    encoder = build_encoder(profile)
    index = Index.open(args.index, encoder=encoder, image_weight=profile.search.image_weight)
    check_candidates(index, profile.search.candidates)
    check_known(index, questions)
    images = images_of(args)
    source = None if images is None else open_images(images, images, "")
    count = mine_negatives(
        encoder,
        index,
        questions,
        finder(args),
        args.out,
        k=profile.search.k,
        images=source,
        trim_borders=profile.search.trim_borders,
        overwrite=args.overwrite,
    )
    print(f"{args.out}: negatives of {counted(count, 'image')}")
