"""Remove entities."""

from __future__ import annotations

import argparse
from contextlib import closing

from omgm.commands.common import add_index, add_json, changes_left, existing, report
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    add_json(parser)
    parser.add_argument("ids", nargs="+", metavar="ID", help="ids of entities")


def run(args: argparse.Namespace) -> None:
    """Removes the entities, or none if one is missing."""
    existing(args.index, "--index")
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
        found = {"removed": len(own), "entities": len(index), "changes": index.changes}
    text = f"{args.index}: {found['removed']} removed; {counted(found['entities'], 'entity')}"
    report(args, found, text + changes_left(args.index, found["changes"]))
