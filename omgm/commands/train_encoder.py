"""Adapt step 1 to a knowledge base and labeled images, or with --sections step 3 to questions."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_max_bad,
    add_profile,
    add_questions,
    contents_of,
    labeled_of,
    load_questions,
    load_rows,
    profile_of,
    seed_of,
)
from omgm.commands.training import (
    add_training,
    add_training_index,
    articles_of,
    provenance_of,
    training_index,
    write_trained,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_training_index(parser)
    add_max_bad(parser, listed="")
    add_questions(parser, required=False)
    parser.add_argument("--sections", action="store_true", help="adapt step 3's encoder of questions to --queries")
    add_training(parser, "20 times the square root of the number of images, or 6 times that of questions")


def run(args: argparse.Namespace) -> None:
    """Trains the encoder and writes `profile.toml` beside the weights."""
    if args.sections:
        _train_sections(args)
        return
    profile, labeled = profile_of(args), labeled_of(args)

    from evaluation.image_overlap import warn_of_main
    from omgm.parts import model_folder, placement
    from training.config import TrainingConfig
    from training.encoder_data import EncoderData
    from training.train_encoder import train_encoder

    config = TrainingConfig(
        steps=args.steps, minutes=args.minutes, seed=seed_of(args, profile), device=placement(profile)[0]
    )
    images = {image.image_id: image.path for image in labeled}
    data = EncoderData(
        **articles_of(args, profile),
        labeled=labeled,
        trim_borders=profile.search.trim_borders,
        contents=contents_of(images),
    )
    if images:
        warn_of_main(load_questions(args), images, data.index)
    folder = train_encoder(
        model_folder(profile, "encoder"),
        data,
        args.out,
        config,
        provenance=provenance_of(profile.encoder.model),
        overwrite=args.overwrite,
    )
    print(f"trained; use it with --profile {write_trained(args, 'encoder.model', folder, {}, images)}")


_MAX_BAD = 0.05
"""Share of bad questions that is accepted by default."""


def _train_sections(args: argparse.Namespace) -> None:
    """Adapts the encoder to the sections of an index that answer the questions.

    Writes `profile.toml` beside the weights, with the best weight of the cosine.
    """
    if args.queries is None:
        raise ValueError("--sections needs --queries with their entities and sections")
    if args.query_images is not None or (args.images is not None and args.kb is None):
        raise ValueError("--sections trains on texts: remove --query-images, and --images without --kb")
    profile = profile_of(args)
    if profile.sections.kind != "hybrid":
        raise ValueError(
            f'profile {profile.name}: sections.kind is "{profile.sections.kind}", which has no encoder to adapt; start '
            "from another profile, or pass --set sections.kind=hybrid --set sections.model=all-MiniLM-L6-v2"
        )

    from omgm.parts import placement
    from omgm.profile import is_folder
    from training.config import TrainingConfig
    from training.sections.train import train_sections

    model, rows = profile.sections.model, load_rows(args)
    questions = [row for row in rows if not isinstance(row, ValueError)]
    trained = train_sections(
        Path(model).expanduser() if is_folder(model) else model,
        training_index(args, profile, tokens=True),
        rows,
        args.out,
        TrainingConfig(
            steps=args.steps, minutes=args.minutes, seed=seed_of(args, profile), device=placement(profile)[0]
        ),
        weight=profile.sections.cosine_weight,
        max_bad=_MAX_BAD if args.max_bad is None else args.max_bad,
        provenance=provenance_of(model),
        overwrite=args.overwrite,
    )
    found = {} if trained.weight is None else {"sections.cosine_weight": trained.weight}
    written = write_trained(args, "sections.model", trained.folder, found, {}, questions)
    print(*(f"{key} = {value:g} on held-out articles" for key, value in found.items()), sep="\n")
    print(f"trained; the index stays as it is; use it with --profile {written}")
