"""Train step 2's fusion encoder on questions with mined negatives."""

from __future__ import annotations

import argparse
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

ALPHA = 0.9
"""The paper's weight of step 1, for models trained on what they search; `omgm sweep` can find a better one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_images=True)
    add_kb_format(parser)
    add_questions(parser)
    parser.add_argument("--negatives", type=Path, required=True, metavar="FILE", help="the output of mine-negatives")
    add_training(parser)
    parser.add_argument(
        "--cache-gib",
        type=float,
        default=8.0,
        metavar="N",
        help="memory for image features; those that do not fit are computed at every use (%(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Trains the fusion encoder and writes `profile.toml` beside the weights."""
    profile = profile_of(args)
    questions = load_questions(args)

    from omgm.parts import model_folder, placement
    from training.config import RerankerTrainingConfig
    from training.train_reranker import RerankerData, shared_tower, train_reranker

    config = RerankerTrainingConfig(
        seed=args.seed, device=placement(profile)[0], cache_gib=args.cache_gib, **limits_of(args)
    )
    data = RerankerData(
        kb=existing(args.kb, "--kb"),
        images=images_of(args),
        questions=questions,
        query_image_of=finder(args),
        negatives=existing(args.negatives, "--negatives"),
        kb_format=args.kb_format,
        drop_sections=profile.index.drop_sections,
    )
    fusion = model_folder(profile, "fusion")
    tower = shared_tower(fusion, model_folder(profile, "encoder"))
    folder = train_reranker(fusion, data, args.out, config, encoder=tower)
    trained = write_trained(args, "fusion.model", folder, **{"fusion.alpha": ALPHA})
    print(f"trained; use it with --profile {trained}")
