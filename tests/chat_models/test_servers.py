"""The chat client against servers that refuse parameters, redirect, are slow, or ask to wait."""

from __future__ import annotations

import asyncio
import gzip
import time
from typing import Any

import pytest

from chat_models.chat import ChatClient
from chat_models.deadlines import within
from chat_models.errors import ChatError, is_too_long
from chat_models.messages import Message
from chat_models.replies import ChatReply
from generators.chat import ChatGenerator
from retriever.types import Evidence, GenerationRequest
from tests.fakes.raw_server import Answer, RawServer, events, piece, response

QUESTION: list[Message] = [{"role": "user", "content": "Who?"}]
GOOD: Answer = [events(piece("Paris"), piece("", "stop"), "[DONE]")]


def refusal(message: str, status: str = "400 Bad Request", **error: Any) -> Answer:
    return [response({"error": {"message": message, **error}}, status)]


def ask(
    server: RawServer, times: int = 1, path: str = "/v1", seconds: float | None = None, **settings: Any
) -> list[str]:
    async def run() -> list[str]:
        async with ChatClient(f"{server.url}{path}", "m", **{"backoff": 0.01, **settings}) as client:
            if seconds is None:
                return [(await client.converse(QUESTION, 16)).text for _ in range(times)]
            async with within(seconds):
                return [(await client.converse(QUESTION, 16)).text for _ in range(times)]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1beta/openai", "/v1beta/openai/chat/completions"),
        ("/v1beta/openai/", "/v1beta/openai/chat/completions"),
        ("/api/paas/v4", "/api/paas/v4/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/openai?api-version=2024-10-21", "/openai/chat/completions?api-version=2024-10-21"),
    ],
)
def test_the_address_is_used_as_openai_s_clients_use_it(base: str, path: str) -> None:
    with RawServer(lambda *_: GOOD) as server:
        assert ask(server, path=base) == ["Paris"]
        assert [path for path, _ in server.requests] == [path]


@pytest.mark.parametrize("base_url", ["localhost:1", "ftp://a/v1", "http://", "http://a:b/v1"])
def test_not_an_address(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        ChatClient(base_url, "m")


def test_redirects_and_pages_are_named_with_their_address() -> None:
    page = b"<html><head><title>Sign in</title></head><body>Please sign in</body></html>"

    def answer(path: str, _: Any) -> Answer:
        if path.startswith("/moved"):
            return [response(b"", "301 Moved Permanently", Location="https://api.example/v1/chat/completions")]
        if path.startswith("/gateway"):
            return [response(page.replace(b"Sign in", b"502 Bad Gateway"), "502 Bad Gateway", "text/html")]
        if path.startswith("/unknown"):
            return [response(b"<html>404</html>", "404 Not Found", "text/html")]
        return [response(page, kind="text/html")]

    with RawServer(answer) as server:
        for path, expected in (
            ("/moved", "/moved/chat/completions: status 301: redirects to https://api.example/v1/chat/completions"),
            ("/gateway", '/gateway/chat/completions: status 502: "502 Bad Gateway" (HTML)'),
            ("/page", '/page/chat/completions: not a chat completion but a page, "Sign in" (HTML); check base_url'),
            ("/unknown", "does it lack /v1?"),
        ):
            with pytest.raises(ChatError) as caught:
                ask(server, path=path, retries=0)
            assert expected in str(caught.value)
    with RawServer(answer) as server, pytest.raises(ChatError, match="redirects to https://api"):
        asyncio.run(ChatClient(f"{server.url}/moved", "m").check())


def strict(*refused: str, say: str = "Unsupported parameter: '{}' is not supported with this model.") -> Any:
    def answer(_: str, body: Any) -> Answer:
        return next((refusal(say.format(name), param=name) for name in refused if name in body), GOOD)

    return answer


@pytest.mark.parametrize(
    ("refused", "kept"),
    [
        (["max_tokens"], ["max_completion_tokens", "temperature", "stream_options"]),
        (["temperature"], ["max_tokens", "stream_options"]),
        (["max_tokens", "temperature"], ["max_completion_tokens", "stream_options"]),
        (["stream_options"], ["max_tokens", "temperature"]),
    ],
)
def test_what_a_model_refuses_is_learned_once(refused: list[str], kept: list[str]) -> None:
    with RawServer(strict(*refused)) as server:
        assert ask(server, times=3) == ["Paris"] * 3
    assert len(server.requests) == 3 + len(refused)
    assert {*server.requests[-1][1]} == {"model", "messages", "stream", *kept}
    assert server.requests[-1][1].get("max_completion_tokens", 16) == 16


@pytest.mark.parametrize(
    "say", ["{}: Extra inputs are not permitted", "invalid {}: only 1 is allowed", "Unknown field: {}"]
)
def test_a_refused_parameter_in_other_words(say: str) -> None:
    def answer(path: str, body: Any) -> Answer:
        return refusal(say.format("temperature"), "422 Unprocessable Entity") if "temperature" in body else GOOD

    with RawServer(answer) as server:
        assert ask(server, times=2) == ["Paris"] * 2
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("say", "name"),
    [
        ("Temperature must be 1 for this model", "temperature"),
        ("Max tokens are not supported; use max completion tokens", "max_tokens"),
        ('"m" does not support thinking', "reasoning_effort"),
        ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
        ("property 'stream_options.include_usage' is unsupported", "stream_options"),
        ([{"loc": ["body", "temperature"], "msg": "Extra inputs are not permitted"}], "temperature"),
    ],
)  # fmt: skip
def test_a_parameter_as_servers_name_it(say: Any, name: str) -> None:
    def answer(_: str, body: Any) -> Answer:
        body_ = {"error": {"message": say}} if isinstance(say, str) else {"detail": say}
        return [response(body_, "400 Bad Request")] if name in body else GOOD

    with RawServer(answer) as server:
        assert ask(server, times=2, reasoning_effort="low") == ["Paris"] * 2
    assert len(server.requests) == 3


