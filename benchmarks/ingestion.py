"""Measures memory and speed of reading a large knowledge base and building its index.

    python benchmarks/ingestion.py --entities 100000 --folder /tmp/ingestion

Writes a knowledge base in E-VQA's format unless the folder has one: made-up words, always the same; 3 to 9 sections and
2 to 4 image URLs per article; about 10 KB each, like the published one; a small image for every tenth article. Each
part then runs in its own process, whose peak memory the system reports: reading alone; articles, ids and images as
`build_index` handles them; and all of `build_index` with models that cost nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from indexes.article_images import MAIN_ONLY
from indexes.build import build_index
from indexes.formats import read_knowledge_base
from indexes.image_stage import store_images
from indexes.sources import open_images
from indexes.stages import BuildRun, write_articles
from indexes.workers import LocalWorkers
from retriever.files import replace_with
from retriever.token_codec import TokenCodec
from retriever.types import Entity

_IMAGE_EVERY = 10
_DIMENSION, _TOKENS = 64, (32, 8)


def write_knowledge_base(folder: Path, entities: int, sections: tuple[int, int] = (3, 9)) -> tuple[Path, Path]:
    """Writes a knowledge base and its images unless they exist; returns the file and the image folder.

    Args:
        folder: Where to write them.
        entities: Number of articles.
        sections: Minimum and maximum number of sections per article.
    """
    kb, images = folder / f"kb_{entities}.json", folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    if kb.exists():
        return kb, images
    words = [hashlib.blake2b(str(n).encode(), digest_size=4).hexdigest()[: 3 + n % 6] for n in range(5000)]

    def write(partial: Path) -> None:
        with partial.open("w", encoding="utf-8") as file:
            file.write("{")
            for number, (url, entry) in enumerate(_entries(words, entities, sections)):
                file.write(("" if number == 0 else ", ") + json.dumps(url) + ": " + json.dumps(entry))
            file.write("}")

    replace_with(kb, write)
    for number in range(0, entities, _IMAGE_EVERY):
        color = tuple(hashlib.blake2b(str(number).encode(), digest_size=3).digest())
        Image.new("RGB", (32, 32), color).save(images / f"{number}_1.jpg")
    return kb, images


def _entries(words: Sequence[str], entities: int, sections: tuple[int, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(entities):
        chance = random.Random(number)
        title = f"Entity {number} {chance.choice(words)}"
        url = f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}"
        count = chance.randint(*sections)
        images = [f"https://upload.example/{number}_{n}.jpg" for n in range(chance.randint(2, 4))]
        yield (
            url,
            {
                "title": title,
                "section_titles": [title, *(f"Section {n}" for n in range(1, count))],
                "section_texts": [" ".join(chance.choices(words, k=chance.randint(100, 380))) for _ in range(count)],
                "image_urls": images,
                "image_reference_descriptions": [f"Picture {n} of {title}" for n in range(len(images))],
                "image_section_indices": [n % count for n in range(len(images))],
                "url": url,
            },
        )


class FreeModels:
    """Summarizer, dual encoder and fusion encoder that cost nothing; vectors depend on the text length."""

    name = fingerprint = "free"
    dimension, token_shape = _DIMENSION, _TOKENS

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields the titles."""
        for entity in entities:
            yield entity.title

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Returns a vector that depends on each text's length."""
        drawn = [np.random.default_rng(len(text)).normal(size=_DIMENSION) for text in texts]
        return torch.nn.functional.normalize(torch.tensor(np.array(drawn), dtype=torch.float32), dim=-1)

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns the same vector for all images."""
        return self.encode_texts(["image"] * len(images))

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        """Returns ones."""
        return torch.ones(len(texts), *_TOKENS)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        """Returns ones."""
        return torch.ones(sum(map(len, texts)), *_TOKENS)


def read(kb: Path, images: Path, out: Path) -> int:
    return sum(1 for _ in read_knowledge_base(kb))


def ingest(kb: Path, images: Path, out: Path) -> int:
    out.mkdir()
    articles = write_articles(read_knowledge_base(kb), out)
    run = BuildRun(
        folder=out,
        workers=LocalWorkers(FreeModels(), None),
        candidates="summary",
        use=MAIN_ONLY,
        codec=TokenCodec.parse("float16"),
        batch=32,
        progress=False,
    )
    return len(store_images(run, articles, open_images(images, kb, "evqa"))[0])


def build(kb: Path, images: Path, out: Path) -> int:
    free = FreeModels()
    return len(
        build_index(kb, images, out, summarizer=free, encoder=free, fusion=free, batch_size=1024, progress=False)
    )


PARTS = {"start": lambda kb, images, out: 0, "read": read, "ingest": ingest, "build": build}
"""The measured parts; `start` only imports."""


def measure(part: str, kb: Path, images: Path, out: Path) -> dict[str, Any]:
    """Measures a part in this process: entities, seconds, peak resident memory."""
    started = time.perf_counter()
    count = PARTS[part](kb, images, out)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = round(count / seconds) if count else None
    return {
        "part": part,
        "entities": count,
        "seconds": round(seconds, 1),
        "entities_per_s": rate,
        "peak_mb": round(peak),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True, help="where knowledge base and index go")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--here", action="store_true", help="measure one part in this process")
    args = parser.parse_args()
    kb, images = write_knowledge_base(args.folder, args.entities)
    out = args.folder / "out"
    if args.here:
        logging.disable(logging.WARNING)
        print(json.dumps(measure(args.parts[0], kb, images, out)))
        return
    print(f"{kb}: {kb.stat().st_size / 2**20:.0f} MB")
    for part in args.parts:
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, __file__, "--entities", str(args.entities), "--folder", str(args.folder), "--here"]
        subprocess.run([*command, "--parts", part], check=True)


if __name__ == "__main__":
    main()
