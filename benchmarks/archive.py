"""Queries any knowledge base with slightly changed main images of its articles: is the right article found first?

    python -m benchmarks.archive --kb wikipedia_en_ray_charles_2015-06.zimaa --out artifacts/charles

builds the index with a profile, as `omgm serve --kb` does, and then queries step 1 with each main image cropped to at
least 85 % per side, scaled to 50 to 100 %, rotated by up to 10 degrees and saved as a JPEG of quality 50 to 90.
Articles that share a main image count as one. It prints Recall@1 and @5 with the number of images and writes
`archive.json`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from indexes.formats.fields import parse_names
from indexes.report import read_report
from indexes.self_retrieval import slightly_changed
from indexes.sources import find_main, images_beside, open_images
from indexes.store import Index
from omgm import parts
from omgm.kept_index import keep_index
from omgm.profile import load_profile
from retriever.files import write_json
from retriever.images import load_image
from retriever.step1_search import EntitySearch
from retriever.types import Query

BATCH = 16
SEED = 11


def ranks(index: Index, search: EntitySearch, kb: Path, images: Path | None) -> list[int]:
    """Returns the rank (from 0) of each main image's entity when queried with the changed image; -1 if not found."""
    format = index.manifest.inputs.kb_format
    source = open_images(images or images_beside(kb, format), kb, format)
    owners: dict[bytes, set[int]] = {}
    rows: dict[bytes, int] = {}
    for row in range(len(index)):
        if (path := index.image_path(row)) is not None:
            owners.setdefault(path.read_bytes(), set()).add(row)
            rows.setdefault(path.read_bytes(), row)
    rng, found = random.Random(SEED), []
    entries = list(rows.items())
    for start in range(0, len(entries), BATCH):
        batch = entries[start : start + BATCH]
        queries = []
        for content, row in batch:
            name = None if source is None else find_main(source, index.entity(row))
            image = load_image(content) if source is None or name is None else source.load(name)
            queries.append(Query(slightly_changed(image, rng), "What is this?"))
        for (content, _), candidates in zip(batch, search.start(queries)([[] for _ in queries]), strict=True):
            right = [rank for rank, one in enumerate(candidates) if one.row in owners[content]]
            found.append(right[0] if right else -1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True, metavar="FILE", help="the knowledge base, of any format")
    parser.add_argument("--images", type=Path, metavar="DIR", help="its images; by default in it or beside it")
    parser.add_argument("--map", action="append", default=[], metavar="FIELD=NAME", help="as for omgm build-index")
    parser.add_argument("--profile", default="embedded", metavar="P", help="(%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the index and archive.json")
    args = parser.parse_args()
    profile = load_profile(args.profile, [])
    args.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    keep_index(profile, args.kb, args.out / "index", args.images, names=parse_names(args.map))
    seconds = time.monotonic() - started
    encoder = parts.build_encoder(profile)
    index = Index.open(args.out / "index", encoder=encoder, image_weight=profile.search.image_weight)
    found = np.array(ranks(index, EntitySearch(encoder, index, 5), args.kb, args.images))
    if not len(found):
        parser.error(f"{args.kb}: no entity has a readable main image to query with")
    result = {
        "entities": len(index),
        "images": len(found),
        "recall@1": float((found == 0).mean()),
        "recall@5": float((found >= 0).mean()),
        "build_seconds": round(seconds, 1),
        "self_retrieval": read_report(index.folder).get("self_retrieval"),
    }
    write_json(args.out / "archive.json", result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
