"""Build an index from summaries or vectors of summaries (FAISS) that another system computed."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import (
    add_json,
    add_knowledge_base,
    add_profile,
    add_reading,
    describe,
    existing,
    images_of,
    print_json,
    profile_of,
    reading_of,
)
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_knowledge_base(parser, own_images=True)
    add_reading(parser)
    share = "share of bad entries that is accepted with --ids, in 0..1 (0); otherwise they would shift the vectors"
    parser.add_argument("--max-bad", type=float, metavar="SHARE", help=share)
    parser.add_argument(
        "--faiss",
        type=Path,
        metavar="FILE",
        help="a flat FAISS index of the profile's encoder; vector i is of the i-th entry of --kb",
    )
    parser.add_argument(
        "--ids", type=Path, metavar="FILE", help="the entity of each vector instead: a JSON list of ids or positions"
    )
    parser.add_argument(
        "--summaries", type=Path, metavar="FILE", help="summaries by id: an object, or JSON lines of id and summary"
    )
    parser.add_argument(
        "--image-table",
        type=Path,
        nargs="+",
        default=[],
        metavar="CSV",
        help="tables of title and img_path (under --images), which say what the main images are",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="INDEX", help="the index's folder")
    parser.add_argument("--name", help="the index's name; by default the knowledge base's file name")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing index")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Builds the index and prints its contents."""
    profile = profile_of(args)
    if args.faiss is None and args.summaries is None:
        raise ValueError("nothing to import: name vectors (--faiss), summaries (--summaries), or both")
    images = images_of(args)
    if args.image_table and images is None:
        raise ValueError("--image-table names files under --images; pass that folder")
    if args.ids is not None and args.faiss is None:
        raise ValueError("--ids says whose the vectors are; name them with --faiss")
    kb = existing(args.kb, "--kb")

    from indexes.builder.given_vectors import GivenSummaries, GivenVectors, read_ids, read_summaries
    from indexes.knowledge.sources import FolderImages
    from indexes.labeled_images import ImageTable
    from omgm import indexing
    from retriever.files import sha256_of

    ids = None if args.ids is None else read_ids(existing(args.ids, "--ids"))
    vectors = None if args.faiss is None else GivenVectors(existing(args.faiss, "--faiss"), ids)
    summaries = {} if args.summaries is None else read_summaries(existing(args.summaries, "--summaries"))
    name = "titles" if args.summaries is None else f"imported {sha256_of(args.summaries)}"
    table = None
    if args.image_table and images is not None:
        tables = [existing(path, "--image-table") for path in args.image_table]
        table = ImageTable(tables, FolderImages(images).find)
    order = indexing.Build(
        kb=kb,
        out=args.out,
        images=images,
        name=args.name,
        overwrite=args.overwrite,
        summarizer=GivenSummaries(summaries, name),
        vectors=vectors,
        image_table=table,
        **{"max_bad": 0.0, **reading_of(args)},
    )
    index = indexing.build(profile, order)
    if args.json:
        print_json(describe(index))
        return
    entities = counted(index.manifest.counts.entities, "entity")
    given = [counted(len(vectors), "vector")] if vectors is not None else []
    given += [counted(len(summaries), "summary")] if summaries else []
    print(f"{args.out}: {entities}; imported {' and '.join(given)}")
