"""Batches made ahead of their use, in threads, which also pin them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from training.batch import Batch
from training.feeder import Feeder


@dataclass(frozen=True, slots=True)
class Numbered(Batch):
    number: Tensor


def numbered(number: int) -> Numbered:
    return Numbered(torch.tensor([number]))


def test_batches_come_in_order_and_from_any_start() -> None:
    made: list[int] = []
    lock = threading.Lock()

    def make(number: int) -> Numbered:
        with lock:
            made.append(number)
        return numbered(number)

    feeder = Feeder(make, ahead=2)
    for number in (7, 8, 9, 3):
        assert feeder(number).number.item() == number
    feeder.close()
    assert sorted(made)[:2] == [3, 4] and max(made) <= 11  # the two batches after number 9 may not have been started


def test_a_batch_that_cannot_be_made_is_an_error() -> None:
    def make(number: int) -> Numbered:
        if number == 2:
            raise ValueError("cut short")
        return numbered(number)

    feeder = Feeder(make)
    assert [feeder(number).number.item() for number in (0, 1)] == [0, 1]
    with pytest.raises(ValueError, match="cut short"):
        feeder(2)


def test_the_threads_that_make_batches_pin_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned_by: set[threading.Thread] = set()

    def pin(tensor: Tensor) -> Tensor:
        pinned_by.add(threading.current_thread())
        return tensor

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Numbered, "to", lambda batch, device: batch)
    with_gpu = Feeder(numbered, torch.device("cuda"))
    assert with_gpu(0).number.item() == 0
    with_gpu.close()
    assert pinned_by and threading.main_thread() not in pinned_by
    pinned_by.clear()
    without = Feeder(numbered)
    assert without(0).number.item() == 0
    without.close()
    assert not pinned_by
