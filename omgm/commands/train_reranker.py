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
"""The paper's weight of step 1, where both models were trained on what they search; `omgm sweep` finds a better one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_pictures=True)
    add_kb_format(parser)
    add_questions(parser)
    parser.add_argument("--negatives", type=Path, required=True, metavar="FILE", help="what mine-negatives wrote")
    add_training(parser)
    parser.add_argument(
        "--cache-gib",
        type=float,
        default=8.0,
        metavar="N",
        help="memory for the pictures' features; those that do not fit are computed each time (%(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Trains and writes `profile.toml` beside the weights."""
    profile = profile_of(args)
    questions = load_questions(args)

    from omgm.parts import model_folder, placement
    from training.train_reranker import shared_tower, train_reranker

    fusion = model_folder(profile, "fusion")
    folder = train_reranker(
        fusion,
        existing(args.kb, "--kb"),
        images_of(args),
        questions,
        finder(args),
        existing(args.negatives, "--negatives"),
        args.out,
        encoder=shared_tower(fusion, model_folder(profile, "encoder")),
        kb_format=args.kb_format,
        cache_gib=args.cache_gib,
        device=placement(profile)[0],
        seed=args.seed,
        **limits_of(args),
    )
    trained = write_trained(args, "fusion.model", folder, **{"fusion.alpha": ALPHA})
    print(f"trained; the next command takes --profile {trained}")
