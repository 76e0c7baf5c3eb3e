"""Add the articles of a knowledge base, or replace those of the same ids; unchanged ones are skipped."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
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
    from indexes.live.pruning import Gaps
    from indexes.live.updating import Outcome
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
    parser.add_argument("--prune", action="store_true", help="remove the entities that FILE had and no longer has")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="articles at a time (%(default)s)")


def run(args: argparse.Namespace) -> None:
    """Adds the articles and prints what changed."""
    existing(args.index, "--index")
    profile, kb, images = profile_of(args), existing(args.kb, "FILE"), images_of(args)

    from indexes.builder.report import problem_lines
    from indexes.knowledge.bad_entries import SkippedEntries
    from indexes.knowledge.image_rules import is_from
    from indexes.knowledge.knowledge_base import guess_format
    from indexes.knowledge.ledger import Ledger
    from indexes.knowledge.matching import with_matched_images
    from indexes.knowledge.reading import read_knowledge_base
    from indexes.knowledge.sources import images_beside, open_images
    from indexes.knowledge.understanding.fields import image_pattern
    from indexes.limits import MAX_BAD
    from indexes.live.pruning import Origins, gaps_of
    from indexes.live.updating import root_of, update
    from indexes.progress import progress_bar
    from omgm.editing import open_editor
    from omgm.own_recognition import outdated_recognition
    from omgm.parts import build_encoder, build_fusion

    reading = reading_of(args)
    opened = open_editor(profile, args.index, build_encoder(profile), build_fusion(profile), "adds to it")
    with closing(opened) as editor:
        editor.compact_after = COMPACT_AFTER
        inputs, only = editor.index.manifest.inputs, None
        reading["names"] = with_fields(reading["names"], editor.index.fields.names)
        if (root := root_of(kb, editor.index)) is not None:
            kb, only = root, kb.resolve()
        kb_format = reading["kb_format"] or (guess_format(kb) if only is None else inputs.kb_format)
        source, ledger = open_images(images or images_beside(kb, kb_format), kb, kb_format), Ledger(str(kb))
        compared = SkippedEntries(reading.get("max_bad", MAX_BAD), quiet=True), Ledger(str(kb))

        def read(compare: bool) -> Iterator[Entity]:
            skipped, account = compared if compare else (SkippedEntries(reading.get("max_bad", MAX_BAD)), ledger)
            entities = read_knowledge_base(
                kb,
                kb_format,
                inputs.drop_sections,
                names=reading["names"],
                keep_navigation=inputs.keep_navigation,
                skipped=skipped,
                ledger=None if compare and not args.prune else account,
                only=only,
                others=only is not None,
            )
            shown = progress_bar(entities, desc="compare" if compare else "add", unit="entity")
            matched = with_matched_images(shown, source, image_pattern(reading["names"]))
            yield from (entity for entity in matched if only is None or is_from(entity, kb, only))

        def gaps() -> Gaps:
            part = "" if only is None else f"only {only} was read; add {kb} as a whole"
            other = args.kb_format if kb.is_dir() and args.kb_format not in (None, inputs.kb_format) else None
            return gaps_of(kb, args.only + args.skip, part, other, compared[0].count, compared[1].to_json())

        options = {"accept_missing": args.accept_missing, "prune": gaps if args.prune else None}
        origins = Origins(kb, editor.index, built=only is not None)
        outcome = update(editor, read, source, origins, batch=args.batch_size, notes=ledger.notes, **options)
        account, outdated = ledger.to_json(), outdated_recognition(args.index, editor.index)
        held, changes = len(editor.index), editor.index.changes
    problems = account | outcome.images.to_json()
    counts = outcome.counts() | {f"images_{name}": problems[name]["count"] for name in ("missing", "unreadable")}
    done = ", ".join(f"{counts[what]} {what}" for what in ("added", "replaced", "unchanged"))
    lines = [f"{args.index}: {done}; {counted(held, 'entity')}{changes_left(args.index, changes)}"]
    said = (*lines, *_said(outcome, only or kb), *problem_lines(problems), outdated)
    report(args, counts | {"entities": held, "changes": changes} | account, "\n".join(filter(None, said)))


def with_fields(names: Mapping[str, str], fields: Sequence[str]) -> dict[str, str]:
    """Returns names of fields with those of an index, of which an entity may lack any.

    Raises:
        ValueError: The index has not all that are named.
    """
    from indexes.knowledge.selection import FIELDS

    named = {line.partition("=")[0].rstrip("?"): line for line in names.get(FIELDS, "").splitlines()}
    if unknown := sorted(named.keys() - set(fields)):
        have = f"its fields are {', '.join(fields)}" if fields else "it was built without --field"
        raise ValueError(f"--field {unknown[0]}: the index has no such field; {have}")
    listed = "\n".join(named.get(name, f"{name}?") for name in fields)
    return {**names, FIELDS: listed} if listed else dict(names)


def _said(outcome: Outcome, kb: Path) -> Iterator[str]:
    """Yields what an update kept, lost and removed of what was in the index."""
    if kept := outcome.images_kept:
        yield f"{counted(kept, 'entity')} without an image now: the images of the index were kept"
    if lost := outcome.images_lost:
        yield f"{counted(lost, 'entity')} lost their image: {kb} names none any more"
    for source, (count, first) in outcome.replaced_from.items():
        yield f"{counted(count, 'entity')} replaced that came from another knowledge base, {source}: {first!r}" + (
            ", …" if count > 1 else ""
        )
    if pruned := outcome.pruned:
        yield f"{counted(pruned, 'entity')} removed: not in {kb}"
    for reason, (count, first) in outcome.stay.items():
        yield f"{counted(count, 'entity')} not removed, such as {first!r}: {reason}"
    if outcome.not_in_file and not outcome.stay:
        yield (
            f"{counted(outcome.not_in_file, 'entity')} of the index not among those read from {kb}; they stay "
            "(--prune with the whole removes those that it had)"
        )
