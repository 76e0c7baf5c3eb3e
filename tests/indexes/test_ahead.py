from __future__ import annotations

import threading

import pytest

from indexes.ahead import map_ahead


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
