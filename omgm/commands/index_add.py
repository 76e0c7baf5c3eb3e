"""Add articles to an index: `omgm index add`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.commands.common import (
    add_index,
    add_json,
    add_max_bad,
    add_profile,
    add_reading,
    changes_left,
    existing,
    images_of,
    profile_of,
    reading_of,
    report,
)
from omgm.commands.numbers import positive
from retriever.wording import counted

if TYPE_CHECKING:
    from retriever.types import Entity

COMPACT_AFTER = 50_000
"""Number of changes after which `add` compacts: until then they are in memory, some 20 KB each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    add_json(parser)
    add_profile(parser)
    parser.add_argument("kb", type=Path, metavar="FILE", help="the articles, in any format of build-index")
    parser.add_argument("--images", type=Path, metavar="DIR", help="the folder with their images")
    add_reading(parser)
    add_max_bad(parser, listed="")
    parser.add_argument(
        "--accept-missing",
        action="store_true",
        help="go on if most images are not there now; entities keep the images that they have in the index",
    )
    parser.add_argument("--prune", action="store_true", help="remove the entities of the index that FILE does not have")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="articles at a time (%(default)s)")


def run(args: argparse.Namespace) -> None:
    """Adds the articles and prints what changed."""
    existing(args.index, "--index")
    profile, kb, images = profile_of(args), existing(args.kb, "FILE"), images_of(args)

    from indexes.knowledge.formats import guess_format, read_knowledge_base
    from indexes.knowledge.formats.fields import image_pattern
    from indexes.knowledge.formats.losses import Losses, warning_of
    from indexes.knowledge.formats.reading import MAX_BAD, SkippedEntries
    from indexes.knowledge.matching import with_matched_images
    from indexes.knowledge.sources import open_images
    from indexes.live.updating import root_of, update
    from indexes.progress import progress_bar
    from omgm.opening import open_editor
    from omgm.own_recognition import outdated_recognition
    from omgm.parts import build_encoder, build_fusion

    reading = reading_of(args)
    opened = open_editor(profile, args.index, build_encoder(profile), build_fusion(profile), "adds to it")
    with closing(opened) as editor:
        editor.compact_after = COMPACT_AFTER
        inputs, only = editor.index.manifest.inputs, None
        if (root := root_of(kb, editor.index)) is not None:
            kb, only = root, kb.resolve()
            if args.prune:
                raise ValueError(f"--prune would remove what is elsewhere in {kb}; add the whole folder with it")
        kb_format = reading["kb_format"] or (guess_format(kb) if only is None else inputs.kb_format)
        source, losses = open_images(images, kb, kb_format), Losses(str(kb))

        def read(compare: bool) -> Iterator[Entity]:
            skipped = SkippedEntries(reading.get("max_bad", MAX_BAD), quiet=compare)
            entities = read_knowledge_base(
                kb,
                kb_format,
                inputs.drop_sections,
                names=reading["names"],
                keep_navigation=inputs.keep_navigation,
                skipped=skipped,
                losses=None if compare else losses,
                only=only,
            )
            shown = progress_bar(entities, desc="compare" if compare else "add", unit="entity")
            yield from with_matched_images(shown, source, image_pattern(reading["names"]))
            if compare and args.prune and skipped.count:
                bad = counted(skipped.count, "entry")
                raise ValueError(f"{kb}: {bad} cannot be used, so --prune might remove what is in them; fix them first")

        options = {"accept_missing": args.accept_missing, "prune": args.prune}
        counts = update(editor, read, source, batch=args.batch_size, notes=losses.notes, **options)
        ledger, outdated = losses.to_json(), outdated_recognition(args.index, editor.index)
        found = counts | {"entities": len(editor.index), "changes": editor.index.changes} | ledger
    listed = ", ".join(f"{counts[what]} {what}" for what in ("added", "replaced", "unchanged"))
    held = counted(found["entities"], "entity")
    lines = [f"{args.index}: {listed}; {held}{changes_left(args.index, found['changes'])}", *_said(counts, only or kb)]
    report(args, found, "\n".join(filter(None, (*lines, warning_of(ledger), outdated))))


def _said(counts: dict[str, int], kb: Path) -> Iterator[str]:
    """Yields what an update kept, lost and removed of what was in the index."""
    if kept := counts["images_kept"]:
        yield f"{counted(kept, 'entity')} without an image now: the images of the index were kept"
    if lost := counts["images_lost"]:
        yield f"{counted(lost, 'entity')} lost their image: {kb} names none any more"
    if pruned := counts["pruned"]:
        yield f"{counted(pruned, 'entity')} removed: not in {kb}"
    if absent := counts["not_in_file"]:
        yield (
            f"{counted(absent, 'entity')} of the index not among those read from {kb}; they stay "
            "(--prune with the whole removes them)"
        )
