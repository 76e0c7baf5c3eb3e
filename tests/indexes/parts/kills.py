"""Kills the parts of an index (SIGKILL), one after the other, while a front is asked and changes it.

Two parts run in processes. A thread puts and removes articles, others ask for all entities. An edition of an article
may be found from the beginning of its update until a later one is acknowledged; it must be found from its
acknowledgment until a later one begins, if its part has answered. An update that is refused may have been made.
At the end, every acknowledged change must be there, and also once the parts were started again and split anew.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from indexes.live.editor import Editor
from indexes.parts.changing import ChangingParts
from indexes.parts.index import PartedIndex, front_folder
from indexes.parts.layout import part_of, parts_in
from indexes.parts.remote import DEADLINE, PartLostError, Parts
from indexes.parts.split import split_index
from indexes.store.index import Index
from omgm.kinds.front import PartedRetriever
from omgm.part_server import part_app
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.types import Entity, Query
from tests.fakes.listening import free_port
from tests.fakes.live import World, painting
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.service import wait_until
from tests.indexes.live.kills import OPTIONS, edition_of

NAMES = 24
_PROCESSES: Any = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.indexes.parts.kills"])
LONGEST = 3 * DEADLINE
"""Seconds that a call may take: each part may be lost once, and the machine may be busy."""


@dataclass
class Edition:
    """When an edition of an article, 0 for none, may be found and when it must be; seconds."""

    number: int
    began: float
    acknowledged: float = math.inf
    followed: float = math.inf
    gone: float = math.inf


@dataclass
class History:
    """All editions of the articles."""

    of: dict[str, list[Edition]] = field(default_factory=dict)

    def check(self, name: str, found: int, since: float, until: float) -> str:
        """Returns why an edition of an article is wrong for a request that took so long, or ""."""
        own = self.of[name]
        if not any(one.number == found and one.began <= until and one.gone >= since for one in own):
            return f"{name}: edition {found} from {since:.3f} to {until:.3f} is none of {own[-4:]}"
        must = [one.number for one in own if one.acknowledged <= since and one.followed >= until]
        return f"{name}: edition {found}, acknowledged {must}" if must and found not in must else ""


class Part:
    """A part in a process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self) -> None:
        self.process = _PROCESSES.Process(target=serve, args=(self.folder, self.port))
        self.process.start()
        wait_until(self.answers)

    def answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health/live", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


def serve(folder: Path, port: int) -> None:
    """Serves a part as `omgm serve` does; runs in a process that has imported everything."""
    uvicorn.run(part_app(folder, compact_after=40), port=port, log_level="error")


@contextmanager
def parts_of(folder: Path) -> Iterator[list[Part]]:
    parts = [Part(path) for path in parts_in(folder)]
    try:
        yield parts
    finally:
        for part in parts:
            part.kill()


class WholeIndex(PartedIndex):
    """Step 1 asks for at most as many as there were when a part last answered; here, for all that there are now."""

    def __len__(self) -> int:
        return 4 * NAMES


class Front:
    """A front with the editor of its index."""

    def __init__(self, parts: Sequence[Part]) -> None:
        encoder, fusion = FakeEncoder(), FakeFusion()
        remote = Parts([f"http://127.0.0.1:{part.port}" for part in parts])
        self.index = WholeIndex(remote, front_folder(remote))
        steps: list[Step] = [EntitySearch(encoder, self.index, 4 * NAMES), FusionRerank(fusion, self.index, 0.5)]
        self.retriever = PartedRetriever(steps, self.index, pin=self.index.pinned)
        self.editor = Editor(ChangingParts(self.index), FakeSummarizer, encoder, fusion)

    def found(self, seed: int) -> tuple[dict[str, Entity], set[int]]:
        """Returns all entities that a search finds, and the numbers of the parts that answered."""
        [result] = self.retriever.retrieve([Query(painting(seed), "What?", "q")])
        view: Any = result.version
        entities = [self.index.entity(candidate.row) for candidate in result.candidates]
        assert len({entity.id for entity in entities}) == len(entities)
        return {entity.id: entity for entity in entities}, set(view.up)


def number_of(entity: Entity | None) -> int:
    """Returns the number of an article's edition."""
    if entity is None:
        return 0
    name, number = entity.title.split()
    assert entity.sections == edition_of(name, int(number)).sections  # nothing of another edition
    return int(number)


