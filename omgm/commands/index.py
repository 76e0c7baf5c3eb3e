"""Change or inspect an index: add or remove entities, compact, verify, info."""

from __future__ import annotations

import argparse
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from omgm.commands.common import (
    add_action,
    add_index,
    add_json,
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

COMPACT_AFTER = 50_000
"""Number of changes after which `add` compacts: until then they are in memory, some 20 KB each."""
_ACTIONS = {
    "add": "Add the articles of a knowledge base, or replace those of the same ids. Unchanged ones are skipped.",
    "remove": "Remove entities.",
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
        if name == "add":
            add_profile(action)
            action.add_argument("kb", type=Path, metavar="FILE", help="the articles, in any format of build-index")
            action.add_argument("--images", type=Path, metavar="DIR", help="the folder with their images")
            add_reading(action)
            action.add_argument(
                "--batch-size", type=positive, default=32, metavar="N", help="articles at a time (%(default)s)"
            )
        if name == "remove":
            action.add_argument("ids", nargs="+", metavar="ID", help="ids of entities")


def run(args: argparse.Namespace) -> None:
    """Runs the action and prints what it did."""
    existing(args.index, "--index")
    report, text = {"add": _add, "remove": _remove, "compact": _compact, "verify": _verify, "info": _info}[args.action](
        args
    )
    if args.json:
        print_json(report)
    else:
        print(text)


def _add(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    profile, kb, images = profile_of(args), existing(args.kb, "FILE"), images_of(args)

    from indexes.formats import guess_format, read_knowledge_base
    from indexes.formats.losses import Losses, warning_of
    from indexes.live.editor import article_of
    from indexes.progress import progress_bar
    from indexes.sources import open_images, with_images_called
    from omgm.opening import open_editor
    from omgm.parts import build_encoder, build_fusion

    reading = reading_of(args)
    kb_format = reading["kb_format"] or guess_format(kb)
    source = open_images(images, kb, kb_format)
    losses = Losses(str(kb))
    counts = {"added": 0, "replaced": 0, "unchanged": 0}
    opened = open_editor(profile, args.index, build_encoder(profile), build_fusion(profile), "adds to it")
    with closing(opened) as editor:
        editor.compact_after = COMPACT_AFTER
        dropped, use = editor.index.manifest.inputs.drop_sections, editor.index.manifest.inputs.image_use
        entities = read_knowledge_base(kb, kb_format, dropped, names=reading["names"], losses=losses)
        articles = iter(progress_bar(with_images_called(entities, source), desc="add", unit="entity"))
        while batch := [article_of(entity, source, use) for entity in islice(articles, args.batch_size)]:
            new = [article for article in batch if not editor.holds(article)]
            replaced = sum(editor.index.row_of(article.entity.id) is not None for article in new)
            if new:
                editor.put(new)
            counts["added"] += len(new) - replaced
            counts["replaced"] += replaced
            counts["unchanged"] += len(batch) - len(new)
        ledger = losses.to_json()
        report = counts | {"entities": len(editor.index), "changes": editor.index.changes} | ledger
    listed = ", ".join(f"{count} {what}" for what, count in counts.items())
    held = counted(report["entities"], "entity")
    text = f"{args.index}: {listed}; {held}{_advice(args.index, report['changes'])}"
    return report, "\n".join(filter(None, (text, warning_of(ledger))))


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
    from indexes.live.index import LiveIndex
    from indexes.live.layout import logs
    from indexes.lock import holder

    index = LiveIndex.open(args.index)
    inputs = index.manifest.inputs
    report = {
        "entities": len(index),
        "changes": index.changes,
        "bytes": sum(file.bytes for file in index.manifest.files.values()),
        "log_bytes": sum(path.stat().st_size for path in logs(args.index)),
        "files": str(index.folder),
        "writer": holder(args.index),
        **describe(index),
    }
    changes = f"{counted(index.changes, 'change')} since the files were written"
    lines = [
        f"{index.name}: {counted(len(index), 'entity')}, {changes}",
        f"files: {report['files']}, {report['bytes']:,} bytes and thumbnails; log: {report['log_bytes']:,} bytes",
        f"encoder {inputs.encoder}, fusion encoder {inputs.fusion}, tokens {inputs.tokens}, "
        f"candidates {inputs.candidates}, summaries {inputs.summarizer}",
        f"written by {report['writer']}" if report["writer"] else "no process writes to it",
    ]
    return report, "\n".join(lines)


def _advice(index: Path, changes: int) -> str:
    return f", {counted(changes, 'change')} not compacted (omgm index compact --index {index})" if changes else ""
