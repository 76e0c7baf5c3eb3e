"""One CUDA stream per step, so that the work which steps start early runs concurrently."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch


def own_stream() -> Callable[[], AbstractContextManager[Any]]:
    """Creates a CUDA stream and returns a factory of contexts that enter it; without CUDA they do nothing.

    A step starts and finishes in its own stream and returns candidates as Python objects, which synchronizes with that
    stream alone. No tensor crosses from one stream to another.
    """
    if not torch.cuda.is_available():
        return nullcontext
    torch.cuda.synchronize()  # weights and stores must be complete before a stream reads them
    return partial(torch.cuda.stream, torch.cuda.Stream())
