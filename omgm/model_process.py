"""What a process with the models does; it imports nothing of the server, which would delay it."""

from __future__ import annotations

import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.retriever_messages import read_queries, read_requests, write_results
from retriever.image_cache import ImageCache
from retriever.malloc import give_back_memory
from retriever.types import EngineError
from serving.lanes import batched

if TYPE_CHECKING:
    from omgm.settings import Profile

logger = logging.getLogger(__name__)

_TRIM_S = 30
"""Seconds after which memory that is free between what is in use goes back to the system; under load it would grow."""


def retrieve_batches(connection: Connection, profile: Profile, folder: Path) -> None:
    """Works on batch after batch until the server closes the connection or ends; runs in a process of its own."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # sent to the whole group
        signal.signal(number, signal.SIG_IGN)  # the server still needs answers
    logging.basicConfig(level=logging.ERROR)  # the server has logged the warnings of the same index and models
    from omgm.opening import open_retriever
    from omgm.parts import build_generator
    from omgm.warm_up import freeze_objects, warm_up

    cache = ImageCache(profile.serving.cache_mib * 2**20)
    try:
        retriever = open_retriever(profile, folder, live=True, cache=cache)
        reader = batched(build_generator(profile))
        warm_up(retriever, 1)
    except (ValueError, OSError) as error:
        with suppress(OSError):  # the server has ended of the same error
            connection.send_bytes(str(error).encode())
        return
    freeze_objects()
    with suppress(OSError):  # the server has ended
        connection.send_bytes(b"")
    following, trimmed = _received(connection), time.monotonic()
    for first in following:
        before = cache.counts.copy()
        try:
            message = json.loads(first)
            if "requests" in message:
                assert reader is not None
                answers = reader.read_all(read_requests(message))
                reply = json.dumps({"generations": list(map(asdict, answers))}).encode()
            else:
                queries, settings = read_queries(message, following, retriever.index)
                retriever.threads = settings["threads"]
                results = retriever.retrieve(queries)
                reply = write_results(results, retriever.index, counts=_since(before, cache))
        except Exception as error:
            logger.exception("a batch failed")
            failure = {"failure": f"{type(error).__name__}: {error}", "engine": isinstance(error, EngineError)}
            reply = json.dumps(failure | {"counts": _since(before, cache)}).encode()
        with suppress(OSError):  # the server has ended
            connection.send_bytes(reply)
        if time.monotonic() > trimmed + _TRIM_S:
            give_back_memory()
            trimmed = time.monotonic()


def _since(before: Counter[tuple[str, str]], cache: ImageCache) -> list[tuple[str, str, int]]:
    return [(kind, result, count) for (kind, result), count in (cache.counts - before).items()]


def _received(connection: Connection) -> Iterator[bytes]:
    with suppress(EOFError, OSError):
        while True:
            yield connection.recv_bytes()
