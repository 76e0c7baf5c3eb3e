"""Batches that follow each other through a pipeline, as on a GPU; the steps are fakes, so no test needs one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from retriever.models.bm25 import BM25
from retriever.pipeline import Retriever
from retriever.protocols import Finish, Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.streams import Turns
from retriever.types import Candidate, Query, RetrievalResult, ScoredSection
from tests.fakes.live import BASE, World, article, painting
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.world import FakeIndex

Submit = Callable[..., Future[list[RetrievalResult]]]


def batch(names: str) -> list[Query]:
    """Returns a query for each letter."""
    return [Query(Image.new("RGB", (1, 1)), "?", name) for name in names]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def meeting() -> Callable[[], object]:
    """Returns a function that two threads must be in at the same time."""
    return threading.Barrier(2, timeout=20).wait


class Watched:
    """A step that adds a candidate to each query and notes its work, such as "ab start" for the batch of a and b.

    Attributes:
        log: The work it has begun, in order.
        during: Called during a piece of work, by its note.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[str] = []
        self.during: dict[str, Callable[[], object]] = {}
        self._working = threading.Lock()

    def start(self, queries: Sequence[Query]) -> Finish:
        names = "".join(query.id for query in queries)
        self._work(f"{names} start")

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            self._work(f"{names} finish")
            pairs = zip(queries, candidates, strict=True)
            return [[*ranked, Candidate(ord(query.id), score=float(len(ranked)))] for query, ranked in pairs]

        return finish

    def _work(self, note: str) -> None:
        assert self._working.acquire(blocking=False), f"{self.name} works on two batches at once"
        try:
            self.log.append(note)
            self.during.get(note, bool)()
        finally:
            self._working.release()

    def check(self) -> None:
        """Checks that no batch started before the one ahead had finished or failed."""
        turns = [names for names, _ in groupby(note.split()[0] for note in self.log)]
        assert len(turns) == len(set(turns)), self.log


def fails() -> None:
    raise ValueError("an image is damaged")


def pipeline(steps: Sequence[Watched], device: str = "cuda", **options: Any) -> Retriever[FakeIndex]:
    return Retriever(steps, FakeIndex(), device=device, **options)


@contextmanager
def threads() -> Iterator[Submit]:
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


def plain(results: Sequence[RetrievalResult]) -> list[tuple[str, list[int], dict[str, Any]]]:
    return [(result.query_id, [one.row for one in result.candidates], dict(result.rankings)) for result in results]


@pytest.mark.parametrize("work", ["step1 start", "step1 finish", "step2 start", "step2 finish"])
def test_the_next_batch_is_in_its_first_steps_during_the_last_step(work: str) -> None:
    steps = {name: Watched(name) for name in ("step1", "step2", "step3")}
    name, _, part = work.partition(" ")
    steps[name].during[f"b {part}"] = steps["step3"].during["a finish"] = meeting()
    retriever = pipeline([*steps.values()])
    assert retriever.in_flight == 2
    free = threading.Event()
    with threads() as submit:
        first = submit(retriever.retrieve, batch("a"), free=free.set)
        assert free.wait(20)
        second = submit(retriever.retrieve, batch("b"))
        assert [first.result(20)[0].query_id, second.result(20)[0].query_id] == ["a", "b"]
    assert steps["step3"].log == ["a start", "a finish", "b start", "b finish"]


