"""The reader in its own process, a real one in each test."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from typing import cast

import pytest

from generators.reader.process import ReaderProcess
from generators.reader.reader import ExtractiveReader
from retriever.types import Evidence, Generation, GenerationRequest

TOWER = Evidence("tower", "Eiffel Tower", "History", "The tower was built in 1889 by Gustave Eiffel. It is of iron.")
WHEN = GenerationRequest("When was the tower built?", None, TOWER)
REQUESTS = [
    WHEN,
    GenerationRequest("Who built the \udcfftower “in iron”?\n", None, TOWER),
    GenerationRequest("How many elephants live in it?", None, TOWER),
    GenerationRequest("When?", None, None),
    GenerationRequest("When was it?", None, replace(TOWER, text="")),
]


def pid_of(reader: ReaderProcess) -> int:
    assert reader._process is not None
    return reader._process.pid


def rounded(generation: str | Generation) -> Generation:
    """Returns an answer with the digits of its confidence that do not depend on what is read with it."""
    assert isinstance(generation, Generation)
    return replace(generation, confidence=round(generation.confidence or 0.0, 5))


async def held(reader: ReaderProcess, request: GenerationRequest = WHEN) -> asyncio.Task[list[Generation]]:
    """Returns a request held by the process, which is stopped."""
    os.kill(pid_of(reader), signal.SIGSTOP)
    asked = asyncio.create_task(reader.generate([request]))
    while not reader._waiting:
        await asyncio.sleep(0)
    return asked


def test_answers_as_the_reader_does() -> None:
    async def ask() -> tuple[list[Generation], list[str | Generation], list[str | Generation]]:
        async with ReaderProcess() as reader:
            streams = [[piece async for piece in reader.stream(request)] for request in (WHEN, REQUESTS[3])]
            return await reader.generate(REQUESTS), streams[0], streams[1]

    expected = asyncio.run(ExtractiveReader().generate(REQUESTS))
    assert expected[0].answer == "1889" and expected[0].span == (23, 27)
    found, streamed, abstained = asyncio.run(ask())
    assert [rounded(each) for each in found] == [rounded(each) for each in expected]
    assert streamed[0] == "1889" and rounded(streamed[1]) == rounded(expected[0])
    assert abstained == [Generation(None, 0.0)]


async def test_a_question_that_fails_hurts_no_other() -> None:
    broken = GenerationRequest("When?", None, replace(TOWER, text=cast(str, None)))
    async with ReaderProcess() as reader:
        asked = (reader.generate([request]) for request in (WHEN, broken, WHEN))
        first, failed, last = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(first, list) and first[0].answer == "1889" and last == first
    assert isinstance(failed, RuntimeError) and "AttributeError" in str(failed)


def test_a_process_that_dies_is_replaced() -> None:
    async def ask() -> list[Generation]:
        async with ReaderProcess() as reader:
            pid, asked = pid_of(reader), await held(reader)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(ConnectionError, match="the reader's process has ended"):
                await asked
            answers = await asyncio.gather(*(reader.generate([WHEN]) for _ in range(3)))
            assert pid_of(reader) != pid
            return [answer for [answer] in answers]

    assert [answer.answer for answer in asyncio.run(ask())] == ["1889"] * 3


def test_a_canceled_request_takes_no_answer_of_another() -> None:
    async def ask() -> list[Generation]:
        async with ReaderProcess() as reader:
            (await held(reader, REQUESTS[3])).cancel()
            await asyncio.sleep(0)
            os.kill(pid_of(reader), signal.SIGCONT)
            return await reader.generate([WHEN])

    assert asyncio.run(ask())[0].answer == "1889"


def test_signals_to_the_whole_group_leave_it_to_the_service() -> None:
    """Ctrl-C and service managers signal all processes at once, but the service still answers pending requests."""

    async def ask() -> list[Generation]:
        async with ReaderProcess() as reader:
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(pid_of(reader), number)
            return await reader.generate([WHEN])

    assert asyncio.run(ask())[0].answer == "1889"


def test_ends_with_its_service() -> None:
    async def ask() -> int | None:
        async with ReaderProcess() as reader:
            process = reader._process
            assert process is not None and process.stdin is not None
            process.stdin.close()  # as happens when the service is killed
            return await asyncio.wait_for(process.wait(), 20)

    assert asyncio.run(ask()) == 0


def test_ends_before_its_service_does() -> None:
    async def ask() -> int | None:
        async with ReaderProcess() as reader:
            process = reader._process
        assert process is not None
        return process.returncode

    assert asyncio.run(ask()) == -signal.SIGKILL
