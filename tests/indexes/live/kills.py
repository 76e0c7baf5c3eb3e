"""Kills builds and live updates at random moments (SIGKILL) and counts what is lost.

During updates, three threads of a process put and remove articles while a fourth repeatedly compacts the index. Each
logs what it is about to do and what was acknowledged. After every kill, the index is opened with all checksums
verified, and every acknowledged change must be present; a thread's last unacknowledged change may or may not be.
Finally, the index is compacted and compared with one built from the same articles in one go. A killed build is
restarted until it completes, and its result is compared with that of a build that was never killed.

Articles have up to two image keys and sections with images of their own; a killed build has labeled images as well.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from indexes.builder.report import read_report
from indexes.labeled_images import LabeledImage
from indexes.live.index import LiveIndex
from indexes.store.generations import current_files
from indexes.store.manifest import REPORT
from retriever.types import Entity
from tests.fakes.live import World, article, data_of, painting
from tests.fakes.plans import build_index

BASE = 24
"""Entities in the index that is updated; a killed build has three times as many."""
THREADS = 3
OPTIONS: dict[str, Any] = {"image_keys": 2, "section_images": True, "batch_size": 4}


def edition_of(name: str, number: int) -> Entity:
    """Returns an edition of an article: a third have no image, a third have two more, each of a section."""
    more = number % 3
    return article(name, number, "own" if more else None, sections=more + 1, further=more)


def update(folder: Path, seed: int) -> None:
    """Changes the index in `folder` until the process is killed; runs in its own process."""
    world = World.at(folder)
    editor = world.editor()

    def change(thread: int) -> None:
        choose = random.Random(seed * THREADS + thread)
        with (folder / f"journal-{thread}").open("ab", buffering=0) as journal:
            for edition in itertools.count(seed * 100_000 + 1):
                name = f"{thread}-{choose.randrange(BASE)}"
                removes = editor.index.row_of(f"kb/{name}") is not None and choose.random() < 0.3
                journal.write(f"begin {name} {0 if removes else edition}\n".encode())
                if removes:
                    editor.remove([f"kb/{name}"])
                else:
                    world.put(editor, edition_of(name, edition))
                journal.write(b"done\n")

    for thread in range(THREADS):
        threading.Thread(target=change, args=(thread,), daemon=True).start()
    while True:
        editor.index.compact()
        time.sleep(0.02)


def check_updates(kills: int, folder: Path, choose: random.Random) -> int:
    """Repeatedly kills a process that changes an index; returns the number of acknowledged changes."""
    names = [f"{thread}-{number}" for thread in range(THREADS) for number in range(0, BASE, THREADS)]
    editions, acknowledged, read = dict.fromkeys(names, 1), 0, [0] * THREADS
    world = World(folder, [edition_of(name, 1) for name in names], **OPTIONS)
    for seed in range(1, kills + 1):
        killed(update, (folder, seed), choose.uniform(0.05, 0.8))
        pending: dict[int, tuple[str, int]] = {}
        for thread in range(THREADS):
            journal = folder / f"journal-{thread}"
            lines = journal.read_bytes()[read[thread] :].decode().splitlines() if journal.exists() else []
            read[thread] += sum(len(line) + 1 for line in lines)
            for line in lines:
                if line == "done":
                    name, edition = pending.pop(thread)
                    editions[name] = edition
                    acknowledged += 1
                else:
                    pending[thread] = (line.split()[1], int(line.split()[2]))
        index, unsure = world.open(verify=True), dict(pending.values())
        for name in {*editions, *unsure}:
            row = index.row_of(f"kb/{name}")
            found = 0 if row is None else int(index.entity(row).title.split()[1])
            if name in unsure and found == unsure[name]:
                editions[name] = found
            assert found == editions.get(name, 0), (seed, name)
        assert len(index) == sum(edition > 0 for edition in editions.values())
    editor = world.editor()
    editor.index.compact()
    editor.close()
    final = [editor.index.entity(row).id.removeprefix("kb/") for row in editor.index.rows()]
    # In a folder of its own: beside images of former editions, a build would propose them for articles without images.
    fresh = World(folder / "anew", [edition_of(name, editions[name]) for name in final], **OPTIONS)
    assert files_of(current_files(world.index)) == files_of(fresh.index)
    return acknowledged


def check_builds(kills: int, folder: Path, choose: random.Random) -> None:
    """Repeatedly kills builds."""
    articles = [edition_of(f"{number}", number) for number in range(3 * BASE)]
    options, photos = dict(OPTIONS), folder / "photos"
    photos.mkdir(parents=True)
    for number, entity in enumerate(articles[::5]):
        painting(number).save(photos / f"{number}.png")
        options.setdefault("labeled", []).append(LabeledImage(f"{number}", photos / f"{number}.png", entity.id))
    started, count = time.perf_counter(), 0
    world = World(folder / "world", articles, **options)
    longest = time.perf_counter() - started
    for number in itertools.count():
        out = folder / f"killed-{number}"
        given = world.index.with_suffix(".jsonl"), world.images, out, world.options
        while count < kills:
            started = time.perf_counter()
            if not killed(build, given, choose.uniform(0, longest)):
                longest = time.perf_counter() - started  # the build finished before the kill
                break
            count += 1
        build(*given)
        LiveIndex.open(out, verify=True)
        assert files_of(out) == files_of(world.index) and not (out / ".parts").exists()
        if count == kills:
            return


def build(kb: Path, images: Path, out: Path, options: dict[str, Any]) -> None:
    """Builds an index; may be killed."""
    build_index(kb, images, out, **options)


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns the data files of an index, and how many words it has; without what only a build measures."""
    files, report = data_of(folder), read_report(folder)
    left = json.loads(files[REPORT])
    left.pop("self_retrieval", None)
    return files | {REPORT: json.dumps(left | {"words": report["words"]}).encode()}


def killed(work: Callable[..., None], given: Sequence[Any], seconds: float) -> bool:
    """Runs `work` in a process and kills it after `seconds`; returns false if it ended by itself before that."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.indexes.live.kills"])  # its processes start quickly: all is imported
    process: BaseProcess = context.Process(target=work, args=given)
    process.start()
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0