def test_a_model_that_takes_no_limit_at_all() -> None:
    with RawServer(strict("max_tokens", "max_completion_tokens")) as server:
        assert ask(server, times=2) == ["Paris"] * 2
    assert {*server.requests[-1][1]} == {"model", "messages", "stream", "stream_options", "temperature"}


@pytest.mark.parametrize(
    ("omit", "sent"),
    [
        (["max_tokens"], {"max_completion_tokens": 16, "temperature": 0.0}),
        (["max_tokens", "max_completion_tokens", "temperature"], {}),
        (["temperature", "reasoning_effort"], {"max_tokens": 16}),
    ],
)
def test_what_a_model_refuses_may_be_set(omit: list[str], sent: dict[str, Any]) -> None:
    with RawServer(lambda *_: GOOD) as server:
        assert ask(server, omit=omit, reasoning_effort="low" if "reasoning_effort" in omit else "") == ["Paris"]
        whole = response({"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}]})
    body = server.requests[0][1]
    assert {name: body[name] for name in body if name not in ("model", "messages", "stream", "stream_options")} == sent
    with RawServer(lambda *_: [whole]) as server:
        assert ask(server, omit=["stream", "stop"]) == ["Paris"]
    assert server.requests[0][1]["stream"] is False and "stream_options" not in server.requests[0][1]
    with pytest.raises(ValueError, match=r"omit must name fields among max_tokens, .*; got 'top_p'"):
        ChatClient("http://127.0.0.1:1", "m", omit=["top_p"])


def test_a_server_without_streams_of_tool_calls() -> None:
    whole = response({"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}]})

    def answer(_: str, body: Any) -> Answer:
        return refusal("Cannot use tools with stream", "500 Internal Server Error") if body["stream"] else [whole]

    with RawServer(answer) as server:
        assert ask(server, times=2) == ["Paris"] * 2
    assert [body["stream"] for _, body in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("System role not supported", "400 Bad Request"),
        ("Only user and assistant roles are supported!", "500 Internal Server Error"),
        ("Conversation roles must alternate user/assistant/user/assistant/...", "500 Internal Server Error"),
        ("After the optional system message, conversation roles must alternate user/assistant", "400 Bad Request"),
        ("Developer instruction is not enabled for models/gemma-3-27b-it", "400 Bad Request"),
        ("deepseek-reasoner does not support successive user or assistant messages", "400 Bad Request"),
        ("Unexpected role 'user' after role 'tool'", "422 Unprocessable Entity"),
    ],
)
def test_a_template_with_fewer_roles_gets_turns(message: str, status: str) -> None:
    def answer(_: str, body: Any) -> Answer:
        return GOOD if body["messages"] == turns else refusal(message, status)

    called = {"id": "1", "type": "function", "function": {"name": "ocr", "arguments": "{}"}}
    asked: list[Message] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Read it."}]},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": "EXIT"},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    turns = [
        {"role": "user", "content": [{"type": "text", "text": text} for text in ("Be brief.", "Read it.")]},
        {"role": "assistant", "content": '<tool_call>{"name": "ocr", "arguments": {}}</tool_call>'},
        {"role": "user", "content": [{"type": "text", "text": text} for text in ("EXIT", "Go on.")]},
    ]

    async def run(url: str) -> list[str]:
        async with ChatClient(f"{url}/v1", "m", backoff=0.01) as client:
            return [(await client.converse(asked, 16)).text for _ in range(2)]

    with RawServer(answer) as server:
        assert asyncio.run(run(server.url)) == ["Paris"] * 2
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "message",
    [
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",  # llama.cpp
        "Failed to create new sequence: this model is missing data required for image input",  # Ollama
        "tools param requires --jinja flag",
        "litellm.BadRequestError: OpenAIException - 'tools' is not a permitted field",
    ],
)
def test_a_refusal_with_the_status_of_a_failure_is_not_tried_again(message: str) -> None:
    failing = RawServer(lambda *_: refusal(message, "500 Internal Server Error"))
    with failing as server, pytest.raises(ChatError, match="status 500") as caught:
        ask(server)
    assert caught.value.unsupported and len(server.requests) == 1


def test_a_refusal_that_nothing_helps_against_is_reported() -> None:
    with RawServer(lambda *_: refusal("max_tokens must be at most 8", param="max_tokens")) as server:
        for _ in range(2):
            with pytest.raises(ChatError, match="status 400: max_tokens must be at most 8"):
                ask(server)
    assert len(server.requests) <= 6


def test_a_wait_beyond_the_deadline_is_reported_at_once() -> None:
    busy = response({"error": {"message": "Rate limit reached"}}, "429 Too Many Requests", Retry_After="60")
    with RawServer(lambda *_: [busy]) as server:
        begun = time.monotonic()
        with pytest.raises(ChatError, match="status 429: Rate limit reached; the server asks to wait 60 s") as caught:
            ask(server, seconds=20)
        assert (caught.value.status, caught.value.wait, len(server.requests)) == (429, 60, 1)
        assert time.monotonic() - begun < 15  # it would be 60


def test_a_waiting_request_holds_no_slot() -> None:
    def answer(_: str, body: Any) -> Answer:
        busy = response({"error": {"message": "busy"}}, "503 Service Unavailable", Retry_After="30")
        return [busy] if body["messages"][0]["content"] == "busy" else GOOD

    async def run(url: str) -> str:
        async with ChatClient(url, "m", concurrency=1) as client:
            waiting = asyncio.ensure_future(client.converse([{"role": "user", "content": "busy"}], 1))
            while not server.requests:
                await asyncio.sleep(0.01)
            text = (await asyncio.wait_for(client.converse(QUESTION, 1), 10)).text
            waiting.cancel()
            return text

    with RawServer(answer) as server:
        assert asyncio.run(run(server.url)) == "Paris"


def test_a_slow_model_is_waited_for_within_the_run_s_time() -> None:
    with RawServer(lambda *_: [0.6, *GOOD]) as server:
        assert ask(server, timeout=0.2, seconds=30) == ["Paris"]
        with pytest.raises(
            ChatError, match=r"no reply within 0.2 s; if the model is only slow, raise generator.timeout_s"
        ):
            ask(server, timeout=0.2, setting="generator.timeout_s")
    assert len(server.requests) == 2  # what timed out was not sent again


def test_work_is_not_silence() -> None:
    slow = [part for word in ("Pa", "r", "i", "s") for part in (events(piece(word)).partition(b"\r\n\r\n")[2], 0.1)]
    head = events()
    with RawServer(lambda *_: [head, *slow, events(piece("", "stop")).partition(b"\r\n\r\n")[2]]) as server:
        assert ask(server, timeout=0.3) == ["Paris"]


def test_a_broken_connection_is_tried_again_and_a_cut_stream_is_not() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\ndata: {"
    with RawServer(lambda *_: [broken] if len(server.requests) == 1 else GOOD) as server:
        assert ask(server) == ["Paris"] and len(server.requests) == 2
    with RawServer(lambda *_: [events(piece("Par"))]) as server:
        with pytest.raises(ChatError, match="the stream ended before the answer was complete") as caught:
            ask(server)
        assert caught.value.incomplete and len(server.requests) == 1


def test_text_after_the_end_of_a_stream() -> None:
    body = events(piece("Par"), piece("", "stop"), "[DONE]")
    late = b'data: {"choices": [{"delta": {"content": "is"}}]}\n\n'
    with RawServer(lambda *_: [body, 0.05, late]) as server, pytest.raises(ChatError, match="text follows"):
        ask(server)
    with RawServer(lambda *_: [body, 5.0]) as server:  # a proxy that leaves the connection open
        assert ask(server) == ["Par"]


def _head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Connection: close", *headers, "", ""]).encode()


BODY = b"".join(part for part in GOOD if isinstance(part, bytes)).partition(b"\r\n\r\n")[2]
CHUNKED = b"".join(b"%x\r\n%s\r\n" % (len(BODY[at : at + 9]), BODY[at : at + 9]) for at in range(0, len(BODY), 9))
TRANSPORTS: dict[str, Answer] = {
    "gzip": [_head("Content-Encoding: gzip"), gzip.compress(BODY)],
    "HTTP/1.0 without a length": [b"HTTP/1.0 200 OK\r\n\r\n", BODY],
    "chunks with a trailer": [_head("Transfer-Encoding: chunked"), CHUNKED, b"0\r\nX-Cost: 1\r\n\r\n"],
    "chunks without an end": [_head("Transfer-Encoding: chunked"), CHUNKED],
    "shorter than said": [_head(f"Content-Length: {len(BODY) + 9}"), BODY],
    "early hints": [b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", *GOOD],
    "no kind of content": [_head(), BODY],
    "one byte at a time": [_head(), *(bytes([byte]) for byte in BODY)],
}


@pytest.mark.parametrize("name", TRANSPORTS)
def test_ways_of_sending_a_reply(name: str) -> None:
    with RawServer(lambda *_: TRANSPORTS[name]) as server:
        assert ask(server) == ["Paris"] and len(server.requests) == 1


REFUSALS: list[tuple[bytes, str]] = [
    (response(gzip.compress(b'{"error": {"message": "bad image"}}'), "400 No", Content_Encoding="gzip"), "400: bad im"),
    (response(b'{"error": "bad"}', "400 No", Content_Encoding="gzip"), "400: No (its text cannot be read"),
    (response(b"(\xb5/\xfd", "400 No", Content_Encoding="zstd"), "400: No (its text is in the encoding zstd)"),
    (response(b"(\xb5/\xfd", Content_Encoding="zstd"), "the reply is in the encoding zstd, which was not asked for"),
    (response(b"", "302 Found", Location="/login"), "/login; set base_url accordingly"),
    (response(b"", "308 Permanent Redirect"), "redirects to no address"),
    (response({"detail": "Not Found"}, "404 Not Found"), "404: Not Found"),
    (response("zu viel los: später".encode("latin-1"), "500 X", "text/plain; charset=latin1"), "los: später"),
    (response(b"<title>Overloaded</title>", "529 X", "text/html"), 'status 529: "Overloaded" (HTML)'),
    (response({"error": {"message": "wrong key"}}, "401 Unauthorized"), "OPENAI_API_KEY, which is not set"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "message"), REFUSALS)
def test_a_refusal_is_read_or_named(answer: bytes, message: str) -> None:
    with RawServer(lambda *_: [answer]) as server, pytest.raises(ChatError) as caught:
        ask(server, retries=0)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "60"}, 60),
        ({"Retry_After": "Wed, 21 Oct 2065 07:28:00 GMT"}, 1e9),
        ({"retry_after_ms": "90000", "Retry_After": "1"}, 90),
    ],
)
@pytest.mark.parametrize("status", ["408 X", "409 X", "425 X", "429 X", "500 X", "503 X", "529 X"])
def test_how_servers_ask_to_wait(headers: dict[str, str], seconds: float, status: str) -> None:
    answer = response({"error": {"message": "busy"}}, status, **headers)
    with RawServer(lambda *_: [answer]) as server, pytest.raises(ChatError) as caught:
        ask(server, seconds=20)
    assert caught.value.wait is not None and caught.value.wait >= seconds and len(server.requests) == 1


