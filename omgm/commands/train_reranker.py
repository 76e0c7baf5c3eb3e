"""Train step 2's fusion encoder on questions with mined negatives; under torchrun, on several devices."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from omgm.commands.common import (
    add_profile,
    add_questions,
    contents_of,
    existing,
    finder,
    load_rows,
    profile_of,
    seed_of,
)
from omgm.commands.training import (
    add_fields,
    add_training,
    add_training_index,
    articles_of,
    provenance_of,
    write_trained,
)
from training.reranker.config import PRECISIONS, RerankerTrainingConfig

_RECIPE = {
    "epochs": "passes over all questions, without --steps (those of the recipe)",
    "batch_size": "questions per process and accumulation step",
    "accumulate": "gradient accumulation steps",
    "learning_rate": "peak learning rate",
    "warmup": "share of the run used for warm-up, in 0..1",
}
_MEMORY = {
    "tokens_per_forward": "tokens that go through the Q-Former at once, at most (8192, or 32768 on a GPU)",
    "workers": "processes that decode images; by default one per core beside a GPU",
}
"""What the flags for fields of `RerankerTrainingConfig` are for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_training_index(parser)
    add_questions(parser)
    parser.add_argument("--negatives", type=Path, required=True, metavar="FILE", help="the output of mine-negatives")
    parser.add_argument(
        "--negatives-order",
        choices=("list", "scores", "distances"),
        help="what puts entities in order, if the file of negatives contradicts itself: their place in the list, "
        "scores (higher is better) or distances (lower is better)",
    )
    parser.add_argument(
        "--negatives-partial",
        action="store_true",
        help="accept negatives of which less than half is in the index, or for less than half of the questions",
    )
    add_training(parser, "as many as the epochs take")
    recipe = parser.add_argument_group("recipe", "values that replace those of fusion.recipe")
    add_fields(recipe, RerankerTrainingConfig, _RECIPE)
    recipe.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="of matrix products (float32 on a CPU with a frozen tower or without AMX, else bfloat16)",
    )
    memory = parser.add_argument_group("memory and data")
    add_fields(memory, RerankerTrainingConfig, _MEMORY)
    memory.add_argument(
        "--max-bad",
        type=float,
        metavar="SHARE",
        help="share of bad questions (0.05) and entries (0.01) that is accepted",
    )


def run(args: argparse.Namespace) -> None:
    """Trains the fusion encoder and writes `profile.toml` beside the weights, with the best alpha and beta."""
    profile = profile_of(args)

    from evaluation.image_overlap import warn_of_labeled
    from indexes.article_images import MAIN_ONLY, ImageUse
    from indexes.store.manifest import keys_are_images
    from omgm.parts import build_text_reranker, model_folder, placement
    from training.questions import is_held_out
    from training.reranker.data import RerankerData, Serving
    from training.reranker.train import train_reranker

    names = ("steps", "minutes", "precision", "max_bad", *_RECIPE, *_MEMORY)
    given = {name: value for name in names if (value := getattr(args, name)) is not None}
    config = RerankerTrainingConfig(
        **given, seed=seed_of(args, profile), device=placement(profile)[0], recipe=profile.fusion.recipe or None
    )
    keyed = keys_are_images(profile.search.candidates)  # otherwise an index has tokens only of sections
    rows, find = load_rows(args), finder(args)
    images = {row.image_id: find(row.image_id) for row in rows if not isinstance(row, ValueError)}
    contents = contents_of(images)
    articles = articles_of(args, profile)
    if args.index is not None:
        share, seed = config.validation_share, config.seed
        held_out = {id: path for id, path in images.items() if is_held_out(contents[id], share, seed)}
        warn_of_labeled(held_out, args.index, "held-out image", "; pass the --seed that it was built with")
    data = RerankerData(
        **articles,
        questions=rows,
        query_image_of=find,
        contents=contents,
        negatives=existing(args.negatives, "--negatives"),
        negatives_order=args.negatives_order,
        negatives_partial=args.negatives_partial,
        serving=Serving(
            trim_borders=profile.search.trim_borders,
            use=ImageUse(profile.search.image_keys, labeled=True) if keyed else MAIN_ONLY,
            tokens=profile.fusion.tokens,
            mode=profile.fusion.score_mode,
        ),
    )
    trained = train_reranker(
        model_folder(profile, "fusion"),
        data,
        args.out,
        config,
        sections=lambda: build_text_reranker(profile),
        provenance=provenance_of(profile.fusion.model),
        overwrite=args.overwrite,
    )
    if os.environ.get("RANK", "0") != "0":
        return
    weights = {"fusion.alpha": trained.alpha, "sections.beta": trained.beta}
    found = {key: value for key, value in weights.items() if value is not None}
    pair = {"fusion.tuned_for": profile.fusion.score_mode} if found else {}
    written = write_trained(args, "fusion.model", trained.folder, {**found, **pair}, images)
    print(*(f"{key} = {value:g} on held-out images" for key, value in found.items()), sep="\n")
    print(f"trained; use it with --profile {written}")
