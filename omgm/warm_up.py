"""Prepares a process for its first request: runs the models once, and exempts objects from garbage collection."""

from __future__ import annotations

import gc
import logging
import time

from PIL import Image

from retriever.asking import QueryRetriever
from retriever.models.graphs import warm_up_sizes
from retriever.types import Query

logger = logging.getLogger(__name__)


def warm_up(retriever: QueryRetriever, most: int) -> None:
    """Runs batches of each padded size up to `most`, so that no request pays for what the first of a size initializes.

    On a GPU, these are the kernels to load and the CUDA graphs to capture.
    """
    started, query = time.perf_counter(), Query(Image.new("RGB", (64, 64)), "warm up")
    for size in warm_up_sizes(most):
        retriever.retrieve([query] * size)
    if most > 1:
        logger.info("warmed up batches of up to %d queries in %.1f s", most, time.perf_counter() - started)


def freeze_objects() -> None:
    """Exempts all existing objects from garbage collection: models, index and modules live as long as the process.

    Under load, a full collection would otherwise stop everything for 0.2 s every ten seconds to traverse half a million
    objects. Objects without references are still freed, unless they are part of a cycle.
    """
    gc.collect()
    gc.freeze()
