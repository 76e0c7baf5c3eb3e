from __future__ import annotations

import pytest
import torch

from indexes.store.residency import Residency

GB = 10**9


@pytest.mark.parametrize(
    ("needed", "free", "reserved", "allocated", "on_gpu"),
    [
        (8 * GB, 16 * GB, 0, 0, True),
        (8 * GB + 1, 16 * GB, 0, 0, False),
        (8 * GB, 2 * GB, 30 * GB, 16 * GB, True),  # 14 GB are PyTorch's, of freed tensors
        (8 * GB, 2 * GB, 30 * GB, 17 * GB, False),
        (490 * GB, 79 * GB, 0, 0, False),
        (0, 0, GB, GB, True),
    ],
)
def test_tokens_are_kept_if_they_take_half_of_what_is_free(
    needed: int, free: int, reserved: int, allocated: int, on_gpu: bool
) -> None:
    assert Residency.of(needed, free, reserved, allocated).on_gpu is on_gpu


def test_messages() -> None:
    assert str(Residency.of(490 * GB, 17 * GB, GB, GB)) == (
        "tokens take 490.0 GB, half of the free GPU memory is 8.5 GB: read from disk for each batch"
    )
    assert str(Residency.of(5 * GB, 17 * GB, 0, 0)) == (
        "tokens take 5.0 GB, half of the free GPU memory is 8.5 GB: kept on the GPU"
    )
    assert str(Residency.on(torch.device("cpu"), 2_500_000)) == "tokens take 2.5 MB: read from disk for each batch"
