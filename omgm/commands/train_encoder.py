"""Adapt step 1 to a knowledge base with its pictures and, where given, labeled pictures of questions."""

from __future__ import annotations

import argparse

from omgm.commands.common import (
    add_knowledge_base,
    add_profile,
    add_questions,
    add_training,
    existing,
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

    from omgm.parts import build_summarizer
    from training.train_encoder import train_encoder

    folder = train_encoder(
        profile.encoder.path,
        existing(args.kb, "--kb"),
        existing(args.images, "--images"),
        args.out,
        summarizer=build_summarizer(profile),
        queries=args.queries and existing(args.queries, "--queries"),
        query_images=args.query_images and existing(args.query_images, "--query-images"),
        dataset=args.dataset,
        steps=args.steps,
        minutes=args.minutes,
        seed=args.seed,
    )
    print(f"trained; the next command takes --profile {write_trained(args, 'encoder.path', folder)}")
