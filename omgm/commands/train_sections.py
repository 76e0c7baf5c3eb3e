"""Adapts step 3's encoder of questions: `omgm train-encoder --sections`."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import existing, load_rows, profile_of, provenance_of, seed_of, write_trained

MAX_BAD = 0.05
"""Share of bad questions that is accepted by default."""


def train(args: argparse.Namespace) -> None:
    """Adapts the encoder to the sections of an index that answer the questions.

    Writes `profile.toml` beside the weights, with the best weight of the cosine.
    """
    if args.index is None or args.queries is None:
        raise ValueError("--sections needs --index, and --queries with their entities and sections")
    if args.kb is not None or args.images is not None or args.query_images is not None:
        raise ValueError("--kb, --images and --query-images do not apply to --sections; remove them")
    index, profile = existing(args.index, "--index"), profile_of(args)
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
        index,
        load_rows(args),
        args.out,
        TrainingConfig(
            steps=args.steps, minutes=args.minutes, seed=seed_of(args, profile), device=placement(profile)[0]
        ),
        weight=profile.sections.cosine_weight,
        max_bad=MAX_BAD if args.max_bad is None else args.max_bad,
        provenance=provenance_of(model),
        overwrite=args.overwrite,
    )
    found = {} if trained.weight is None else {"sections.cosine_weight": trained.weight}
    written = write_trained(args, "sections.model", trained.folder, **found)
    print(*(f"{key} = {value:g} on held-out articles" for key, value in found.items()), sep="\n")
    print(f"trained; the index stays as it is; use it with --profile {written}")
