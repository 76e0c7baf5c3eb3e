"""Settings of the process for threads that launch kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch

from retriever.gpu import SWITCH_INTERVAL, prepare_gpu


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    interval, cudnn = sys.getswitchinterval(), torch.backends.cuda.cudnn_sdp_enabled()
    yield
    sys.setswitchinterval(interval)
    torch.backends.cuda.enable_cudnn_sdp(cudnn)


@pytest.mark.parametrize(("before", "after"), [(5e-3, SWITCH_INTERVAL), (1e-5, 1e-5)])
def test_threads_take_turns(before: float, after: float) -> None:
    sys.setswitchinterval(before)
    torch.backends.cuda.enable_cudnn_sdp(True)
    prepare_gpu()
    assert sys.getswitchinterval() == pytest.approx(after)
    assert not torch.backends.cuda.cudnn_sdp_enabled()
