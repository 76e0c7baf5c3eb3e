"""Find, for each training question, the entities that step 1 takes for the right one."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import add_profile, add_questions, finder, load_questions, positive, profile_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument("--index", type=Path, required=True, metavar="INDEX", help="what build-index wrote")
    add_questions(parser)
    parser.add_argument("--k", type=positive, default=20, metavar="N", help="candidates a question (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the negatives")


def run(args: argparse.Namespace) -> None:
    """Writes the negatives."""
    profile = profile_of(args)
    questions = load_questions(args)

    from indexes.store import Index
    from omgm.parts import build_encoder
    from training.mine import mine_negatives

    encoder = build_encoder(profile)
    index = Index.open(args.index, encoder=encoder)
    count = mine_negatives(encoder, index, questions, finder(args), args.out, k=args.k)
    print(f"{args.out}: negatives of {count} pictures")
