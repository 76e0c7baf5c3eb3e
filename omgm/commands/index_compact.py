"""Write all changes into new files, which then replace the old ones."""

from __future__ import annotations

import argparse
from contextlib import closing

from omgm.commands.common import add_index, add_json, describe, existing, report
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Compacts the index."""
    existing(args.index, "--index")
    from indexes.live.index import LiveIndex

    with closing(LiveIndex.open(args.index, write=True, doing="compacts it")) as index:
        changes = index.changes
        index.compact()
        found = {"changes": changes, **describe(index)}
    compacted = f"{counted(changes, 'change')} compacted"
    report(args, found, f"{args.index}: {compacted}; {counted(len(index), 'entity')} in {index.folder}")
