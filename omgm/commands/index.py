"""Change or inspect an index: add or remove entities, compact, verify, info."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import (
    add_action,
    add_index,
    add_json,
    add_max_bad,
    add_profile,
    add_reading,
    describe,
    existing,
    images_of,
    print_json,
    profile_of,
    reading_of,
)
from omgm.commands.numbers import positive
from retriever.wording import counted

if TYPE_CHECKING:
    from retriever.types import Entity

COMPACT_AFTER = 50_000
"""Number of changes after which `add` compacts: until then they are in memory, some 20 KB each."""
_ACTIONS = {
    "add": "Add the articles of a knowledge base, or replace those of the same ids. Unchanged ones are skipped.",
    "remove": "Remove entities.",
    "calibrate": "Measure again which images count as recognized, as a build does, after many changes.",
    "compact": "Write all changes into new files, which then replace the old ones.",
    "verify": "Compare the checksums of all files and changes.",
    "info": "Say what an index holds.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions with their arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, about in _ACTIONS.items():
        action = add_action(actions, name, about)
        add_index(action)
        add_json(action)
        if name in ("add", "calibrate"):
            add_profile(action)
        if name == "add":
            action.add_argument("kb", type=Path, metavar="FILE", help="the articles, in any format of build-index")
            action.add_argument("--images", type=Path, metavar="DIR", help="the folder with their images")
            add_reading(action)
            add_max_bad(action, listed="")
            action.add_argument(
                "--accept-missing",
                action="store_true",
                help="go on if most images are not there now; entities keep the images that they have in the index",
            )
            action.add_argument(
                "--prune", action="store_true", help="remove the entities of the index that FILE does not have"
            )
            action.add_argument(
                "--batch-size", type=positive, default=32, metavar="N", help="articles at a time (%(default)s)"
            )
        if name == "remove":
            action.add_argument("ids", nargs="+", metavar="ID", help="ids of entities")


def run(args: argparse.Namespace) -> None:
    """Runs the action and prints what it did."""
    existing(args.index, "--index")
    actions = {"add": _add, "remove": _remove, "calibrate": _calibrate, "compact": _compact, "verify": _verify}
    report, text = (actions | {"info": _info})[args.action](args)
    if args.json:
        print_json(report)
    else:
        print(text)


def _add(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    profile, kb, images = profile_of(args), existing(args.kb, "FILE"), images_of(args)

    from indexes.knowledge.formats import guess_format, read_knowledge_base
    from indexes.knowledge.formats.fields import image_pattern
    from indexes.knowledge.formats.losses import Losses, warning_of
    from indexes.knowledge.formats.skipped import MAX_BAD, SkippedEntries
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
        counts = update(editor, read, source, batch=args.batch_size, **options)
        ledger, outdated = losses.to_json(), outdated_recognition(args.index, editor.index)
        report = counts | {"entities": len(editor.index), "changes": editor.index.changes} | ledger
    listed = ", ".join(f"{counts[what]} {what}" for what in ("added", "replaced", "unchanged"))
    held = counted(report["entities"], "entity")
    lines = [f"{args.index}: {listed}; {held}{_advice(args.index, report['changes'])}", *_said(counts, only or kb)]
    return report, "\n".join(filter(None, (*lines, warning_of(ledger), outdated)))


def _remove(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from indexes.live.changes import Removal
    from indexes.live.index import LiveIndex

    with closing(LiveIndex.open(args.index, write=True, doing="removes from it")) as index:
        rows = {entity_id: index.row_of(entity_id) for entity_id in args.ids}
        missing = [entity_id for entity_id, row in rows.items() if row is None]
        if missing:
            raise ValueError(f"{args.index}: has no entity {', '.join(map(repr, missing))}; nothing was removed")
        # The same entity may be given under several ids.
        own = {index.entity(row).id for row in rows.values() if row is not None}
        index.apply([Removal(entity_id) for entity_id in sorted(own)])
        report = {"removed": len(own), "entities": len(index), "changes": index.changes}
    text = f"{args.index}: {report['removed']} removed; {counted(report['entities'], 'entity')}"
    return report, text + _advice(args.index, report["changes"])


def _calibrate(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from indexes.store.manifest import RECOGNITION
    from omgm.opening import open_retriever
    from omgm.parts import build_encoder, build_fusion
    from omgm.self_calibration import calibrate_index
    from retriever.files import read_object
    from retriever.models.bm25 import BM25

    profile = profile_of(args)
    if not (profile.recognition.fitted_to and profile.recognition.general):
        raise ValueError(f"profile {profile.name}: recognition.general is not set, so an index's own would not be used")
    encoder, fusion = build_encoder(profile), build_fusion(profile)
    index = open_retriever(profile, args.index, encoder=encoder, fusion=fusion, reranker=BM25(), live=True).index
    calibrate_index(profile, args.index, index, encoder, fusion, not args.json)
    path = args.index / RECOGNITION
    if not path.is_file():
        return {"calibrated": False}, f"{args.index}: too few images to calibrate recognition"
    found = read_object(path)
    return {"calibrated": True, **found}, f"{path}: fitted to {counted(found['sampled'], 'image')}"


def _compact(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from indexes.live.index import LiveIndex

    with closing(LiveIndex.open(args.index, write=True, doing="compacts it")) as index:
        changes = index.changes
        index.compact()
        report = {"changes": changes, **describe(index)}
    compacted = f"{counted(changes, 'change')} compacted"
    return report, f"{args.index}: {compacted}; {counted(len(index), 'entity')} in {index.folder}"


def _verify(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from indexes.live.index import LiveIndex

    index = LiveIndex.open(args.index, verify=True)
    held = f"{counted(len(index), 'entity')}, {counted(index.changes, 'change')} not compacted"
    return (
        {"ok": True, "entities": len(index), "changes": index.changes},
        f"{args.index}: all checksums match; {held}",
    )


def _info(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from indexes.live.counting import count
    from indexes.live.index import LiveIndex
    from indexes.store.generations import logs
    from indexes.store.lock import holder
    from omgm.own_recognition import outdated_recognition

    index = LiveIndex.open(args.index)
    inputs, counts = index.manifest.inputs, count(index.version)
    report = {
        "entities": len(index),
        "changes": index.changes,
        "bytes": sum(file.bytes for file in index.manifest.files.values()),
        "log_bytes": sum(path.stat().st_size for path in logs(args.index)),
        "files": str(index.folder),
        "writer": holder(args.index),
        **describe(index),
        "counts": counts.model_dump(mode="json"),
        "outdated_recognition": outdated_recognition(args.index, index),
    }
    changes = f"{counted(index.changes, 'change')} since the files were written"
    lines = [
        f"{index.name}: {counted(len(index), 'entity')}, {changes}",
        f"{counts.with_image:,} with an image; {counted(counts.sections, 'section')}, "
        f"{counts.token_sections:,} with tokens, {counted(counts.section_windows, 'vector')} of sections",
        f"files: {report['files']}, {report['bytes']:,} bytes and thumbnails; log: {report['log_bytes']:,} bytes",
        f"encoder {inputs.encoder}, fusion encoder {inputs.fusion}, tokens {inputs.tokens}, "
        f"candidates {inputs.candidates}, summaries {inputs.summarizer}, encoder of sections {inputs.sections}",
        f"written by {report['writer']}" if report["writer"] else "no process writes to it",
    ]
    if report["outdated_recognition"]:
        lines.append(f"recognition: {report['outdated_recognition']}")
    return report, "\n".join(lines)


def _said(counts: dict[str, int], kb: Path) -> Iterator[str]:
    """Yields what an update kept, lost and removed of what was in the index."""
    if kept := counts["images_kept"]:
        yield f"{counted(kept, 'entity')} without an image now: the images of the index were kept"
    if lost := counts["images_lost"]:
        yield f"{counted(lost, 'entity')} lost their image: {kb} names none any more"
    if pruned := counts["pruned"]:
        yield f"{counted(pruned, 'entity')} removed: not in {kb}"
    if absent := counts["not_in_file"]:
        yield f"{counted(absent, 'entity')} of the index not in {kb}; they stay (--prune with the whole removes them)"


def _advice(index: Path, changes: int) -> str:
    return f", {counted(changes, 'change')} not compacted (omgm index compact --index {index})" if changes else ""
