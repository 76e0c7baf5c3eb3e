"""Adapt step 1 to a knowledge base with its images and, optionally, labeled images of questions."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands import train_sections
from omgm.commands.common import (
    add_knowledge_base,
    add_max_bad,
    add_profile,
    add_questions,
    add_reading,
    add_training,
    knowledge_of,
    labeled_of,
    profile_of,
    provenance_of,
    seed_of,
    write_trained,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_images=True, required=False)
    add_reading(parser)
    add_max_bad(parser, listed="")
    add_questions(parser, required=False)
    parser.add_argument("--sections", action="store_true", help="adapt step 3's encoder of questions to --queries")
    parser.add_argument("--index", type=Path, metavar="INDEX", help="with --sections, the index with their sections")
    add_training(parser, "20 times the square root of the number of images, or 6 times that of questions")


def run(args: argparse.Namespace) -> None:
    """Trains the encoder and writes `profile.toml` beside the weights."""
    if args.sections:
        train_sections.train(args)
        return
    if args.kb is None or args.index is not None:
        raise ValueError("name the knowledge base with --kb, or with --sections an index with --index")
    profile, labeled = profile_of(args), labeled_of(args)

    from omgm.parts import build_summarizer, model_folder, placement
    from training.config import TrainingConfig
    from training.encoder_data import EncoderData
    from training.train_encoder import train_encoder

    config = TrainingConfig(
        steps=args.steps, minutes=args.minutes, seed=seed_of(args, profile), device=placement(profile)[0]
    )
    data = EncoderData(
        **knowledge_of(args, profile),
        summarizer=build_summarizer(profile),
        labeled=labeled,
        trim_borders=profile.search.trim_borders,
    )
    folder = train_encoder(
        model_folder(profile, "encoder"),
        data,
        args.out,
        config,
        provenance=provenance_of(profile.encoder.model),
        overwrite=args.overwrite,
    )
    print(f"trained; use it with --profile {write_trained(args, 'encoder.model', folder)}")
