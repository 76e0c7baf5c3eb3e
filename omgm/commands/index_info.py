"""Say what an index holds."""

from __future__ import annotations

import argparse

from omgm.commands.common import add_index, add_json, describe, existing, report
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints counts, sizes and what the index was built with."""
    existing(args.index, "--index")
    from indexes.live.index import LiveIndex
    from indexes.live.version import count
    from indexes.store.generations import logs
    from indexes.store.lock import holder
    from omgm.own_recognition import outdated_recognition

    index = LiveIndex.open(args.index)
    inputs, counts = index.manifest.inputs, count(index.version)
    found = {
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
    named = {name: ", ".join(model.splitlines()) for name, model in inputs.columns.items()}
    lines = [
        f"{index.name}: {counted(len(index), 'entity')}, {changes}",
        f"{counts.with_image:,} with an image; {counted(counts.sections, 'section')}, "
        f"{counts.token_sections:,} with tokens",
        *(f"column {name}: {counted(rows, 'row')} of {named[name]}" for name, rows in counts.columns.items()),
        f"files: {found['files']}, {found['bytes']:,} bytes and thumbnails; log: {found['log_bytes']:,} bytes",
        f"encoder {inputs.encoder}, fusion encoder {inputs.fusion}, tokens {inputs.tokens}, "
        f"candidates {inputs.candidates}, summaries {inputs.summarizer}",
        f"written by {found['writer']}" if found["writer"] else "no process writes to it",
    ]
    if found["outdated_recognition"]:
        lines.append(f"recognition: {found['outdated_recognition']}")
    report(args, found, "\n".join(lines))