TOO_LONG = {
    "OpenAI": "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens.",
    "OpenAI, newer": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "vLLM": "The decoder prompt (length 5120) is longer than the maximum model length of 4096.",
    "vLLM, newer": "You passed 5121 input tokens and requested 0. The model's context length is only 4096",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "TGI, inputs": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Anthropic": "prompt is too long: 200001 tokens > 199999 maximum",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "SGLang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "Mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Bedrock": "Input is too long for requested model.",
    "Cohere": "too many tokens: total number of tokens in this prompt cannot exceed 4081 tokens",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
}  # fmt: skip


def test_the_wordings_of_servers() -> None:
    assert [name for name, message in TOO_LONG.items() if not is_too_long(message, 400)] == []
    assert is_too_long("Request too large for model `llama-3` in organization", 413)  # Groq
    for message in ("At most 1 image(s) may be provided in one request.", "model does not support tools",
                    "Unsupported parameter: 'max_tokens' is not supported with this model.", "Bad Request",
                    "Invalid value for max_tokens", "The response was filtered"):  # fmt: skip
        assert not is_too_long(message, 400)
    assert not is_too_long("Limit 6000 tokens per minute, requested at most 8000 tokens", 429)


@pytest.mark.parametrize("message", [*TOO_LONG.values(), "输入过长", "Bad Request"])
def test_a_section_is_cut_to_the_size_that_fits(message: str) -> None:
    """The last two say nothing that is known: it is recognized because a shorter prompt is taken."""

    def answer(_: str, body: Any) -> Answer:
        return refusal(message) if len(str(body["messages"])) > 4_000 else GOOD

    async def run(url: str) -> list[bool]:
        async with ChatClient(url, "m") as client:
            generator = ChatGenerator(client)
            evidence = Evidence("e", "Velland", "Geography", "The highest point is Mount Vell. " * 600)
            request = GenerationRequest("How high is it?", None, evidence)
            [whole] = await generator.generate([request])
            *_, last = [piece async for piece in generator.stream(request)]
            assert not isinstance(last, str) and whole.answer == last.answer == "Paris"
            return [whole.truncated, last.truncated]

    with RawServer(answer) as server:
        assert asyncio.run(run(server.url)) == [True, True]
    sizes = [len(str(body["messages"])) for _, body in server.requests]
    first = sizes[: sizes.index(min(sizes)) + 1]
    assert first == sorted(first, reverse=True)  # a refusal never makes the prompt longer


