"""Server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from serving.events import event, event_stream


@pytest.mark.parametrize("mark", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_an_event_has_one_line_of_data(mark: str) -> None:
    sent = event({"text": f"a{mark}é"}, "answer")
    assert sent.splitlines() == ["event: answer", sent.splitlines()[1], ""] and sent.endswith("\n\n")
    assert json.loads(sent.splitlines()[1].removeprefix("data: ")) == {"text": f"a{mark}é"} and "é" in sent


async def test_a_stream_has_comments_while_the_model_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.events.SILENCE_S", 0.02)
    closed = list[str]()

    async def events(ready: asyncio.Event) -> AsyncIterator[str]:
        try:
            yield "data: 1\n\n"
            await ready.wait()
            yield "data: 2\n\n"
        finally:
            closed.append("closed")

    ready, found = asyncio.Event(), list[str]()
    async for one in event_stream(events(ready)).body_iterator:
        found.append(str(one))
        if found.count(": waiting\n\n") == 2:
            ready.set()
    found = found
    assert found[0] == "data: 1\n\n" and found[-1] == "data: 2\n\n"
    assert set(found[1:-1]) == {": waiting\n\n"} and len(found) >= 4
    assert closed == ["closed"]


async def test_a_stream_that_nobody_reads_is_closed() -> None:
    closed = list[str]()

    async def events() -> AsyncIterator[str]:
        try:
            yield "data: 1\n\n"
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    body = event_stream(events()).body_iterator
    assert await anext(aiter(body)) == "data: 1\n\n"
    reading = asyncio.ensure_future(anext(aiter(body)))
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert closed == ["closed"]
