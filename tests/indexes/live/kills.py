"""Kills builds and live updates at random moments (SIGKILL) and counts what is lost.

    python -m tests.indexes.live.kills --kills 50 --out kills.json

During updates, three threads of a process put and remove articles while a fourth repeatedly compacts the index. Each
logs what it is about to do and what was acknowledged. After every kill, the index is opened with all checksums
verified, and every acknowledged change must be present; a thread's last unacknowledged change may or may not be.
Finally, the index is compacted and compared with one built from the same articles in one go. A killed build is
restarted until it completes, and its result is compared with that of a build that was never killed.

Articles have up to two image keys and sections with images of their own; a killed build has labeled images as well.
Models are stand-ins: vectors seeded by a hash of what they encode.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from benchmarks.frame import arguments, write_report
from indexes.builder.build import build_index
from indexes.builder.plan import BuildPlan, IndexDesign
from indexes.builder.report import read_report
from indexes.builder.summarizers import ExtractiveSummarizer
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase
from indexes.knowledge.sources import FolderImages
from indexes.labeled_images import LabeledImage
from indexes.live.articles import article_of
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.store.generations import current_files
from indexes.store.manifest import FILES, OWNERS
from retriever.files import write_whole
from retriever.types import ArticleImage, Entity, Section

BASE = 24
"""Entities in the index that is updated; a killed build has three times as many."""
THREADS = 3


class StandInEncoder:
    """Encodes images and texts as random vectors, the same for the same content."""

    dimension, fingerprint = 16, "stand-in-encoder"

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns vectors [N, 16]."""
        return _seeded([image.tobytes() for image in images], self.dimension)

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Returns vectors [N, 16]."""
        return _seeded([text.encode() for text in texts], self.dimension)


class StandInFusion:
    """Fuses images and texts to random tokens, the same for the same content."""

    token_shape, fingerprint = (4, 8), "stand-in-fusion"

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        """Returns tokens [N, 4, 8]."""
        pairs = [image.tobytes() + text.encode() for image, text in zip(images, texts, strict=True)]
        return _seeded(pairs, 32).reshape(-1, 4, 8)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        """Returns the tokens of all sections."""
        pairs = [(image, text) for image, own in zip(images, texts, strict=True) for text in own]
        return self.encode([image for image, _ in pairs], [text for _, text in pairs])


def _seeded(contents: Sequence[bytes], length: int) -> torch.Tensor:
    rows = []
    for content in contents:
        generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(content).digest()[:7], "big"))
        rows.append(torch.randn(length, generator=generator))
    return torch.nn.functional.normalize(torch.stack(rows) if rows else torch.zeros(0, length), dim=-1)


def article(name: str, edition: int) -> Entity:
    """Returns an edition of an article: a third have no image, a third have two, one of them a section's."""
    sections = tuple(Section(f"Part {i}", f"Edition {edition} of {name}, part {i}.", i) for i in range(edition % 3 + 1))
    images = tuple(ArticleImage(f"{name}-{edition}-{i}.png", i or None) for i in range(edition % 3))
    return Entity(name, f"{name} {edition}", sections, images[0].url if images else None, images=images)


def write_images(entity: Entity, folder: Path) -> None:
    """Writes the images of an article, each in its own color."""
    for image in entity.images:
        draw(folder / image.url)


def draw(path: Path) -> Path:
    """Writes an image whose color depends on its name, and returns its path."""
    Image.new("RGB", (16, 16), tuple(hashlib.sha256(path.name.encode()).digest()[:3])).save(path)
    return path


def build(articles: Sequence[Entity], folder: Path, out: Path, labeled: Sequence[LabeledImage] = ()) -> None:
    """Builds an index of the articles in `out`."""
    images, kb = folder / "images", folder / f"{out.name}.jsonl"
    images.mkdir(parents=True, exist_ok=True)
    lines = []
    for entity in articles:
        write_images(entity, images)
        sections = [{"title": one.title, "text": one.text} for one in entity.sections]
        shown = [{"url": image.url, "section": image.section} for image in entity.images]
        row = {"id": entity.id, "title": entity.title, "image": entity.image, "images": shown, "sections": sections}
        lines.append(json.dumps(row) + "\n")
    write_whole(kb, "".join(lines).encode())
    _build(kb, images, out, labeled)


def _build(kb: Path, images: Path, out: Path, labeled: Sequence[LabeledImage] = ()) -> None:
    plan = BuildPlan(
        articles=KnowledgeArticles(KnowledgeBase(kb=kb, images=images)),
        out=out,
        summarizer=ExtractiveSummarizer(),
        encoder=StandInEncoder(),
        fusion=StandInFusion(),
        design=IndexDesign(candidates="combined", tokens="int8", image_keys=2, section_images=True),
        labeled=labeled,
        batch_size=4,
    )
    build_index(plan)


def update(folder: Path, seed: int) -> None:
    """Changes the index in `folder` until the process is killed; runs in its own process."""
    index = LiveIndex.open(folder / "index", write=True)
    editor = Editor(index, ExtractiveSummarizer, StandInEncoder(), StandInFusion())
    source, use = FolderImages(folder / "images"), index.manifest.inputs.image_use

    def change(thread: int) -> None:
        choose = random.Random(seed * THREADS + thread)
        with (folder / f"journal-{thread}").open("ab", buffering=0) as journal:
            for edition in itertools.count(seed * 100_000 + 1):
                name = f"{thread}-{choose.randrange(BASE)}"
                removes = index.row_of(name) is not None and choose.random() < 0.3
                journal.write(f"begin {name} {0 if removes else edition}\n".encode())
                if removes:
                    editor.remove([name])
                else:
                    write_images(article(name, edition), folder / "images")
                    editor.put([article_of(article(name, edition), source, use)])
                journal.write(b"done\n")

    for thread in range(THREADS):
        threading.Thread(target=change, args=(thread,), daemon=True).start()
    while True:
        index.compact()
        time.sleep(0.02)


