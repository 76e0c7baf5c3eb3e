"""Adapt step 3's encoder of questions to the sections of an index that answer them."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_index,
    add_profile,
    add_query_map,
    add_training,
    load_rows,
    profile_of,
    provenance_of,
    seed_of,
    write_trained,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_index(parser)
    parser.add_argument(
        "--dataset", default="evqa", metavar="NAME", help="evqa, evqa-all, infoseek or plain (%(default)s)"
    )
    parser.add_argument(
        "--queries", type=Path, required=True, metavar="FILE", help="questions with their entities and sections"
    )
    add_query_map(parser)
    add_training(parser, "6 times the square root of the number of questions")
    parser.add_argument(
        "--max-bad", type=float, default=0.05, metavar="SHARE", help="share of bad questions that is accepted (0.05)"
    )


def run(args: argparse.Namespace) -> None:
    """Trains the encoder and writes `profile.toml` beside the weights, with the best weight of the cosine."""
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

    model = profile.sections.model
    trained = train_sections(
        Path(model).expanduser() if is_folder(model) else model,
        args.index,
        load_rows(args),
        args.out,
        TrainingConfig(
            steps=args.steps, minutes=args.minutes, seed=seed_of(args, profile), device=placement(profile)[0]
        ),
        weight=profile.sections.cosine_weight,
        max_bad=args.max_bad,
        provenance=provenance_of(model),
        overwrite=args.overwrite,
    )
    found = {} if trained.weight is None else {"sections.cosine_weight": trained.weight}
    written = write_trained(args, "sections.model", trained.folder, **found)
    print(*(f"{key} = {value:g} on held-out articles" for key, value in found.items()), sep="\n")
    print(f"trained; the index stays as it is; use it with --profile {written}")
