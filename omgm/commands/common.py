"""Arguments and helpers shared by several commands."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.numbers import natural
from retriever.wording import counted

if TYPE_CHECKING:
    from evaluation.datasets import Question
    from indexes.labeled_images import LabeledImage
    from indexes.store.index import Index
    from omgm.settings import Profile

logger = logging.getLogger(__name__)


def add_index(parser: argparse.ArgumentParser) -> None:
    """Adds `--index`."""
    parser.add_argument("--index", type=Path, required=True, metavar="INDEX", help="the index that build-index wrote")


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Adds `--profile` and `--set`."""
    parser.add_argument(
        "--profile", default="embedded", metavar="P", help="a name from configs/ or a file (%(default)s)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="SECTION.KEY=VALUE",
        help="override a setting of the profile; may be repeated",
    )


def add_knowledge_base(parser: argparse.ArgumentParser, *, own_images: bool = False, required: bool = True) -> None:
    """Adds `--kb` and `--images`; the latter is optional if its images may be its `own_images`, in or next to it."""
    parser.add_argument("--kb", type=Path, required=required, metavar="FILE", help="the knowledge base")
    about = "the folder with its images" + ("; by default in or next to it" if own_images else "")
    parser.add_argument("--images", type=Path, required=not own_images, metavar="DIR", help=about)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Adds `--kb-format` and `--map`."""
    parser.add_argument("--kb-format", metavar="NAME", help=f"{_kb_formats()}; guessed for each file by default")
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        dest="names",
        metavar="FIELD=NAME",
        help="the name of a field (id, title, url, image, text) in the knowledge base, or image={id}* and other rules "
        "for image files that nothing names; may be repeated",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="read only entities whose id or file fits, such as fish/*; may be repeated",
    )
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out entities whose id or file fits; pages means lists and pages about the site; may be repeated",
    )
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        dest="fields",
        metavar="NAME",
        help="a field of the knowledge base that searches can be limited by, such as category, or category=genre.name; "
        "file and language are known of every file; may be repeated",
    )


def add_max_bad(parser: argparse.ArgumentParser, listed: str = " and listed in report.json") -> None:
    """Adds `--max-bad` and `--strict`, which is the same as 0; `listed` says where bad entries are listed."""
    how = parser.add_mutually_exclusive_group()
    help = f"share of bad entries that is accepted, in 0..1 (0.01); they are skipped{listed}"
    how.add_argument("--max-bad", type=float, metavar="SHARE", help=help)
    how.add_argument("--strict", action="store_const", const=0.0, dest="max_bad", help="stop at the first bad entry")


def _kb_formats() -> str:
    """Returns the names of all readers of knowledge bases, those of other packages among them."""
    from indexes.knowledge.readers.registry import readers

    return _listed(reader.name for reader in readers())


def datasets_listed(*, agents: bool = False) -> str:
    """Returns the names of the data sets of questions, or of those that only agents can be evaluated on."""
    from evaluation.datasets.dataset import datasets

    known = datasets().values()
    return _listed(value.name for value in known if (value.tasks if agents else value.read) is not None)


def _listed(names: Iterable[str]) -> str:
    *others, last = dict.fromkeys(names)
    return f"{', '.join(others)} or {last}" if others else last


def reading_of(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options for reading the knowledge base: format, field names and tolerated share of bad entries."""
    from indexes.knowledge.selection import FIELDS, ONLY, SKIP
    from indexes.knowledge.understanding.fields import GUESSES
    from indexes.labeled_values import parse_names

    chosen = {key: "\n".join(getattr(args, key)) for key in (ONLY, SKIP, FIELDS) if getattr(args, key)}
    given = {"kb_format": args.kb_format, "names": parse_names(args.names, GUESSES) | chosen}
    max_bad = getattr(args, "max_bad", None)
    return given if max_bad is None else given | {"max_bad": max_bad}


def knowledge_of(args: argparse.Namespace, profile: Profile) -> dict[str, Any]:
    """Returns the attributes of the `KnowledgeBase` that the options name, read as the profile says."""
    return {"kb": existing(args.kb, "--kb"), "images": images_of(args), **reading_of(args), **dict(profile.index)}


