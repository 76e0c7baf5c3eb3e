"""Adapt step 1 to a knowledge base with its pictures and, where given, labeled pictures of questions."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from omgm.commands.common import (
    add_kb_format,
    add_knowledge_base,
    add_profile,
    add_questions,
    add_training,
    existing,
    finder,
    images_of,
    limits_of,
    load_questions,
    profile_of,
    write_trained,
)

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_pictures=True)
    add_kb_format(parser)
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
        images_of(args),
        args.out,
        summarizer=build_summarizer(profile),
        labeled=_labeled(args) if args.queries is not None else (),
        kb_format=args.kb_format,
        seed=args.seed,
        **limits_of(args),
    )
    print(f"trained; the next command takes --profile {write_trained(args, 'encoder.model', folder)}")


def _labeled(args: argparse.Namespace) -> list[tuple[Path, str]]:
    """Returns each picture of the questions once, with the entity it shows; those without either are left out."""
    find = finder(args)
    questions = load_questions(args)
    shown = {question.image_id: question.entity_ids[0] for question in questions if question.entity_ids}
    labeled = [(path, entity) for image_id, entity in shown.items() if (path := find(image_id)) is not None]
    total = len({question.image_id for question in questions})
    if left_out := total - len(labeled):
        logger.warning("%d of %d pictures left out: they are missing, or no entity is named", left_out, total)
    return labeled
