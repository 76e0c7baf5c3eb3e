"""A CUDA stream for each step: what one step computes before its turn runs beside the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch


def own_stream() -> Callable[[], AbstractContextManager[Any]]:
    """Returns what enters a new CUDA stream; without CUDA, what does nothing.

    A step starts and finishes in its own stream and hands candidates on as Python objects, which waits for its own
    results alone. So no tensor crosses from one stream to another.
    """
    if not torch.cuda.is_available():
        return nullcontext
    torch.cuda.synchronize()  # weights and stores have arrived before any stream reads them
    return partial(torch.cuda.stream, torch.cuda.Stream())
