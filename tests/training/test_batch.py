"""Batches that move as a whole, what queries should find, and scalars that are read later.

Batches made ahead of their use, in threads, which also pin them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from training.batch import Batch, Feeder, Targets, read_later

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@dataclass(frozen=True, slots=True)
class Part(Batch):
    values: Tensor
    weight: float


@dataclass(frozen=True, slots=True)
class Whole(Batch):
    first: Part
    others: list[Part]
    rows: Tensor
    name: str


def whole() -> Whole:
    parts = [Part(torch.arange(6.0).view(2, 3) + i, i / 2) for i in range(3)]
    return Whole(parts[0], parts[1:], torch.arange(12).view(3, 4)[:, 1], "a")


@pytest.fixture
def pins(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The tensors that are copied to pinned memory, which takes a GPU; here they stay where they are."""
    found: list[Tensor] = []

    def pin(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    return found


def test_every_tensor_of_a_batch_is_pinned_and_nothing_else_changes(pins: list[Tensor]) -> None:
    batch = whole()
    copy = batch.pinned(CUDA)
    expected = [batch.first.values, *(part.values for part in batch.others), batch.rows]
    assert len(pins) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(pins, expected, strict=True))
    # A tensor with gaps would be copied to the GPU through pageable memory although it is pinned.
    assert not batch.rows.is_contiguous() and all(tensor.is_contiguous() for tensor in pins)
    assert (copy.name, copy.first.weight, [part.weight for part in copy.others]) == ("a", 0.0, [0.5, 1.0])
    assert copy.rows is pins[-1]


def test_a_batch_that_stays_on_the_cpu_is_not_copied(pins: list[Tensor]) -> None:
    batch = whole()
    assert batch.pinned(CPU) is batch
    assert batch.to(CPU).rows is batch.rows and not pins


def test_what_is_on_a_gpu_is_not_pinned(pins: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    batch = whole()
    monkeypatch.setattr(Tensor, "is_cuda", property(lambda tensor: tensor is batch.rows))
    assert batch.pinned(CUDA).rows is batch.rows and len(pins) == 3


def test_queries_without_a_key_have_no_target() -> None:
    targets = Targets.of([None, 3, 0, None, 3])
    assert (targets.queries.tolist(), targets.keys.tolist(), len(targets)) == ([1, 2, 4], [3, 0, 3], 3)
    for keys in ([], [None, None]):
        none = Targets.of(keys)
        assert len(none) == 0 and none.queries.dtype == none.keys.dtype == torch.int64


def test_a_scalar_is_read_later() -> None:
    value = torch.tensor(2.5, requires_grad=True)
    assert read_later(value * 2)() == 5.0


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
