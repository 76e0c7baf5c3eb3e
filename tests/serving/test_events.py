"""Server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from serving.events import event, event_stream


@pytest.mark.parametrize("mark", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_an_event_has_one_line_of_data(mark: str) -> None:
    sent = event({"text": f"a{mark}é"}, "answer")
    assert sent.splitlines() == ["event: answer", sent.splitlines()[1], ""] and sent.endswith("\n\n")
    assert json.loads(sent.splitlines()[1].removeprefix("data: ")) == {"text": f"a{mark}é"} and "é" in sent


async def stream(
    events: AsyncIterator[str], sent: list[str], gone: asyncio.Event | None = None, reads: int = 100
) -> None:
    """Responds with events to a client that reads so many, and disconnects when `gone` is set; `sent` gets them."""

    async def receive() -> Message:
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"].decode() if message["more_body"] else "end")
            if len(sent) >= reads:
                await asyncio.Event().wait()

    await event_stream(events)({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)


async def test_a_stream_has_comments_while_the_model_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.events.SILENCE_S", 0.02)
    ready, sent, closed = asyncio.Event(), list[str](), list[str]()

    async def events() -> AsyncIterator[str]:
        try:
            yield "data: 1\n\n"
            await ready.wait()
            for _ in range(5):  # these come soon enough
                await asyncio.sleep(0.01)
                yield "data: 2\n\n"
        finally:
            closed.append("closed")

    streaming = asyncio.ensure_future(stream(events(), sent))
    while sent.count(": waiting\n\n") < 2:
        await asyncio.sleep(0.001)
    ready.set()
    await streaming
    comments = sent.count(": waiting\n\n")
    assert sent == ["data: 1\n\n", *[": waiting\n\n"] * comments, *["data: 2\n\n"] * 5, "end"]
    assert closed == ["closed"]


@pytest.mark.parametrize("reads", [1, 2])
async def test_a_stream_that_nobody_reads_is_closed(reads: int) -> None:
    """Whether it waits for its client to read the first event, or for the second event."""
    closed, sent, gone = list[str](), list[str](), asyncio.Event()

    async def events() -> AsyncIterator[str]:
        try:
            yield "data: 1\n\n"
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    streaming = asyncio.ensure_future(stream(events(), sent, gone, reads))
    while sent != ["data: 1\n\n"]:
        await asyncio.sleep(0)
    gone.set()
    await streaming
    assert closed == ["closed"]
