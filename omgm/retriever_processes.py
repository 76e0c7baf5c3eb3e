"""Processes that run the models, beside the one that serves HTTP: each works on one batch at a time.

PyTorch takes and gives up Python's lock with every operation, so one process with a server and two batches in it keeps
two cores busy for three quarters of the time, and lets requests wait for the lock.
"""

from __future__ import annotations

import atexit
import json
import logging
import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from indexes.live.reading import VersionedIndex
from omgm.model_process import retrieve_batches
from omgm.retriever_messages import (
    ChangedMeanwhileError,
    read_generation,
    read_results,
    write_queries,
    write_requests,
)
from retriever.types import EngineError, Generation, GenerationRequest, Query, RetrievalResult
from serving.errors import ApiError

if TYPE_CHECKING:
    from indexes.store.index import Index
    from omgm.settings import Profile

logger = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")

_TRIES = 3
"""Most times that a batch is retrieved because an entity changes meanwhile."""
_STUCK = 10
"""How many times as long as `serving.timeout_s` a process may work on a batch before it is replaced."""

_COUNTING = threading.Lock()  # several processes count together


class RetrieverProcess:
    """One process with all models and the index (implements `serving.lanes.Lane`).

    It follows the changes that the server makes to the index. If it ends, the requests of its batch get 503, and
    `revive` starts another one.

    Args:
        profile: The profile.
        folder: The index's folder.
        siblings: All processes, this one included.
        counts: Where to count the hits and misses of the process's cache, see `ImageCache.counts`.

    Attributes:
        index: The server's index, which the rows of results refer to; set before the first retrieval.
    """

    index: VersionedIndex

    def __init__(
        self, profile: Profile, folder: Path, siblings: Sequence[RetrieverProcess], counts: Counter[tuple[str, str]]
    ) -> None:
        self._profile, self._folder, self._siblings, self._counts = profile, folder, siblings, counts
        self.busy = self._closed = False
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self._profile, self._folder)
        self._process = context.Process(target=retrieve_batches, args=arguments, name="retrieve", daemon=True)
        self._process.start()
        theirs.close()  # so that its end is noticed
        self._dead = False

    def wait(self) -> None:
        """Waits until the process has loaded the models.

        Raises:
            ValueError: It cannot load them.
        """
        try:
            failure = self._connection.recv_bytes().decode()
        except (EOFError, OSError) as error:
            self._process.join()
            raise ValueError(f"a process with the models ended with status {self._process.exitcode}") from error
        if failure:
            raise ValueError(failure)

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns one result per query, in order.

        Raises:
            ApiError: 503 if the process ends meanwhile, or cannot be replaced.
            EngineError: The search engine cannot be reached.
            RuntimeError: The retrieval failed.
        """
        return self._alone(lambda: self._retrieve(queries))

    def read(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request, in order, by the profile's reader.

        Raises:
            ApiError: As from `retrieve`.
            RuntimeError: The reading failed.
        """
        reply = self._alone(lambda: self._asked([write_requests(requests)]))
        return list(map(read_generation, reply["generations"]))

    def _alone(self, work: Callable[[], ResultT]) -> ResultT:
        """Returns the result of work that asks the process, which nobody else asks meanwhile."""
        if self._dead or not self._process.is_alive():  # it may have ended while nobody waited for it
            self._dead = True
            self.revive()
        if self._dead:
            raise _lost("a process with the models cannot be started; the server's log says why")
        with self._lock:
            self.busy = True
            try:
                return work()
            except (EOFError, OSError) as error:
                if isinstance(error, EngineError):
                    raise
                self._dead = True
                self._process.kill()
                raise _lost("the process that worked on this request has ended; it is being replaced") from error
            finally:
                self.busy = False

    def _retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        threads = 1 if sum(one.busy for one in self._siblings) > 1 else None  # all that are free
        for attempt in range(_TRIES):
            reply = self._asked(write_queries(queries, self.index, threads=threads))
            with self.index.pinned() as version:
                try:
                    return read_results(reply, self.index, version)
                except ChangedMeanwhileError:
                    if attempt == _TRIES - 1:
                        raise
        raise AssertionError

    def _asked(self, message: Iterable[bytes]) -> dict[str, Any]:
        """Returns the reply to a message in parts."""
        for part in message:
            self._connection.send_bytes(part)
        if not self._connection.poll(_STUCK * self._profile.serving.timeout_s):
            raise EOFError("it is stuck")
        reply: dict[str, Any] = json.loads(self._connection.recv_bytes())
        with _COUNTING:
            self._counts.update({(kind, result): count for kind, result, count in reply.get("counts", ())})
        if failure := reply.get("failure"):
            raise EngineError(failure) if reply["engine"] else RuntimeError(failure)
        return reply

    def revive(self) -> None:
        """Starts another process if this one has ended, and waits for it; does nothing otherwise.

        If that one cannot load the models, this is logged, and the next batch tries again.
        """
        if not self._dead or self._closed:
            return
        logger.error("a process with the models ended with status %s; starting another", self._process.exitcode)
        self._connection.close()
        self._start()
        try:
            self.wait()
        except ValueError as error:
            self._dead = True
            logger.error("a process with the models could not be started: %s", error)

    def close(self) -> None:
        """Ends the process after its batch."""
        self._closed = True
        self._connection.close()
        self._process.join(self._profile.serving.timeout_s)
        self._process.kill()


class RetrieverProcesses:
    """A retriever in several processes (implements `serving.lanes.ParallelRetriever`).

    Args:
        profile: The profile.
        folder: The index's folder.
        count: How many processes to start; they have equal shares of `serving.cache_mib`.
        counts: Where to count the hits and misses of their caches.
    """

    index: Index

    def __init__(self, profile: Profile, folder: Path, count: int, counts: Counter[tuple[str, str]]) -> None:
        share = {"cache_mib": -(-profile.serving.cache_mib // count)}
        profile = profile.model_copy(update={"serving": profile.serving.model_copy(update=share)})
        self.lanes: list[RetrieverProcess] = []
        self.lanes += (RetrieverProcess(profile, folder, self.lanes, counts) for _ in range(count))
        atexit.register(self.close)  # before multiprocessing's own, which would wait for processes that wait for us

    def wait(self, index: Index) -> None:
        """Waits until all processes have loaded their models.

        Args:
            index: The server's index, which follows the same changes.

        Raises:
            ValueError: One of them cannot load them.
        """
        assert isinstance(index, VersionedIndex)
        self.index = index
        for lane in self.lanes:
            lane.index = index
            lane.wait()

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns one result per query, in order, by the first process."""
        return self.lanes[0].retrieve(queries)

    def close(self) -> None:
        """Ends the processes."""
        atexit.unregister(self.close)
        for lane in self.lanes:
            lane.close()


def _lost(message: str) -> ApiError:
    return ApiError(503, "not_ready", message, headers={"Retry-After": "5"})
