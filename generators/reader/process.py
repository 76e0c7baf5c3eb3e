"""The extractive reader in a process of its own, so that it does not hold the interpreter's lock against the models.

Questions go to its standard input and answers come back in order, each as a line of JSON. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from generators.reader.reader import ExtractiveReader
from retriever.types import Evidence, Generation, GenerationRequest

LONGEST_REPLY = 2**26
"""Largest reply in bytes. An answer is at most twelve words of its section, but words may have any length."""


class ReaderProcess:
    """Asks an `ExtractiveReader` in another process; a `Generator`, for use within one event loop.

    A process that has died is replaced for the next request. As a context manager it starts the process beforehand, and
    ends it.
    """

    name = ExtractiveReader.name

    def __init__(self) -> None:
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._replies: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Generation]] = deque()

    async def __aenter__(self) -> Self:
        """Returns once the process has loaded its weights."""
        await self._read("", None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the process; requests that it holds fail."""
        if self._process is not None and self._replies is not None:
            self._process.kill()  # it has nothing to lose
            await self._replies

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request.

        Raises:
            ConnectionResetError: The process has ended.
        """
        return list(await asyncio.gather(*(self._read(request.question, request.evidence) for request in requests)))

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer in one piece unless it abstains, then the whole `Generation`.

        Raises:
            ConnectionResetError: The process has ended.
        """
        generation = await self._read(request.question, request.evidence)
        if generation.answer is not None:
            yield generation.answer
        yield generation

    async def _read(self, question: str, evidence: Evidence | None) -> Generation:
        if self._process is None:
            async with self._starting:
                if self._process is None:
                    self._process = await _start()
                    self._replies = asyncio.create_task(self._receive(self._process))
        assert self._process is not None and self._process.stdin is not None
        asked = {"question": question, "evidence": None if evidence is None else asdict(evidence)}
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        return await answer

    async def _receive(self, process: Process) -> None:
        """Passes the answers of a process on until it ends, then fails the requests that it held."""
        assert process.stdin is not None and process.stdout is not None
        try:
            while line := await process.stdout.readline():
                reply, answer = json.loads(line), self._waiting.popleft()
                if answer.done():  # its request has been canceled
                    continue
                if "error" in reply:
                    answer.set_exception(RuntimeError(f"the reader failed: {reply['error']}"))
                else:
                    answer.set_result(_generation(reply))
        finally:
            self._process = None
            while self._waiting:
                if not (answer := self._waiting.popleft()).done():
                    answer.set_exception(ConnectionResetError("the reader's process has ended"))
            process.stdin.close()
        await process.wait()


async def _start() -> Process:
    # The modules of this process, and none of the working directory; small matrices gain nothing from more threads.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    command = (sys.executable, "-P", "-m", __name__)
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment, limit=LONGEST_REPLY)


def _generation(fields: dict[str, Any]) -> Generation:
    return Generation(**{**fields, "span": tuple(fields["span"]) if fields["span"] else None})


def main() -> None:
    """Answers questions until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group; the service answers what it holds first
        signal.signal(number, signal.SIG_IGN)
    reader = ExtractiveReader()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        evidence = asked["evidence"]
        try:
            reply = asdict(reader.read(asked["question"], None if evidence is None else Evidence(**evidence)))
        except Exception:
            reply = {"error": traceback.format_exc()}
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