@dataclass
class Run:
    """The threads that ask and change, and what they have seen."""

    front: Front
    world: World
    updates: int
    requests: int
    history: History
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def timed(self, started: float) -> float:
        ended = time.monotonic()
        self.slowest = max(self.slowest, ended - started)
        return ended

    def change(self) -> None:
        choose, number = random.Random(0), 1
        while self.counts["acknowledged"] < self.updates:
            number += 2 if number % 3 == 2 else 1  # those divisible by 3 have no image
            name = f"{choose.randrange(NAMES)}"
            editions = self.history.of[f"kb/{name}"]
            removes = choose.random() < 0.25 and editions[-1].number > 0
            new = Edition(0 if removes else number, time.monotonic())
            for old in editions:
                old.followed = min(old.followed, new.began)
            editions.append(new)
            try:
                if removes:
                    self.front.editor.remove([f"kb/{name}"])
                else:
                    self.world.put(self.front.editor, edition_of(name, number))
            except PartLostError as error:
                self.timed(new.began)
                assert "of 2 " in str(error)
                self.counts["refused"] += 1
                time.sleep(0.05)
                continue
            except KeyError:  # an earlier removal was made, although it was not acknowledged
                assert removes and any(one.acknowledged == math.inf and one.number == 0 for one in editions)
            new.acknowledged = self.timed(new.began)
            for old in editions[:-1]:
                old.gone = min(old.gone, new.acknowledged)
            self.counts["acknowledged"] += 1

    def ask(self, number: int) -> None:
        while self.counts["requests"] < self.requests or self.counts["acknowledged"] < self.updates:
            started = time.monotonic()
            found, up = self.front.found(number + self.counts["requests"])
            ended = self.timed(started)
            for name in self.history.of:
                edition = number_of(found.get(name))
                if edition or part_of(name, 2) in up:
                    self.note(self.history.check(name, edition, started, ended))
            self.counts["requests"] += 1
            self.counts["partial"] += len(up) < 2

    def note(self, problem: str) -> None:
        if problem:
            self.problems.append(problem)

    def check(self, front: Front) -> None:
        """Checks what there is when nothing changes any more."""
        now, (found, up) = time.monotonic(), front.found(0)
        assert up == {0, 1} and front.index.parts.entities == len(found)
        for name in self.history.of:
            edition = number_of(found.get(name))
            self.note(self.history.check(name, edition, now, now))
            row = front.index.row_of(name)
            if number_of(None if row is None else front.index.entity(row)) != edition:
                self.problems.append(f"{name}: another edition by its id")


def run(folder: Path, requests: int, updates: int, every: float) -> Run:
    """Kills parts every few seconds until so many requests and acknowledged updates were made; returns what it saw."""
    world = World(folder, [edition_of(f"{number}", 1) for number in range(NAMES)], **OPTIONS)
    names = [f"kb/{number}" for number in range(NAMES)]
    assert len([*split_index(world.index, 2, folder / "parts")]) == 2
    with parts_of(folder / "parts") as parts:
        front, history = Front(parts), History({name: [Edition(1, 0.0, 0.0)] for name in names})
        state = Run(front, world, updates, requests, history)
        errors: list[BaseException] = []

        def guarded(work: Any, *given: int) -> None:
            try:
                work(*given)
            except BaseException as error:
                errors.append(error)
                state.requests = state.updates = 0

        threads = [threading.Thread(target=guarded, args=(state.change,))]
        threads += [threading.Thread(target=guarded, args=(state.ask, number)) for number in range(2)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or state.counts["kills"] < 2:
            part = parts[state.counts["kills"] % 2]
            part.kill()
            state.counts["kills"] += 1
            time.sleep(every / 4)
            part.start()
            while len(front.index.parts.up) < 2:
                time.sleep(0.05)
            time.sleep(every)
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        state.check(front)
    with parts_of(folder / "parts") as parts:
        state.check(Front(parts))
    assert len([*split_index(folder / "parts", 3, folder / "again")]) == 3
    for path in parts_in(folder / "again"):
        index, now = Index.open(path, verify=True), time.monotonic()
        for name in names:
            if part_of(name, 3) + 1 == int(path.name[0]):
                row = index.row_of(name)
                state.note(history.check(name, number_of(None if row is None else index.entity(row)), now, now))
    return state
