"""A fake chat server on loopback, for tests of its clients."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from tests.fakes.listening import listening_as

USAGE = {"prompt_tokens": 120, "completion_tokens": 7, "total_tokens": 127}
"""The usage that the model `counting` reports, for a stream only on request."""


class FakeChatServer:
    """An OpenAI-like server whose model names determine its behavior; it records the requests.

    Only `limited` heeds `max_tokens`, with words as its tokens.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.active = self.most_active = 0
        app = FastAPI()
        app.post("/v1/chat/completions")(self.answer)
        app.get("/v1/models")(self.models)
        # Clients in the tests' process may never close a keep-alive connection.
        closing = [("Connection", "close")]
        self._server = listening_as(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none", loop="asyncio", headers=closing)
        )

    def __enter__(self) -> Self:
        self.url = self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(None, None, None)

    async def models(self) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "good"}, {"id": "busy"}]}

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        first = not any(known["model"] == body["model"] for known in self.bodies)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.times.append(time.monotonic())
        model = body["model"]
        if model == "flaky" and first:
            return PlainTextResponse("overloaded", 500)
        if model == "busy" and first:
            return PlainTextResponse("later", 429, headers={"Retry-After": "0.3"})
        if model == "down":
            return PlainTextResponse("out of memory", 503)
        if model == "strict":
            return JSONResponse({"error": {"message": "no such model"}}, 404)
        if model == "broken":
            return PlainTextResponse('{"choices": [')
        if model == "empty":
            return JSONResponse({"choices": []})
        if model == "torn" and first:
            return StreamingResponse(_torn(), headers={"Content-Length": "100"})
        if model == "slow":
            await asyncio.sleep(1.0)
        if model == "counted":
            self.active += 1
            self.most_active = max(self.most_active, self.active)
            await asyncio.sleep(0.05)
            self.active -= 1
        if model == "old" and "stream_options" in body:
            return JSONResponse({"error": {"message": "stream_options: unknown field"}}, 400)
        usage = USAGE if model == "counting" else None
        content = body["messages"][-1]["content"]
        text = (
            "V\u2028ll\x85"
            if model == "separated"
            else f"heard: {content if isinstance(content, str) else content[-1]['text']}"
        )
        words = re.findall(r"[^ ]+|(?: +[^ ]*)", text)  # as tokens: with the blanks before them
        cut = model == "limited" and len(words) > body["max_tokens"]
        words = words[: body["max_tokens"]] if cut else words
        finish = "length" if cut else "stop"
        if body["stream"]:
            counted = usage if "stream_options" in body else None
            return StreamingResponse(_events(model, words, finish, counted), media_type="text/event-stream")
        choice = {"message": {"role": "assistant", "content": "".join(words)}, "finish_reason": finish}
        return JSONResponse({"choices": [choice], "usage": usage})


async def _torn() -> AsyncIterator[str]:
    yield '{"choices": [{"message"'
    raise ConnectionResetError("the server dies in the middle")


async def _events(model: str, words: Sequence[str], finish: str, usage: dict[str, int] | None) -> AsyncIterator[str]:
    yield ": a comment\n\n"
    yield 'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
    for word in words:
        yield f"data: {json.dumps({'choices': [{'delta': {'content': word}}]}, ensure_ascii=False)}\n\n"
    if model == "garbled":
        yield "data: {oops\n\n"
    if model == "troubled":
        yield 'data: {"error": {"message": "out of memory"}}\n\n'
    if model == "unfinished":
        return
    yield f"data: {json.dumps({'choices': [{'delta': {}, 'finish_reason': finish}]})}\n\n"
    if model == "terse":
        return
    yield f"data: {json.dumps({'choices': [], 'usage': usage or {}})}\n\ndata: [DONE]\n\n"
