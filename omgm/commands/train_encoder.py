"""Adapt step 1 to a knowledge base with its pictures and, where given, labeled pictures of questions."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_knowledge_base,
    add_profile,
    add_questions,
    add_training,
    existing,
    finder,
    limits_of,
    load_questions,
    profile_of,
    write_trained,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser)
    add_questions(parser, required=False)
    add_training(parser)


def run(args: argparse.Namespace) -> None:
    """Trains and writes `profile.toml` beside the weights."""
    if (args.queries is None) != (args.query_images is None):
        raise ValueError("--queries and --query-images go together")
    profile = profile_of(args)

    from omgm.parts import build_summarizer, model_folder
    from training.train_encoder import train_encoder

    folder = train_encoder(
        model_folder(profile, "encoder"),
        existing(args.kb, "--kb"),
        existing(args.images, "--images"),
        args.out,
        summarizer=build_summarizer(profile),
        labeled=_labeled(args) if args.queries is not None else (),
        seed=args.seed,
        **limits_of(args),
    )
    print(f"trained; the next command takes --profile {write_trained(args, 'encoder.model', folder)}")


def _labeled(args: argparse.Namespace) -> list[tuple[Path, str]]:
    """Returns each picture of the questions once, with the entity it shows; those that are missing are left out."""
    find = finder(args)
    shown = {question.image_id: question.entity_ids[0] for question in load_questions(args)}
    return [(path, entity) for image_id, entity in shown.items() if (path := find(image_id)) is not None]
