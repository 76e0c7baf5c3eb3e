"""Compare the checksums of all files and changes."""

from __future__ import annotations

import argparse

from omgm.commands.common import add_index, add_json, existing, report
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Verifies all files and changes."""
    existing(args.index, "--index")
    from indexes.live.index import LiveIndex
    from omgm.own_recognition import read_recognition

    index = LiveIndex.open(args.index, verify=True)
    read_recognition(args.index)
    held = f"{counted(len(index), 'entity')}, {counted(index.changes, 'change')} not compacted"
    found = {"ok": True, "entities": len(index), "changes": index.changes}
    report(args, found, f"{args.index}: all checksums match; {held}")
