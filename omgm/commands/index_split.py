"""Split an index into parts that several machines serve, or parts into others."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from omgm.commands.common import add_index, add_json, existing, report
from omgm.commands.numbers import positive
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    parser.add_argument("--parts", type=positive, required=True, metavar="N", help="how many parts to write")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder for them")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the parts."""
    existing(args.index, "--index")
    from indexes.parts.split import split_index
    from indexes.store.manifest import read_manifest

    parts, lines = list[dict[str, Any]](), list[str]()
    for folder in split_index(args.index, args.parts, args.out):
        manifest = read_manifest(folder)
        entities, size = manifest.counts.entities, sum(file.bytes for file in manifest.files.values())
        parts.append({"part": str(folder), "entities": entities, "bytes": size})
        lines.append(f"{folder}: {counted(entities, 'entity')}, {size:,} bytes and thumbnails")
    report(args, {"parts": parts}, "\n".join(lines))
