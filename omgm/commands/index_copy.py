"""Copy an index, or its parts, to an object store, from where `omgm serve` fetches them."""

from __future__ import annotations

import argparse

from omgm.commands.common import add_index, add_json, existing, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    parser.add_argument("--to", required=True, metavar="URL", help="where to, such as s3://bucket/parts")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Copies it."""
    existing(args.index, "--index")
    from indexes.parts.buckets import copy_to
    from indexes.parts.layout import parts_in

    base, copies = args.to.rstrip("/"), list[str]()
    for folder, url in [(part, f"{base}/{part.name}") for part in parts_in(args.index)] or [(args.index, base)]:
        copy_to(folder, url)
        copies.append(url)
    report(args, {"copies": copies}, "\n".join(f"{url}: copied" for url in copies))
