"""A key that a server plants in every reply, header, error and redirect is blacked out."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.messages import Message
from chat_models.replies import ChatReply
from chat_models.secrets import HIDDEN, HiddenStream, hidden, keep_secret
from tests.fakes.raw_server import Answer, RawServer, events, piece, response

KEY = "sk-planted/4f9a1c77e2"
USER: list[Message] = [{"role": "user", "content": "Who?"}]
CALL = {"id": KEY, "type": "function", "function": {"name": "f", "arguments": json.dumps({"q": KEY})}}
WHOLE = {"role": "assistant", "content": f"It is {KEY}.", "reasoning_content": KEY, "tool_calls": [CALL], KEY: KEY}
SPLIT = events(piece("It is sk-pl"), piece("anted/4f9a"), piece("1c77e2."), piece("", "stop"), "[DONE]")


def ask(answer: Answer, path: str = "") -> tuple[list[str | ChatReply], str]:
    """Returns the pieces of a streamed reply and the message of its error."""

    async def run(url: str) -> list[str | ChatReply]:
        async with ChatClient(url, "m", KEY, retries=0) as client:
            return [part async for part in client.stream(USER, 16)]

    with RawServer(lambda path, body: answer) as server:
        try:
            return asyncio.run(run(server.url + path)), ""
        except ChatError as error:
            return [], f"{error} {error.message} {error.url} {error.param}"


def test_keys_in_replies() -> None:
    [text, reply], _ = ask([response({"choices": [{"message": WHOLE, "finish_reason": "stop"}], "model": KEY})])
    assert isinstance(reply, ChatReply) and (text, reply.text) == (f"It is {HIDDEN}.", f"It is {HIDDEN}.")
    assert KEY not in f"{reply!r} {reply.message} {reply.model} {reply.calls} {reply.thoughts}"
    pieces, _ = ask([SPLIT])
    assert "".join(part for part in pieces if isinstance(part, str)) == f"It is {HIDDEN}."
    assert isinstance(pieces[-1], ChatReply) and pieces[-1].text == f"It is {HIDDEN}."


@pytest.mark.parametrize(
    "answer",
    [
        response({"error": {"message": f"Incorrect API key provided: {KEY}", "param": KEY}}, "401 Unauthorized"),
        response({"error": {"message": f"bad header Authorization: Bearer {KEY}"}}, "400 Bad Request"),
        response({"error": {"message": "x" * 290 + KEY}}, "400 Bad Request"),  # cut in the middle of the key
        response({"detail": KEY}, "500 Internal Server Error"),
        response({"choices": KEY}),
        f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/?key={KEY}\r\nContent-Length: 0\r\n\r\n".encode(),
        f"HTTP/1.1 200 OK\r\nContent-Encoding: {KEY}\r\nContent-Length: 1\r\n\r\nx".encode(),
        events(piece("Par"), {"error": {"message": KEY}}),
        events(piece("Par"), f"{{broken {KEY}"),
        f"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n<title>{KEY}</title>".ljust(105).encode(),
    ],
)
def test_keys_in_errors_headers_and_redirects(answer: bytes) -> None:
    _, told = ask([answer])
    assert told and KEY not in told and KEY[:12] not in told


def test_keys_in_addresses_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        _, told = ask([response({"error": KEY}, "400 Bad Request")], f"/v1?api_key={KEY}&api-version=2024-10-21")
    assert "2024-10-21" in told and KEY not in told + caplog.text.replace("base_url", "")


def test_what_is_a_key() -> None:
    keep_secret("EMPTY", url="http://somebody:pass%2Fword123@host/v1?sig=abcdefgh1&q=not-secret-at-all")
    assert hidden({"a": ["EMPTY somebody pass/word123 pass%2Fword123 abcdefgh1 not-secret-at-all", 5]}) == {
        "a": [f"EMPTY somebody {HIDDEN} {HIDDEN} {HIDDEN} not-secret-at-all", 5]
    }
    stream = HiddenStream()
    assert [stream.feed("x abcd"), stream.feed("efg"), stream.close("h1 y")] == ["x ", "", f"{HIDDEN} y"]
