"""Train step 2's fusion encoder on questions with mined negatives."""

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

ALPHA = 0.9
"""The paper's weight of step 1, where both models were trained on what they search; `omgm sweep` finds a better one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser)
    add_questions(parser)
    parser.add_argument("--negatives", type=Path, required=True, metavar="FILE", help="what mine-negatives wrote")
    add_training(parser)


def run(args: argparse.Namespace) -> None:
    """Trains and writes `profile.toml` beside the weights."""
    profile = profile_of(args)
    questions = load_questions(args)

    from omgm.parts import model_folder
    from training.train_reranker import train_reranker

    folder = train_reranker(
        model_folder(profile, "fusion"),
        existing(args.kb, "--kb"),
        existing(args.images, "--images"),
        questions,
        finder(args),
        existing(args.negatives, "--negatives"),
        args.out,
        encoder=model_folder(profile, "encoder"),
        seed=args.seed,
        **limits_of(args),
    )
    trained = write_trained(args, "fusion.model", folder, **{"fusion.alpha": ALPHA})
    print(f"trained; the next command takes --profile {trained}")
