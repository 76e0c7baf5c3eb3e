from __future__ import annotations

import numpy as np
import pytest
import torch

from indexes.store.tokens import Parcel

CPU = torch.device("cpu")


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_arrays_arrive_as_they_were_filled(rows: int) -> None:
    shapes: list[tuple[tuple[int, ...], str]] = [((rows, 5, 3), "int8"), ((rows, 5), "float16"), ((7,), "int64")]
    parcel = Parcel([*shapes, ((2, 0), "uint8")], CPU)
    expected = []
    for number, array in enumerate(parcel.arrays):
        array[...] = np.arange(array.size).reshape(array.shape) + number
        expected.append(array.copy())
    sent = parcel.send()
    assert [tensor.dtype for tensor in sent] == [torch.int8, torch.float16, torch.int64, torch.uint8]
    assert all(tensor.is_contiguous() for tensor in sent)
    assert all(tensor.data_ptr() % 16 == 0 for tensor in sent if tensor.numel())
    for tensor, array in zip(sent, expected, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_an_empty_parcel() -> None:
    assert Parcel([], CPU).send() == []
