"""The chat client against servers that behave as documented by Ollama, llama.cpp's server and LM Studio."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.messages import Message
from chat_models.replies import ChatReply
from tests.fakes.local_chat_servers import (
    CannedReply,
    LocalChatServer,
    as_events,
    as_json,
    llama_chunk,
    llama_completion,
    llama_error,
    llama_models,
    ollama_chunk,
    ollama_completion,
    ollama_error,
    ollama_models,
)

CHAT = "/v1/chat/completions"
QUESTION: list[Message] = [{"role": "user", "content": "Who built this?"}]


def complete(*replies: CannedReply, **settings: Any) -> tuple[str, LocalChatServer]:
    async def run(url: str) -> str:
        async with ChatClient(f"{url}/v1", "gemma3:4b", backoff=0.01, **settings) as client:
            return (await client.converse(QUESTION, 16)).text

    with LocalChatServer({CHAT: list(replies)}) as server:
        return asyncio.run(run(server.url)), server


def stream(reply: CannedReply) -> list[str | ChatReply]:
    async def run(url: str) -> list[str | ChatReply]:
        async with ChatClient(url, "gemma3:4b", retries=0) as client:
            client._begins_thoughts = False  # as an earlier reply shows
            return [piece async for piece in client.stream(QUESTION, 16)]

    with LocalChatServer({CHAT: reply}) as server:
        return asyncio.run(run(server.url))


def check(models: CannedReply, model: str) -> str:
    async def run(url: str) -> str:
        async with ChatClient(url, model) as client:
            return (await client.check()).removeprefix(url)

    with LocalChatServer({"/v1/models": models}) as server:
        return asyncio.run(run(server.url))


@pytest.mark.parametrize("completion", [ollama_completion, llama_completion])
def test_an_answer(completion: Any) -> None:
    answer, server = complete(completion("Gustave Eiffel"))
    assert answer == "Gustave Eiffel"
    assert server.bodies == [
        {"model": "gemma3:4b", "messages": QUESTION, "max_tokens": 16, "temperature": 0.0, "stream": True,
         "stream_options": {"include_usage": True}}
    ]  # fmt: skip
    assert "authorization" not in server.headers[0]  # neither requires a key


def test_streams_end() -> None:
    ollama = [ollama_chunk(role="assistant", content="Gustave"), ollama_chunk(content=" Eiffel"), ollama_chunk("stop")]
    assert stream(as_events(ollama)) == ["Gustave", " Eiffel", ChatReply("Gustave Eiffel")]
    llama = [
        llama_chunk(role="assistant", content=None),
        llama_chunk(content="Gustave"),
        llama_chunk(content=" Eiffel"),
        llama_chunk("stop"),
    ]
    pinged = as_events(llama)
    pinged = CannedReply(
        f":\n\n{pinged.body}", content_type=pinged.content_type
    )  # llama.cpp's server sends pings while it processes the prompt
    assert stream(pinged) == ["Gustave", " Eiffel", ChatReply("Gustave Eiffel")]


def test_a_stream_that_fails_half_way() -> None:
    begun = ollama_chunk(role="assistant", content="Gus")
    with pytest.raises(ChatError, match="the stream ended before the answer was complete"):
        stream(as_events([begun, ollama_chunk(content="")], end=""))  # what Ollama makes of its own error
    failure = {"code": 500, "message": "failed to decode the batch", "type": "server_error"}
    with pytest.raises(ChatError, match="the server reports failed to decode the batch"):
        stream(as_events([llama_chunk(content="Gus"), {"error": failure}]))
    older = as_events(
        [llama_chunk(content="Gus")], end='error: {"code":500,"message":"failed to decode the batch"}\n\n'
    )
    with pytest.raises(ChatError, match="the server reports failed to decode the batch"):
        stream(older)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (ollama_error('model "gemma3:4b" not found, try pulling it first', 404), "not found, try pulling it first"),
        (ollama_error("invalid image input", 400), "status 400: invalid image input$"),
        (
            llama_error("Invalid API Key", 401, "authentication_error"),
            "status 401: Invalid API Key; the key is that of .* OPENAI_API_KEY, which is not set$",
        ),
        (
            llama_error(
                "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it",
                400,
                "exceed_context_size_error",
                n_prompt_tokens=9412,
                n_ctx=8192,
            ),
            r"status 400: request \(9412 tokens\) exceeds the available context size \(8192 tokens\), try increasing",
        ),
    ],
)
def test_a_refusal_says_what_the_server_said(reply: CannedReply, message: str) -> None:
    with pytest.raises(ChatError, match=message):
        complete(reply)


def test_reasoning_in_a_stream() -> None:
    thoughts = [ollama_chunk(role="assistant", content="", reasoning="The image"), ollama_chunk(reasoning=" shows")]
    said = stream(as_events([*thoughts, ollama_chunk(content="Eiffel"), ollama_chunk("stop")]))
    assert said == ["Eiffel", ChatReply("Eiffel", thoughts="The image shows")]
    cut = stream(as_events([*thoughts, ollama_chunk("length")]))
    assert cut == [ChatReply("", ending="cut", thoughts="The image shows")]
    cut = stream(as_events([llama_chunk(reasoning_content="The image"), llama_chunk("length")]))
    assert cut == [ChatReply("", ending="cut", thoughts="The image")]


def test_reasoning_can_be_turned_off() -> None:
    _, server = complete(ollama_completion("Gustave Eiffel"), reasoning_effort="none")
    assert server.bodies[0]["reasoning_effort"] == "none"


def test_models() -> None:
    assert check(ollama_models("gemma3:4b", "llama3.2:latest"), "gemma3:4b") == "/v1/models offers gemma3:4b"
    assert check(ollama_models("gemma3:4b", "llama3.2:latest"), "llama3.2") == "/v1/models offers llama3.2"
    with pytest.raises(ChatError, match="offers gemma3:4b, not 'gemma3'"):
        check(ollama_models("gemma3:4b"), "gemma3")
    assert check(llama_models("gemma-3-4b", "image"), "gemma-3-4b") == "/v1/models offers gemma-3-4b"


def test_no_models_yet() -> None:
    assert check(ollama_models(), "gemma3:4b") == "/v1/models responds but lists no models"


def test_not_a_chat_server() -> None:
    with pytest.raises(ChatError, match="not a list of models"):
        check(as_json({"error": "Unexpected endpoint or method. (GET /v1/models)"}), "m")  # LM Studio's status is 200
