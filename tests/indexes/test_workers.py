from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing

import pytest

from indexes.ahead import map_ahead
from indexes.workers import LocalWorkers, ModelName, in_batches, run_ahead, split
from tests.fakes.models import FakeEncoder, FakeFusion


class Doubling:
    """Doubles rows; a row's threading.Event is set when a batch with that row is encoded."""

    def __init__(self, *, fails_at: int = -1) -> None:
        self.fails_at = fails_at
        self.encoded = {row: threading.Event() for row in range(10)}

    def read(self, row: int) -> int:
        return 2 * row

    def encode(self, items: Sequence[int]) -> list[int]:
        for item in items:
            self.encoded[item // 2].set()
        if 2 * self.fails_at in items:
            raise ValueError("bad batch")
        return list(items)


def test_rows_are_split_into_batches() -> None:
    assert list(split(range(4, 11), 3)) == [range(4, 7), range(7, 10), range(10, 11)]
    assert list(split(range(4, 4), 3)) == []


def test_results_come_in_order() -> None:
    assert list(run_ahead(Doubling(), [range(0, 3), range(3, 5)])) == [[0, 2, 4], [6, 8]]
    assert list(run_ahead(Doubling(), [])) == []


def test_the_next_batch_is_encoded_while_a_result_is_written() -> None:
    work = Doubling()
    with closing(run_ahead(work, [range(0, 2), range(2, 4), range(4, 6)])) as results:
        assert next(results) == [0, 2]
        assert work.encoded[3].wait(10)  # although it has not been requested


def test_an_error_comes_after_the_results_before_it() -> None:
    results = run_ahead(Doubling(fails_at=5), [range(0, 2), range(2, 4), range(4, 6), range(6, 8)])
    assert [next(results), next(results)] == [[0, 2], [4, 6]]
    with pytest.raises(ValueError, match="bad batch"):
        next(results)


def test_work_gets_the_models_that_it_asks_for() -> None:
    encoder, fusion = FakeEncoder(), FakeFusion()
    workers, made = LocalWorkers(encoder, fusion), list[dict[str, object]]()

    def make(**models: object) -> Doubling:
        made.append(models)
        return Doubling()

    asked: list[list[ModelName]] = [["encoder"], ["fusion"], [], ["encoder", "fusion"]]
    for names in asked:
        list(workers.run(make, names, [range(1)]))
    assert made == [{"encoder": encoder}, {"fusion": fusion}, {}, {"encoder": encoder, "fusion": fusion}]
    rows = list(in_batches("double", workers, Doubling, [], range(2, 5), 2))
    assert rows == [(range(2, 4), [4, 6]), (range(4, 5), [8])]


def test_results_come_in_order_and_no_more_than_asked_are_begun() -> None:
    taken: list[int] = []

    def square(number: int) -> int:
        taken.append(number)
        return number * number

    found = map_ahead(square, range(10), ahead=3)
    assert [next(found), next(found)] == [0, 1]
    found.close()
    assert max(taken) <= 4  # the two requested and three ahead
    assert list(map_ahead(square, range(10), ahead=3)) == [number * number for number in range(10)]
    assert list(map_ahead(square, [], ahead=3)) == []


def test_work_is_done_while_nobody_asks() -> None:
    begun = [threading.Event(), threading.Event()]
    found = map_ahead(threading.Event.set, begun, ahead=1)
    next(found)
    assert begun[1].wait(5)
    found.close()


def test_an_error_comes_in_its_turn() -> None:
    found = map_ahead(lambda number: 6 // number, [3, 2, 0, 1], ahead=4)
    assert [next(found), next(found)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(found)
