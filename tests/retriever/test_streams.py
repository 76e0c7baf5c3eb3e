"""Concurrent calls, and pipelines that split their batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial

import pytest
import torch
from PIL import Image

from indexes.store.index import Index
from retriever import streams
from retriever.pipeline import Retriever
from retriever.protocols import Finish
from retriever.types import Candidate, Query
from tests.fakes.knowledge_base import build_small_index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.open(build_small_index(tmp_path_factory.mktemp("streams")))


@pytest.fixture
def spare_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    monkeypatch.setattr(streams, "_cores", lambda: 2)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretends that there are CUDA streams; returns a log of them."""
    log: list[str] = []

    class PretendStream:
        def __init__(self, device: torch.device) -> None:
            self.name = f"{device} {sum(line.startswith('new') for line in log)}"
            log.append(f"new {self.name}")

        def __enter__(self) -> None:
            log.append(f"in {self.name}")

        def __exit__(self, *_: object) -> None:
            log.append(f"out of {self.name}")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.synchronize", lambda device: log.append(f"wait for {device}"))
    monkeypatch.setattr("torch.cuda.Stream", PretendStream)
    monkeypatch.setattr("torch.cuda.stream", lambda stream: stream)
    return log


class Logged:
    """A step that logs its work and fails in the work named `fails`."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name, self._log, self._fails = name, log, fails

    def start(self, queries: object) -> Finish:
        self._work("start")

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            self._work("finish")
            return candidates

        return finish

    def _work(self, part: str) -> None:
        self._log.append(f"{part} {self.name}")
        if part == self._fails:
            raise ValueError("an image is damaged")


def test_each_step_starts_and_finishes_in_its_own_stream(index: Index, pretended: list[str]) -> None:
    retriever = Retriever([Logged("a", pretended), Logged("b", pretended)], index, device="cuda")
    assert pretended == ["wait for cuda", "new cuda 0", "wait for cuda", "new cuda 1"]
    pretended.clear()
    retriever.retrieve([Query(Image.new("RGB", (1, 1)), "")])
    works = [("start a", 0), ("finish a", 0), ("start b", 1), ("finish b", 1)]
    assert pretended == [
        line for work, number in works for line in (f"in cuda {number}", work, f"out of cuda {number}")
    ]


@pytest.mark.parametrize("fails", ["start", "finish"])
def test_a_batch_that_fails_leaves_nothing_running(index: Index, pretended: list[str], fails: str) -> None:
    """Regression: step 1's model still computed when the next user of the models came."""
    steps = [Logged("a", pretended), Logged("b", pretended, fails), Logged("c", pretended)]
    retriever = Retriever(steps, index, device="cuda")
    with pytest.raises(ValueError, match="damaged"):
        retriever.retrieve([Query(Image.new("RGB", (1, 1)), "")])
    assert pretended[-3:] == [f"{fails} b", "out of cuda 1", "wait for cuda"]
    with retriever.models:
        pretended.append("the models are free")


def test_calls_run_at_the_same_time_where_a_core_is_free(spare_core: None) -> None:
    meeting = threading.Barrier(2, timeout=20)  # each call waits for the other one
    with streams.side_by_side([meeting.wait, meeting.wait], 2) as results:
        assert sorted(result() for result in results) == [0, 1]


def test_calls_wait_for_each_other_where_no_core_is_free(spare_core: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    assert streams.free_threads() == 1
    order: list[str] = []
    with streams.side_by_side([partial(order.append, name) for name in "abc"], 1) as results:
        for result in results:
            order.append("next")
            result()
    assert order == ["next", "a", "next", "b", "next", "c"]


def test_calls_run_in_the_context_of_their_caller(spare_core: None) -> None:
    pinned: ContextVar[str] = ContextVar("pinned", default="nothing")
    token = pinned.set("version 1")
    with streams.side_by_side([pinned.get, pinned.get], 2) as results:
        pinned.reset(token)
        assert [result() for result in results] == ["nothing", "version 1"]


def test_a_call_that_fails_leaves_none_behind(spare_core: None) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def fails() -> None:
        begun.wait(20)
        threading.Timer(0.05, may_end.set).start()
        raise ValueError("an image is damaged")

    def slow() -> None:
        begun.set()
        may_end.wait(20)
        ended.set()

    with pytest.raises(ValueError, match="damaged"), streams.side_by_side([fails, slow], 2) as results:
        results[0]()
    assert ended.is_set()
    with pytest.raises(ValueError, match="damaged"), streams.side_by_side([may_end.set, fails], 2) as results:
        results[1]()


def test_calls_within_calls_need_no_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads may be waiting for the results of calls that no free thread is left to start."""
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(streams, "_threads", lambda: pool)
        begun = threading.Event()

        def outer() -> int:
            begun.set()
            with streams.side_by_side([partial(int, "1"), partial(int, "2")], 2) as results:
                return sum(result() for result in results)

        calls: list[Callable[[], int]] = [partial(begun.wait, 20), outer]
        with streams.side_by_side(calls, 2) as results:
            assert [result() for result in results] == [True, 3]


class Meeting:
    """A step that finds row 7 for each query and continues only when `parties` threads are in it."""

    name = "meeting"

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties, timeout=20)
        self.asked: list[list[str]] = []

    def start(self, queries: Sequence[Query]) -> Finish:
        self.asked.append([query.id for query in queries])
        self.barrier.wait()
        return lambda _: [[Candidate(7, 0.5)] for _ in queries]


@pytest.mark.parametrize(
    ("queries", "shares"),
    [("", []), ("a", ["a"]), ("ab", ["a", "b"]), ("abcde", ["ab", "cde"])],
)
def test_threads_share_a_batch(spare_core: None, index: Index, queries: str, shares: list[str]) -> None:
    step = Meeting(max(len(shares), 1))
    found = Retriever([step], index).retrieve([Query(Image.new("RGB", (1, 1)), "", name) for name in queries])
    assert [result.query_id for result in found] == list(queries)
    assert all([candidate.row for candidate in result.candidates] == [7] for result in found)
    assert sorted("".join(asked) for asked in step.asked) == shares


def test_no_thread_starts_another_where_all_cores_are_taken(spare_core: None, index: Index) -> None:
    threads = set[str]()

    class Noted(Meeting):
        def __init__(self, name: str) -> None:
            super().__init__(1)
            self.name = name

        def start(self, queries: Sequence[Query]) -> Finish:
            threads.add(threading.current_thread().name)
            return super().start(queries)

    Retriever([Noted("step1"), Noted("step2"), Noted("step3")], index).retrieve(
        [Query(Image.new("RGB", (1, 1)), "", name) for name in "ab"]
    )
    assert len(threads) <= 2  # a thread takes over work that the other has not started
