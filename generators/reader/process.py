"""The extractive reader in its own process, so that it does not compete with the models for Python's global lock.

Questions go to its standard input and answers come back in order, each as a line of JSON. It exits at end of input.
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
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from generators.reader.reader import ExtractiveReader
from generators.reader.titles import asked_for, pointing
from generators.things import about_each
from retriever.types import ArticleImage, Evidence, Generation, GenerationRequest, OtherSection

LONGEST_REPLY = 2**26
"""Maximum size of a reply in bytes. A reply may have a section, and words may have any length."""
BATCH = 8
"""Maximum number of questions that are read together."""


class ReaderProcess:
    """A `Generator` that asks an `ExtractiveReader` in another process, for use within one event loop.

    A process that has died is replaced on the next request. As a context manager, it starts the process in advance and
    stops it at the end.
    """

    name, concurrency = ExtractiveReader.name, BATCH

    def __init__(self) -> None:
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._replies: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Generation]] = deque()

    async def __aenter__(self) -> Self:
        """Starts the process and waits until it has loaded its weights."""
        await self._read(GenerationRequest("", None, None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the process; its pending requests fail."""
        if self._process is not None and self._replies is not None:
            self._process.kill()  # safe, because it has no state
            await self._replies

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request.

        Raises:
            ConnectionResetError: The process has ended.
        """
        return await about_each(requests, self._read_all)

    async def _read_all(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return list(await asyncio.gather(*map(self._read, requests)))

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer in one piece unless it abstains, then the whole `Generation`.

        Raises:
            ConnectionResetError: The process has ended.
        """
        [generation] = await self.generate([request])
        if generation.answer is not None:
            yield generation.answer
        yield generation

    async def _read(self, request: GenerationRequest) -> Generation:
        if self._process is None:
            async with self._starting:
                if self._process is None:
                    self._process = await _start()
                    self._replies = asyncio.create_task(self._receive(self._process))
        assert self._process is not None and self._process.stdin is not None
        asked = {
            "question": pointing(request).question,
            "evidence": request.evidence and asdict(request.evidence),
            "others": [asdict(other) for other in request.others],
        }
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        return asked_for(request, await answer)

    async def _receive(self, process: Process) -> None:
        """Passes on the answers of a process until it ends, then fails its pending requests."""
        assert process.stdin is not None and process.stdout is not None
        try:
            while line := await process.stdout.readline():
                reply, answer = json.loads(line), self._waiting.popleft()
                if answer.done():  # the request was canceled
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
    # Use this process's modules and none from the working directory; threads that wait for a busy core would spin.
    environment = {"OMP_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = (sys.executable, "-P", "-m", __name__)
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment, limit=LONGEST_REPLY)


def _generation(fields: dict[str, Any]) -> Generation:
    span, evidence = fields["span"], fields["evidence"]
    found = {"span": span and tuple(span), "evidence": evidence and _evidence(evidence), "passages": ()}
    return Generation(**fields | found)


def _evidence(fields: dict[str, Any]) -> Evidence:
    return Evidence(**fields | {"images": tuple(ArticleImage(**image) for image in fields["images"])})


def main() -> None:
    """Answers questions until the end of the input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # sent to the whole group
        signal.signal(number, signal.SIG_IGN)  # the service still needs answers
    reader = ExtractiveReader()
    for lines in _waiting_lines():
        requests = [_request(json.loads(line)) for line in lines]
        try:
            replies = list(map(asdict, reader.read_all(requests)))
        except Exception:  # one of them fails; the others are answered
            replies = [_alone(reader, request) for request in requests]
        sys.stdout.buffer.write(b"".join(json.dumps(reply).encode() + b"\n" for reply in replies))
        sys.stdout.buffer.flush()


def _waiting_lines() -> Iterator[list[bytes]]:
    """Yields the lines that have arrived, at most `BATCH` at a time, until the end of the input."""
    rest, lines = b"", list[bytes]()
    while piece := os.read(sys.stdin.fileno(), 1 << 20):
        *whole, rest = (rest + piece).split(b"\n")
        lines += whole
        while lines:
            yield lines[:BATCH]
            lines = lines[BATCH:]


def _request(asked: dict[str, Any]) -> GenerationRequest:
    evidence = asked["evidence"] and _evidence(asked["evidence"])
    others = tuple(OtherSection(_evidence(other["evidence"]), other["behind"]) for other in asked["others"])
    return GenerationRequest(asked["question"], None, evidence, others=others)


def _alone(reader: ExtractiveReader, request: GenerationRequest) -> dict[str, Any]:
    try:
        [generation] = reader.read_all([request])
        return asdict(generation)
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    main()