def test_the_first_steps_start_before_one_of_them_finishes() -> None:
    order: list[str] = []
    steps = [Watched(name) for name in ("step1", "step2", "step3")]
    for step in steps:
        step.during = {f"a {part}": partial(order.append, f"{part} {step.name}") for part in ("start", "finish")}
    pipeline(steps).retrieve(batch("a"))
    assert order == ["start step1", "start step2", "finish step1", "finish step2", "start step3", "finish step3"]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_results_are_those_of_one_batch_at_a_time(device: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.pipeline.free_threads", lambda: 1)
    chance = random.Random(count)
    letters = iter(map(chr, range(0x4E00, 0x9FFF)))
    batches = ["".join(next(letters) for _ in range(chance.randrange(5))) for _ in range(50)]
    limits = [chance.choice([None, None, *range(1, count + 1)]) for _ in batches]

    def retriever(where: str) -> tuple[list[Watched], Retriever[FakeIndex]]:
        steps = [Watched(f"step{number}") for number in range(count)]
        for step in steps:
            for names in batches:
                pause = chance.choice([0.0, 0.0, 0.001])
                step.during[f"{names} {chance.choice(['start', 'finish'])}"] = partial(time.sleep, pause)
        return steps, pipeline(steps, where)

    alone = retriever("cpu")[1]
    expected = [plain(alone.retrieve(batch(names), limit)) for names, limit in zip(batches, limits, strict=True)]
    steps, together = retriever(device)
    with threads() as submit:
        pairs = zip(batches, limits, strict=True)
        found = [submit(together.retrieve, batch(names), limit) for names, limit in pairs]
        assert [plain(one.result(20)) for one in found] == expected
    for step in steps:
        step.check()


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("part", ["start", "finish"])
def test_a_batch_that_fails_leaves_the_others_intact(place: int, part: str) -> None:
    names = "abcdefghijkl"
    steps = [Watched(name) for name in ("step1", "step2", "step3")]
    damaged = random.Random(place).sample(names, 4)
    steps[place].during = {f"{name} {part}": fails for name in damaged}
    retriever = pipeline(steps)
    with threads() as submit:
        found = {name: submit(retriever.retrieve, batch(name)) for name in names}
        for name, one in found.items():
            if name in damaged:
                with pytest.raises(ValueError, match="damaged"):
                    one.result(20)
            else:
                assert [result.query_id for result in one.result(20)] == [name]
    for step in steps:
        step.check()
    with retriever.models:  # no failure has left a part taken
        pass


def test_other_code_runs_the_models_between_batches() -> None:
    order: list[str] = []
    steps = [Watched("step1"), Watched("step2")]
    release = threading.Event()

    def last_step() -> None:
        release.wait(20)
        order.append("a")

    steps[1].during["a finish"] = last_step
    steps[0].during["b start"] = partial(order.append, "b")
    retriever = pipeline(steps)

    def change() -> None:
        with retriever.models:
            order.append("change")

    free = threading.Event()
    with threads() as submit, ThreadPoolExecutor(1) as editor:
        submit(retriever.retrieve, batch("a"), free=free.set)
        assert free.wait(20)
        changed = editor.submit(change)
        until(retriever.models._parts[0].locked)  # waits for a, and no batch may enter in the meantime
        last = submit(retriever.retrieve, batch("b"))
        release.set()
        changed.result(20)
        last.result(20)
    assert order == ["a", "change", "b"]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_batches_leave_in_the_order_in_which_they_entered(parts: int) -> None:
    turns, entered, left = Turns(parts), list[int](), list[int]()

    def pass_through(number: int) -> None:
        chance = random.Random(number)
        with turns.batch() as move_on:
            entered.append(number)
            for _ in range(parts - 1):
                time.sleep(chance.choice([0, 0, 0.001, 0.002]))
                move_on()
                assert len(entered) - len(left) <= parts
            left.append(number)

    with ThreadPoolExecutor(8) as pool:
        for one in [pool.submit(pass_through, number) for number in range(200)]:
            one.result(20)
    assert entered == left


def test_the_models_are_held_by_one_at_a_time_and_again() -> None:
    turns, inside = Turns(2), threading.Lock()

    def use() -> None:
        for _ in range(200):
            with turns:
                assert inside.acquire(blocking=False)
                inside.release()

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(use) for _ in range(4)]:
            one.result(20)


