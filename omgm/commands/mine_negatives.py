"""Find hard negatives: the entities that step 1 ranks highest for each training question."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_max_bad,
    add_overwrite,
    add_profile,
    add_questions,
    check_known,
    finder,
    images_of,
    load_questions,
    profile_of,
)
from omgm.commands.training import (
    add_training_index,
    training_index,
)
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_training_index(parser)
    add_max_bad(parser, listed="")
    add_questions(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    add_overwrite(parser, lambda out: out.with_name(f"{out.name}.lock"))


def run(args: argparse.Namespace) -> None:
    """Mines hard negatives and writes them to the output file.

    With `--images` or `--kb`, the image of a gold entity that is most similar to the question's is recorded, else its
    main image.
    """
    profile = profile_of(args)
    questions = load_questions(args)

    from indexes.store.index import Index, check_candidates
    from omgm.originals import original_images
    from omgm.parts import build_encoder
    from training.mine import mine_negatives

    encoder = build_encoder(profile)
    folder, images = training_index(args, profile), images_of(args)
    index = Index.open(folder, verify=True, encoder=encoder, image_weight=profile.search.image_weight)
    check_candidates(index, profile.search.candidates)
    check_known(index, questions)
    count = mine_negatives(
        encoder,
        index,
        questions,
        finder(args),
        args.out,
        k=profile.search.k,
        images=original_images(folder, images if args.kb is None else None) if args.kb or images else None,
        trim_borders=profile.search.trim_borders,
        overwrite=args.overwrite,
    )
    print(f"{args.out}: negatives of {counted(count, 'image')}")