def add_questions(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, required: bool = True, images: bool = True
) -> None:
    """Adds `--dataset`, `--queries` and `--query-images`, the last one optional if `images` is false."""
    parser.add_argument(
        "--dataset",
        default="evqa",
        metavar="NAME",
        help=f"{datasets_listed()} (%(default)s)"
        + ("" if images else f"; for agents also {datasets_listed(agents=True)}"),
    )
    parser.add_argument("--queries", type=Path, required=required, metavar="FILE", help="the file of questions")
    add_query_map(parser)
    parser.add_argument(
        "--query-images",
        type=Path,
        required=required and images,
        metavar="DIR",
        help="the folder of their images",
    )


def add_query_map(parser: argparse._ActionsContainer) -> None:
    """Adds `--query-map`, which `question_names` reads."""
    parser.add_argument(
        "--query-map",
        action="append",
        default=[],
        metavar="FIELD=NAME",
        help="with --dataset plain, the name of a field (image, question, answers, …) in the file; may be repeated",
    )


def question_names(args: argparse.Namespace) -> dict[str, str]:
    """Returns the names of the questions' fields in their file, from `--query-map`."""
    from evaluation.datasets.plain import FIELDS
    from indexes.labeled_values import parse_names

    return parse_names(args.query_map, FIELDS, "--query-map")


def add_overwrite(parser: argparse._ActionsContainer, lock: Callable[[Path], Path] = Path) -> None:
    """Adds `--overwrite`, for commands whose work in `--out` resumes.

    Args:
        parser: The arguments of the command.
        lock: Returns the folder that such a process locks, given `--out`; by default `--out` itself.
    """
    parser.add_argument("--overwrite", action="store_true", help="replace earlier work that was made from other inputs")
    parser.set_defaults(lock=lock)