def test_a_step_that_was_last_and_is_now_among_the_first_still_has_one_batch() -> None:
    release, entered = threading.Event(), threading.Event()
    second = Watched("step2")
    second.during["a finish"] = lambda: release.wait(20)
    retriever = pipeline([Watched("step1"), second])
    with threads() as submit:
        first = submit(retriever.retrieve, batch("a"), free=entered.set)
        assert entered.wait(20)
        retriever.steps = [*retriever.steps, Watched("step3")]
        after = submit(retriever.retrieve, batch("b"))
        until(retriever.models._parts[0].locked)
        release.set()
        assert list(first.result(20)[0].timings_ms) == ["step1", "step2"]
        assert list(after.result(20)[0].timings_ms) == ["step1", "step2", "step3"]
    assert second.log == ["a start", "a finish", "b start", "b finish"]


def test_on_a_cpu_one_batch_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.pipeline.free_threads", lambda: 1)
    order: list[str] = []
    steps = [Watched("step1"), Watched("step2")]
    for step in steps:
        for name in "abcdef":
            step.during |= {f"{name} {part}": partial(order.append, name) for part in ("start", "finish")}
    retriever = pipeline(steps, "cpu")
    assert retriever.in_flight == 1
    with threads() as submit:
        for one in [submit(retriever.retrieve, batch(name), free=fails) for name in "abcdef"]:
            one.result(20)
    assert [names for names, _ in groupby(order)] == list(dict.fromkeys(order))


class SoloEncoder(FakeEncoder):
    """An encoder that fails if two threads use it at once."""

    def __init__(self) -> None:
        super().__init__()
        self._working = threading.Lock()

    def _unit(self, rows: Sequence[Sequence[float]]) -> torch.Tensor:
        assert self._working.acquire(blocking=False), "two threads run the model at once"
        try:
            time.sleep(0.001)
            return super()._unit(rows)
        finally:
            self._working.release()


def live_pipeline(world: World, device: str) -> tuple[Retriever[LiveIndex], Editor]:
    index, encoder, fusion = world.open(write=True), SoloEncoder(), FakeFusion()
    steps: list[Step] = [EntitySearch(encoder, index, 6), FusionRerank(fusion, index, 0.5)]
    retriever = Retriever([*steps, SectionRerank(BM25(), index, 0.5)], index, pin=index.pinned, device=device)
    return retriever, Editor(index, FakeSummarizer, encoder, fusion, retriever.models)


def rounded(sections: Sequence[ScoredSection]) -> Any:
    """Returns the scores of sections without their last digits, which depend on how a product is split over threads."""
    values = [astuple(section) for section in sections]
    return [tuple(round(part, 4) if isinstance(part, float) else part for part in one) for one in values]


def ranked(retriever: Retriever[LiveIndex], queries: Sequence[Query]) -> list[list[tuple[str, float, Any]]]:
    return [
        [
            (retriever.index.entity(one.row).title, round(one.score, 4), rounded(one.sections))
            for one in found.candidates
        ]
        for found in retriever.retrieve(queries)
    ]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_each_batch_sees_one_version_of_an_index_that_changes(
    tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.pipeline.free_threads", lambda: 1)
    changes = [article("b", 5), article("f"), article("a", 3), article("g", 1), article("f", 2)]
    queries = [Query(painting(seed), "Which stripe is red?", str(seed)) for seed in range(3)]
    world = World(tmp_path / "one by one", BASE)
    retriever, editor = live_pipeline(world, "cpu")
    versions = [ranked(retriever, queries)]
    for entity in changes:
        world.put(editor, entity)
        versions.append(ranked(retriever, queries))

    world = World(tmp_path / "at once", BASE)
    retriever, editor = live_pipeline(world, device)
    begun = done = 0
    seen: set[int] = set()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            earliest, found, latest = done, ranked(retriever, queries), begun
            [version] = [number for number, one in enumerate(versions) if one == found]
            assert earliest <= version <= latest
            seen.add(version)

    def caught_up() -> bool:
        return done in seen or any(one.done() for one in asking)

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        for number, entity in enumerate(changes, start=1):
            begun = number
            world.put(editor, entity)
            done = number
            until(caught_up)
        stop.set()
        for one in asking:
            one.result(20)
    editor.close()
