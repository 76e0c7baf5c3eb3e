"""Arguments and helpers shared by the commands that train."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import (
    add_overwrite,
    add_reading,
    add_seed,
    existing,
    images_of,
    profile_of,
    reading_of,
    training_notes,
)
from omgm.commands.numbers import positive

if TYPE_CHECKING:
    from evaluation.datasets import Question
    from omgm.settings import Profile
    from training.record import Provenance

logger = logging.getLogger(__name__)


def add_training(parser: argparse.ArgumentParser, length: str) -> None:
    """Adds the output folder, limits, `--seed` and `--overwrite`; `length` says how many steps there are by default."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder for the trained profile")
    parser.add_argument("--steps", type=positive, metavar="N", help=f"number of steps (by default {length})")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after M minutes, even before the last step")
    add_seed(parser, "seed of everything random, and of which images are held out")
    add_overwrite(parser)


def add_fields(parser: argparse._ActionsContainer, settings: type, about: Mapping[str, str]) -> None:
    """Adds a flag for each field in `about` of a dataclass of settings, which checks the range of its values."""
    for field in fields(settings):
        if field.name in about:
            shown = "" if field.default is None else f" ({field.default})"
            number = float if "float" in str(field.type) else int
            flag, help = f"--{field.name.replace('_', '-')}", f"{about[field.name]}{shown}"
            parser.add_argument(flag, type=number, default=field.default, metavar="N", help=help)


def add_training_index(parser: argparse.ArgumentParser) -> None:
    """Adds `--index` and, for a knowledge base whose index is built first, `--kb` with the options for reading it."""
    parser.add_argument("--index", type=Path, metavar="INDEX", help="the index that build-index wrote")
    parser.add_argument(
        "--kb", type=Path, metavar="FILE", help="a knowledge base instead; its index is built in the user's cache"
    )
    about = "the images that the index was built from, if they were moved; with --kb, by default in or next to it"
    parser.add_argument("--images", type=Path, metavar="DIR", help=about)
    add_reading(parser)


def training_index(args: argparse.Namespace, profile: Profile, *, tokens: bool = False) -> Path:
    """Returns the index that `--index` names, or that of `--kb` in the user's cache, built first if it is missing.

    Args:
        args: The arguments.
        profile: The models and settings of an index that is built.
        tokens: Whether steps 2 and 3 are to use it.

    Raises:
        ValueError: Not exactly one of them is given, or the index cannot be built.
    """
    if (args.index is None) == (args.kb is None):
        raise ValueError("name an index with --index, or a knowledge base with --kb")
    if args.kb is None:
        if args.kb_format or args.names or args.only or args.skip:
            raise ValueError("--kb-format, --map, --only and --skip are for --kb; an index is read as it was built")
        return existing(args.index, "--index")

    from omgm.training_index import cached_index

    return cached_index(profile, existing(args.kb, "--kb"), images_of(args), tokens=tokens, **reading_of(args))


def articles_of(args: argparse.Namespace, profile: Profile) -> dict[str, Any]:
    """Returns the articles of `training_index`, and their images where they still are, as `index` and `originals`."""
    from indexes.store.articles import open_articles
    from omgm.originals import original_images

    index, images = training_index(args, profile), None if args.kb is not None else images_of(args)
    if (originals := original_images(index, images)) is None:
        logger.warning(
            "%s: the images that it was built from are not where they were; training on its thumbnails, of at most 320 "
            "pixels per side: name the images with --images",
            index,
        )
    return {"index": open_articles(index), "originals": originals}


def write_trained(
    args: argparse.Namespace,
    key: str,
    model: Path,
    defaults: Mapping[str, object],
    images: Mapping[str, Path | None],
    questions: Sequence[Question] = (),
) -> Path:
    """Writes the profile of a training, with `defaults`, overrides and the new model, and notes what it was trained on.

    Returns the profile's path.
    """
    from evaluation.image_overlap import note_images
    from indexes.image_copies import KnownImages
    from omgm.profile import parse_overrides
    from omgm.written_profile import write_profile

    note_images(args.out, KnownImages.of(images), training_notes(args, profile_of(args)), questions)
    return write_profile(
        args.out, args.profile, {**defaults, **parse_overrides(args.overrides), key: str(model.resolve())}
    )


def provenance_of(model: str) -> Provenance:
    """Returns the starting point of a training, for its record: the model's hub name or folder, and the commit."""
    from evaluation.commit import commit
    from omgm.profile import is_folder
    from training.record import Provenance

    return Provenance(base=f"./{Path(model).name}" if is_folder(model) else model, commit=commit())