def add_seed(parser: argparse.ArgumentParser | argparse._ArgumentGroup, about: str) -> None:
    """Adds `--seed`, which `seed_of` reads."""
    parser.add_argument("--seed", type=natural, metavar="N", help=f"{about} (that of the profile's training, else 0)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def profile_of(args: argparse.Namespace) -> Profile:
    """Loads the profile selected by the arguments."""
    from omgm.profile import load_profile

    return load_profile(args.profile, args.overrides)


def seed_of(args: argparse.Namespace, profile: Profile) -> int:
    """Returns `--seed`; by default, the seed that the profile's models were trained with, or 0 without records.

    The seed decides which images are held out (`training.questions.is_held_out`): by default the same in all commands.
    Warns if `--seed` holds out others.

    Raises:
        ValueError: The record of a training has no seed.
    """
    from omgm.profile import is_folder
    from training.record import recorded_seed

    folders = [Path(model) for model in (profile.fusion.model, profile.encoder.model) if is_folder(model)]
    if args.seed is None:
        return next((seed for folder in folders if (seed := recorded_seed(folder)) is not None), 0)
    for folder in folders:
        if (seed := recorded_seed(folder)) not in (None, args.seed):
            what = "it was trained on images that are held out now, whose figures will be too high"
            logger.warning("--seed %d: %s was trained with seed %d, so %s", args.seed, folder, seed, what)
    return int(args.seed)


def training_notes(args: argparse.Namespace, profile: Profile) -> list[Path]:
    """Returns the folders that may note what a profile was trained or tuned on (`evaluation.image_overlap`).

    They are the profile's and those beside its models, whichever way these were named.
    """
    from omgm.profile import is_folder

    models = filter(is_folder, (profile.encoder.model, profile.fusion.model, profile.sections.model))
    file = Path(args.profile).expanduser()
    noted = [*([file] if file.is_file() else []), *(Path(model).expanduser() for model in models)]
    return sorted({path.resolve().parent for path in noted})


def load_questions(args: argparse.Namespace) -> list[Question]:
    """Loads the questions of `--dataset` from `--queries`.

    Raises:
        ValueError: There is none, or a row is invalid.
    """
    from evaluation.datasets import load

    questions = load(args.dataset, existing(args.queries, "--queries"), question_names(args))
    if not questions:
        raise ValueError(f"{args.queries}: holds no questions of --dataset {args.dataset}")
    return questions


def check_known(index: Index, questions: Sequence[Question]) -> None:
    """Checks that an index has any of the entities that questions name, and warns of questions about none.

    Raises:
        ValueError: It has none.
    """
    from evaluation.datasets.coverage import unknown_entities

    known = [any(index.row_of(one) is not None for one in question.entity_ids) for question in questions]
    wanted = {one for question in questions for one in question.entity_ids}
    if wanted and not any(known):
        raise ValueError(unknown_entities(wanted, index.entity(0).id if len(index) else ""))
    if few := sum(not one and bool(question.entity_ids) for one, question in zip(known, questions, strict=True)):
        logger.warning("%d of %d questions are about entities that the index lacks", few, len(questions))


def load_rows(args: argparse.Namespace) -> list[Question | ValueError]:
    """Loads the questions of `--dataset` from `--queries`, with an error in place of each malformed row."""
    from evaluation.datasets import SkippedRow, read

    rows = read(args.dataset, existing(args.queries, "--queries"), question_names(args))
    return [row for row in rows if not isinstance(row, SkippedRow)]


def finder(args: argparse.Namespace) -> Callable[[str], Path | None]:
    """Returns a function that finds the image of a question by its id under `--query-images`."""
    from evaluation.datasets import find_query_image

    return partial(find_query_image, query_images_of(args))


def contents_of(images: Mapping[str, Path | None]) -> dict[str, str]:
    """Returns a name for the content of each image, by its id: the same for copies, which are held out together."""
    from evaluation.metrics import percent
    from indexes.image_copies import content_names

    names = content_names(images)
    if copies := len(names) - len({*names.values()}):
        share = f"{percent(copies / len(names))} percent"
        logger.warning(
            "%d of %d images (%s) are copies of others; copies are held out together", copies, len(names), share
        )
    return names


def query_images_of(args: argparse.Namespace) -> Path:
    """Returns the folder `--query-images`.

    Raises:
        ValueError: It does not exist, or is no folder.
    """
    folder = existing(args.query_images, "--query-images")
    if not folder.is_dir():
        raise ValueError(f"--query-images: {folder} is not a folder; if it is a tar or zip file, unpack it")
    return folder


def labeled_of(args: argparse.Namespace) -> list[LabeledImage]:
    """Returns the images of `--queries` (if given), once for each entity that questions about them name.

    Images that are missing or whose questions name no entity are skipped with a warning.

    Raises:
        ValueError: Only one of `--queries` and `--query-images` is given.
    """
    from indexes.labeled_images import LabeledImage

    if (args.queries is None) != (args.query_images is None):
        raise ValueError("--queries and --query-images must be given together")
    if args.queries is None:
        return []
    find = finder(args)
    questions = load_questions(args)
    entities_of: dict[str, dict[frozenset[str], tuple[str, ...]]] = {}
    for question in questions:
        if names := question.entity_ids:
            entities_of.setdefault(question.image_id, {}).setdefault(frozenset(names), names)
    labeled = [
        LabeledImage(image_id, path, first, tuple(others))
        for image_id, entities in entities_of.items()
        if (path := find(image_id)) is not None
        for first, *others in entities.values()
    ]
    total = len({question.image_id for question in questions})
    if left_out := total - len({image.image_id for image in labeled}):
        logger.warning("%d of %d images skipped: the file is missing, or no entity is named", left_out, total)
    return labeled


def images_of(args: argparse.Namespace) -> Path | None:
    """Returns `--images`, or `None` to use the knowledge base's own images."""
    return None if args.images is None else existing(args.images, "--images")


def existing(path: Path, flag: str) -> Path:
    """Checks that a path exists and returns it.

    Raises:
        ValueError: The path does not exist; the message names the flag.
    """
    if not path.exists():
        raise ValueError(f"{flag}: {path} does not exist")
    return path


def describe(index: Index) -> dict[str, Any]:
    """Describes an index for a report."""
    manifest = index.manifest
    return {
        "name": manifest.name,
        "created_with": manifest.created_with,
        "counts": manifest.counts.model_dump(mode="json"),
        "inputs": manifest.inputs.model_dump(mode="json"),
        "search": None if manifest.search is None else manifest.search.model_dump(mode="json"),
    }


def changes_left(index: Path, changes: int) -> str:
    """Returns the end of a line on an index: how many changes are not compacted, and how to compact them."""
    return f", {counted(changes, 'change')} not compacted (omgm index compact --index {index})" if changes else ""


def report(args: argparse.Namespace, value: Any, text: str) -> None:
    """Prints what a command has to report: `value` with `--json`, else `text`."""
    if args.json:
        print_json(value)
    else:
        print(text)


def print_json(value: Any) -> None:
    """Prints `value` as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))
