"""The chat client and the generator on it, against a real HTTP server on loopback that fails in several ways."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from PIL import Image

from indexes.chat import ChatClient, ChatError, image_part
from retriever.types import Evidence, GenerationRequest
from serving.generator import OpenAIGenerator


class Server:
    """An OpenAI-like server whose model names say how it behaves; it keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.active = self.most_active = 0
        app = FastAPI()
        app.post("/v1/chat/completions")(self.answer)
        self._uvicorn = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none"))
        self._thread = threading.Thread(target=self._uvicorn.run, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        while not self._uvicorn.started:
            time.sleep(0.01)
        port = self._uvicorn.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *error: object) -> None:
        self._uvicorn.should_exit = True
        self._thread.join(5)

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
        if model == "slow":
            await asyncio.sleep(1.0)
        if model == "counted":
            self.active += 1
            self.most_active = max(self.most_active, self.active)
            await asyncio.sleep(0.05)
            self.active -= 1
        if body["stream"]:
            return StreamingResponse(_events(model), media_type="text/event-stream")
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        return JSONResponse({"choices": [{"message": {"role": "assistant", "content": f"heard: {text}"}}]})


async def _events(model: str) -> AsyncIterator[str]:
    yield ": a comment\n\n"
    yield 'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
    for piece in ("Mount ", "Véll", ""):
        yield f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n"
    if model == "garbled":
        yield "data: {oops\n\n"
    if model == "troubled":
        yield 'data: {"error": {"message": "out of memory"}}\n\n'
    yield 'data: {"choices": [], "usage": {}}\n\ndata: [DONE]\n\n'
    yield 'data: {"choices": [{"delta": {"content": "too late"}}]}\n\n'


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def ask(server: Server, model: str, text: str = "hello", **settings: Any) -> str:
    async def run() -> str:
        async with ChatClient(server.url, model, backoff=0.02, **settings) as client:
            return await client.complete([{"role": "user", "content": text}], 16)

    return asyncio.run(run())


def pieces(server: Server, model: str) -> list[str]:
    async def run() -> list[str]:
        async with ChatClient(server.url, model, backoff=0.02) as client:
            return [piece async for piece in client.stream([{"role": "user", "content": "hello"}], 16)]

    return asyncio.run(run())


def test_complete(server: Server) -> None:
    assert ask(server, "good", api_key="secret") == "heard: hello"
    assert server.bodies == [
        {"model": "good", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 16, "temperature": 0.0,
         "stream": False}
    ]  # fmt: skip
    assert server.headers[0]["authorization"] == "Bearer secret"


def test_a_base_url_may_end_in_v1(server: Server) -> None:
    assert (
        ChatClient(server.url + "/v1/", "m").url
        == ChatClient(server.url, "m").url
        == server.url + "/v1/chat/completions"
    )


def test_tries_again_after_500(server: Server) -> None:
    assert ask(server, "flaky") == "heard: hello"
    assert len(server.bodies) == 2


def test_waits_as_long_as_retry_after_says(server: Server) -> None:
    assert ask(server, "busy") == "heard: hello"
    assert server.times[1] - server.times[0] >= 0.3


def test_gives_up_after_the_last_try(server: Server) -> None:
    with pytest.raises(ChatError, match=r"/v1/chat/completions: status 503: out of memory \(tried 3 times\)") as caught:
        ask(server, "down", retries=2)
    assert caught.value.status == 503 and caught.value.url.startswith(server.url)
    assert len(server.bodies) == 3


def test_a_refusal_is_not_tried_again(server: Server) -> None:
    with pytest.raises(ChatError, match="no such model") as caught:
        ask(server, "strict")
    assert caught.value.status == 404 and len(server.bodies) == 1


def test_a_slow_server_times_out(server: Server) -> None:
    with pytest.raises(ChatError, match="ReadTimeout") as caught:
        ask(server, "slow", timeout=0.2, retries=0)
    assert caught.value.status is None


def test_nobody_listens(server: Server) -> None:
    server.url = "http://127.0.0.1:9"
    with pytest.raises(ChatError, match="ConnectError"):
        ask(server, "good", retries=1)


@pytest.mark.parametrize("model", ["broken", "empty"])
def test_not_a_completion(server: Server, model: str) -> None:
    with pytest.raises(ChatError, match="not a chat completion"):
        ask(server, model)


def test_stream(server: Server) -> None:
    assert pieces(server, "good") == ["Mount ", "Véll"]
    assert server.bodies[0]["stream"] is True


@pytest.mark.parametrize(("model", "message"), [("garbled", "not a piece"), ("troubled", "out of memory")])
def test_a_stream_that_goes_wrong(server: Server, model: str, message: str) -> None:
    with pytest.raises(ChatError, match=message):
        pieces(server, model)


def test_concurrency_is_limited(server: Server) -> None:
    async def run() -> list[str]:
        async with ChatClient(server.url, "counted", concurrency=3) as client:
            return await asyncio.gather(*(client.complete([{"role": "user", "content": str(i)}], 1) for i in range(9)))

    assert asyncio.run(run()) == [f"heard: {i}" for i in range(9)]
    assert server.most_active == 3


def test_image_part() -> None:
    part = image_part(Image.new("RGBA", (2000, 500), (200, 30, 30, 255)), max_side=100)
    header, data = part["image_url"]["url"].split(",")
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    assert header == "data:image/jpeg;base64" and picture.size == (100, 25)
    assert all(abs(a - b) < 8 for a, b in zip(picture.getpixel((50, 12)), (200, 30, 30), strict=True))


@pytest.mark.parametrize(
    "settings", [{"base_url": "localhost:1"}, {"retries": -1}, {"concurrency": 0}, {"timeout": 0}, {"backoff": -1}]
)
def test_settings_out_of_range(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        ChatClient(**{"base_url": "http://localhost", "model": "m", **settings})


EVIDENCE = Evidence("e", "Velland", "Geography", "The highest point is Mount Vell.")


def test_generator(server: Server) -> None:
    async def run() -> None:
        async with ChatClient(server.url, "good") as client:
            generator = OpenAIGenerator(client, max_characters=20)
            first, second = await generator.generate(
                [
                    GenerationRequest("How high is it?", None, EVIDENCE),
                    GenerationRequest("Who?", Image.new("RGB", (4, 4)), None),
                ]
            )
            assert first.answer == (
                "heard: - Context: # Wiki Article: Velland\n## Section Title: Geography\nThe highest point is\n"
                "- Question: How high is it?\nThe answer is:"
            )
            assert first.truncated and not second.truncated
            assert second.answer == "heard: - Question: Who?\nThe answer is:"
            assert generator.name == "good"
            stream = [piece async for piece in generator.stream(GenerationRequest("Who?", None, EVIDENCE))]
            assert stream == ["Mount ", "Véll"]

    asyncio.run(run())


def test_multimodal_generator_sends_the_picture(server: Server) -> None:
    async def run() -> None:
        async with ChatClient(server.url, "good") as client:
            generator = OpenAIGenerator(client, style="infoseek", multimodal=True)
            await generator.generate([GenerationRequest("Who?", Image.new("RGB", (4, 4)), EVIDENCE)])

    asyncio.run(run())
    image, text = server.bodies[0]["messages"][1]["content"]
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert "Mount Vell" in text["text"]
