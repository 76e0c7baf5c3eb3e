"""Adapt step 1 to a knowledge base with its images and, optionally, labeled images of questions."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from omgm.commands.common import (
    add_knowledge_base,
    add_profile,
    add_questions,
    add_reading,
    add_training,
    existing,
    finder,
    images_of,
    limits_of,
    load_questions,
    origin_of,
    profile_of,
    reading_of,
    write_trained,
)

if TYPE_CHECKING:
    from training.train_encoder import LabeledImage

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_images=True)
    add_reading(parser)
    add_questions(parser, required=False)
    add_training(parser)


def run(args: argparse.Namespace) -> None:
    """Trains the encoder and writes `profile.toml` beside the weights."""
    if (args.queries is None) != (args.query_images is None):
        raise ValueError("--queries and --query-images must be given together")
    profile = profile_of(args)

    from omgm.parts import build_summarizer, model_folder, placement
    from training.config import TrainingConfig
    from training.train_encoder import EncoderData, train_encoder

    config = TrainingConfig(seed=args.seed, device=placement(profile)[0], **limits_of(args))
    data = EncoderData(
        kb=existing(args.kb, "--kb"),
        images=images_of(args),
        summarizer=build_summarizer(profile),
        labeled=_labeled(args) if args.queries is not None else (),
        **reading_of(args),
        drop_sections=profile.index.drop_sections,
    )
    folder = train_encoder(
        model_folder(profile, "encoder"), data, args.out, config, origin=origin_of(profile.encoder.model)
    )
    print(f"trained; use it with --profile {write_trained(args, 'encoder.model', folder)}")


def _labeled(args: argparse.Namespace) -> list[LabeledImage]:
    """Returns each image of the questions once, with the entity it shows; images without either are left out."""
    from training.train_encoder import LabeledImage

    find = finder(args)
    questions = load_questions(args)
    entity_of = {question.image_id: question.entity_ids[0] for question in questions if question.entity_ids}
    labeled = [
        LabeledImage(image_id, path, entity)
        for image_id, entity in entity_of.items()
        if (path := find(image_id)) is not None
    ]
    total = len({question.image_id for question in questions})
    if left_out := total - len(labeled):
        logger.warning("%d of %d images left out: the file is missing, or no entity is named", left_out, total)
    return labeled
