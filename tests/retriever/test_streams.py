"""Steps that start side by side."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from functools import partial

import pytest

from retriever import streams


@pytest.fixture
def spare_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    monkeypatch.setattr(streams, "_cores", lambda: 2)


def test_calls_run_at_the_same_time_where_a_core_is_free(spare_core: None) -> None:
    meeting = threading.Barrier(2, timeout=20)  # each call waits for the other one
    with streams.side_by_side([meeting.wait, meeting.wait]) as results:
        assert sorted(result() for result in results) == [0, 1]


def test_calls_wait_for_each_other_where_no_core_is_free(spare_core: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    order: list[str] = []
    with streams.side_by_side([partial(order.append, name) for name in "abc"]) as results:
        for result in results:
            order.append("next")
            result()
    assert order == ["next", "a", "next", "b", "next", "c"]


def test_calls_run_in_the_context_of_their_caller(spare_core: None) -> None:
    pinned: ContextVar[str] = ContextVar("pinned", default="nothing")
    token = pinned.set("version 1")
    with streams.side_by_side([pinned.get, pinned.get]) as results:
        pinned.reset(token)
        assert [result() for result in results] == ["nothing", "version 1"]


def test_a_call_that_fails_leaves_none_behind(spare_core: None) -> None:
    may_end, ended = threading.Event(), threading.Event()

    def fails() -> None:
        threading.Timer(0.05, may_end.set).start()
        raise ValueError("an image is damaged")

    def slow() -> None:
        may_end.wait(20)
        ended.set()

    with pytest.raises(ValueError, match="damaged"), streams.side_by_side([fails, slow]) as results:
        results[0]()
    assert ended.is_set()
    with pytest.raises(ValueError, match="damaged"), streams.side_by_side([may_end.set, fails]) as results:
        results[1]()