def check_updates(kills: int, folder: Path, choose: random.Random) -> dict[str, int]:
    """Repeatedly kills a process that changes an index; returns the counts."""
    counts = dict.fromkeys(("kills", "acknowledged", "lost", "corrupt", "differing"), 0)
    names = [f"{thread}-{number}" for thread in range(THREADS) for number in range(0, BASE, THREADS)]
    editions = dict.fromkeys(names, 1)
    build([article(name, 1) for name in names], folder, folder / "index")
    read = [0] * THREADS
    for seed in range(1, kills + 1):
        _killed(update, (folder, seed), choose.uniform(0.05, 0.8))
        counts["kills"] += 1
        pending: dict[int, tuple[str, int]] = {}
        for thread in range(THREADS):
            journal = folder / f"journal-{thread}"
            lines = journal.read_bytes()[read[thread] :].decode().splitlines() if journal.exists() else []
            read[thread] += sum(len(line) + 1 for line in lines)
            for line in lines:
                if line == "done":
                    name, edition = pending.pop(thread)
                    editions[name] = edition
                    counts["acknowledged"] += 1
                else:
                    pending[thread] = (line.split()[1], int(line.split()[2]))
        try:
            index = LiveIndex.open(folder / "index", verify=True)
        except (ValueError, OSError) as error:
            print(f"kill {seed}: {error}", file=sys.stderr)
            counts["corrupt"] += 1
            return counts
        unsure = dict(pending.values())
        for name in {*editions, *unsure}:
            row = index.row_of(name)
            found = 0 if row is None else int(index.entity(row).title.split()[1])
            if name in unsure and found == unsure[name]:
                editions[name] = found
            elif found != editions.get(name, 0):
                print(f"kill {seed}: {name}: edition {found}, acknowledged {editions.get(name, 0)}", file=sys.stderr)
                counts["lost"] += 1
        assert len(index) == sum(edition > 0 for edition in editions.values()) or counts["lost"]
    index = LiveIndex.open(folder / "index", write=True)
    index.compact()
    index.close()
    ids = [index.entity(row).id for row in index.rows()]
    # In a folder of its own: beside images of former editions, a build would propose them for articles without images.
    build([article(name, editions[name]) for name in ids], folder / "anew", folder / "fresh")
    counts["differing"] = int(_files(current_files(folder / "index")) != _files(folder / "fresh"))
    return counts


def check_builds(kills: int, folder: Path, choose: random.Random) -> dict[str, int]:
    """Repeatedly kills builds; returns the counts."""
    counts = dict.fromkeys(("kills", "builds", "corrupt", "differing"), 0)
    articles = [article(f"{number}", number) for number in range(3 * BASE)]
    (folder / "photos").mkdir()
    shown = [entity.id for entity in articles[::5]]
    labeled = [LabeledImage(id, draw(folder / "photos" / f"{id}.png"), id) for id in shown]
    started = time.perf_counter()
    build(articles, folder, folder / "whole", labeled)
    longest = time.perf_counter() - started
    while counts["kills"] < kills:
        out = folder / f"killed-{counts['builds']}"
        while counts["kills"] < kills:
            arguments = (folder / "whole.jsonl", folder / "images", out, labeled)
            started = time.perf_counter()
            if not _killed(_build, arguments, choose.uniform(0, longest)):
                longest = time.perf_counter() - started  # the build finished before the kill
                break
            counts["kills"] += 1
        _build(folder / "whole.jsonl", folder / "images", out, labeled)
        counts["builds"] += 1
        try:
            LiveIndex.open(out, verify=True)
        except (ValueError, OSError) as error:
            print(f"{out}: {error}", file=sys.stderr)
            counts["corrupt"] += 1
        counts["differing"] += _files(out) != _files(folder / "whole") or (out / ".parts").exists()
    return counts


def _files(folder: Path) -> dict[str, bytes]:
    names = (*FILES, OWNERS) if (folder / OWNERS).exists() else FILES
    paths = [folder / name for name in names] + sorted((folder / "images").iterdir())
    report = read_report(folder)
    report.pop("self_retrieval", None)  # measured by a build, only carried over by a compaction
    report["pictures"].pop("files")  # the image files that were there when the knowledge base was read
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return files | {"report.json": json.dumps(report).encode()}


def _killed(work: Callable[..., None], arguments: tuple[Any, ...], seconds: float) -> bool:
    """Runs `work` in a process and kills it after `seconds`; returns false if it ended by itself before that."""
    process: BaseProcess = _processes().Process(target=work, args=arguments)
    process.start()
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the process exited with status {process.exitcode} before it was killed")
    return process.exitcode != 0


def _processes() -> Any:
    """Returns a context whose processes start quickly, because their parent has already imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.indexes.live.kills"])
    return context


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the benchmark and writes the report."""
    parser = arguments(__doc__)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="of builds, and of updates (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(%(default)s)")
    args = parser.parse_args(argv)
    choose = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        report: dict[str, Any] = {"seed": args.seed}
        for what, check in (("updates", check_updates), ("builds", check_builds)):
            place = Path(folder) / what
            place.mkdir()
            report[what] = check(args.kills, place, choose)
    write_report(args.out, report)
    print(json.dumps(report, indent=2))
    return report


if __name__ == "__main__":
    from tests.indexes.live.kills import (
        main as run,  # under its real module name, so that child processes can import it
    )

    run()