def test_a_refusal_of_a_short_prompt_is_reported_as_it_is() -> None:
    with RawServer(lambda *_: refusal("Bad Request")) as server:

        async def run() -> None:
            async with ChatClient(server.url, "m") as client:
                await ChatGenerator(client).generate([GenerationRequest("Who?", None, Evidence("e", "A", "B", "c"))])

        with pytest.raises(ChatError, match="status 400: Bad Request"):
            asyncio.run(run())
    assert len(server.requests) == 2  # the second without the option that asks for token counts


def test_a_stream_that_fails_before_its_first_piece_is_tried_again() -> None:
    failed = events({"error": {"message": "no free slot", "code": 503}})

    async def run(url: str) -> list[str | ChatReply]:
        async with ChatClient(url, "m", backoff=0.01) as client:
            return [one async for one in client.stream(QUESTION, 16)]

    with RawServer(lambda *_: [failed] if len(server.requests) == 1 else GOOD) as server:
        assert asyncio.run(run(server.url)) == ["Paris", ChatReply("Paris")]


@pytest.mark.parametrize(
    "answer",
    [
        refusal("Loading model", "503 Service Unavailable"),
        [response({"detail": "busy"}, "503 Service Unavailable", retry_after="0")],
    ],
)
def test_a_server_that_loads_is_waited_for_within_the_time(answer: Answer) -> None:
    with RawServer(lambda path, body: answer if len(server.requests) < 9 else GOOD) as server:
        assert ask(server, seconds=20, retries=1) == ["Paris"] and len(server.requests) == 9
    with RawServer(lambda path, body: answer) as server, pytest.raises(ChatError):
        ask(server, timeout=0.2, retries=1)  # without a deadline, as long as it may be silent
    others = RawServer(lambda path, body: refusal("no upstream", "503 Service Unavailable"))
    with others as server, pytest.raises(ChatError, match="attempts: 2"):
        ask(server, seconds=20, retries=1)
