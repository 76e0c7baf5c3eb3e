"""The chat client and its generator, against a real HTTP server on loopback that fails in several ways."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.messages import image_part
from chat_models.replies import ChatReply
from generators.chat import ChatGenerator
from retriever.types import Evidence, Generation, GenerationRequest
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.local_chat_servers import CannedReply, LocalChatServer, as_events, ollama_chunk, ollama_completion


@pytest.fixture
def server() -> Iterator[FakeChatServer]:
    with FakeChatServer() as running:
        yield running


def ask(server: FakeChatServer, model: str, text: str = "hello", **settings: Any) -> str:
    async def run() -> str:
        async with ChatClient(server.url, model, backoff=0.02, **settings) as client:
            return (await client.converse([{"role": "user", "content": text}], 16)).text

    return asyncio.run(run())


def pieces(server: FakeChatServer, model: str) -> list[str]:
    async def run() -> list[str]:
        async with ChatClient(server.url, model, backoff=0.02) as client:
            client._begins_thoughts = False  # as an earlier reply shows
            stream = client.stream([{"role": "user", "content": "hello"}], 16)
            *streamed, reply = [piece async for piece in stream]
            assert isinstance(reply, ChatReply) and reply.text == "".join(map(str, streamed))
            return list(map(str, streamed))

    return asyncio.run(run())


def test_complete(server: FakeChatServer) -> None:
    assert ask(server, "good", api_key="secret") == "heard: hello"
    assert server.bodies == [
        {"model": "good", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 16, "temperature": 0.0,
         "stream": True, "stream_options": {"include_usage": True}}
    ]  # fmt: skip
    assert server.headers[0]["authorization"] == "Bearer secret"


def test_a_base_url_may_end_in_v1(server: FakeChatServer) -> None:
    assert (
        ChatClient(server.url + "/v1/", "m").url
        == ChatClient(server.url, "m").url
        == server.url + "/v1/chat/completions"
    )


@pytest.mark.parametrize("model", ["flaky", "torn"])
def test_a_failure_or_an_answer_that_breaks_off_is_asked_for_again(server: FakeChatServer, model: str) -> None:
    assert ask(server, model) == "heard: hello"
    assert len(server.bodies) == 2


def test_waits_as_long_as_retry_after_says(server: FakeChatServer) -> None:
    assert ask(server, "busy") == "heard: hello"
    assert server.times[1] - server.times[0] >= 0.3


def test_gives_up_after_the_last_try(server: FakeChatServer) -> None:
    with pytest.raises(ChatError, match=r"/v1/chat/completions: status 503: out of memory \(attempts: 3\)") as caught:
        ask(server, "down", retries=2)
    assert caught.value.status == 503 and caught.value.url.startswith(server.url)
    assert len(server.bodies) == 3


def test_a_refusal_is_not_tried_again(server: FakeChatServer) -> None:
    with pytest.raises(ChatError, match="no such model") as caught:
        ask(server, "strict")
    assert caught.value.status == 404 and len(server.bodies) == 1


def test_a_slow_server_times_out(server: FakeChatServer) -> None:
    with pytest.raises(ChatError, match=r"no reply within 0.2 s; if the model is only slow, raise timeout") as caught:
        ask(server, "slow", timeout=0.2, retries=0)
    assert caught.value.status is None


def test_nobody_listens(server: FakeChatServer) -> None:
    server.url = "http://127.0.0.1:9"
    with pytest.raises(ChatError, match="ConnectError"):
        ask(server, "good", retries=1)


@pytest.mark.parametrize("model", ["broken", "empty"])
def test_not_a_completion(server: FakeChatServer, model: str) -> None:
    with pytest.raises(ChatError, match="not a chat completion"):
        ask(server, model)


def test_stream(server: FakeChatServer) -> None:
    assert pieces(server, "good") == ["heard:", " hello"]
    assert server.bodies[0]["stream"] is True
    assert pieces(server, "separated") == ["V\u2028ll\x85"]  # line separators in text but not in a stream


@pytest.mark.parametrize(
    ("model", "message"), [("garbled", "not a piece"), ("troubled", "out of memory"), ("unfinished", "ended before")]
)
def test_a_stream_that_goes_wrong(server: FakeChatServer, model: str, message: str) -> None:
    with pytest.raises(ChatError, match=message):
        pieces(server, model)


def test_a_stream_may_end_without_done(server: FakeChatServer) -> None:
    assert pieces(server, "terse") == ["heard:", " hello"]


def counted(server: FakeChatServer, model: str) -> list[tuple[int | None, int | None]]:
    """Counts the tokens of an answer and of two streams of one client."""

    async def run() -> list[tuple[int | None, int | None]]:
        messages = [{"role": "user", "content": "hello"}]
        async with ChatClient(server.url, model, retries=0) as client:
            replies = [await client.converse(messages, 16)]
            for _ in range(2):
                *streamed, reply = [piece async for piece in client.stream(messages, 16)]
                assert "".join(map(str, streamed)) == "heard: hello" and isinstance(reply, ChatReply)
                replies.append(reply)
        return [(reply.prompt_tokens, reply.completion_tokens) for reply in replies]

    return asyncio.run(run())


def test_tokens_are_counted(server: FakeChatServer) -> None:
    assert counted(server, "counting") == [(120, 7)] * 3
    assert [body.get("stream_options") for body in server.bodies] == [{"include_usage": True}] * 3


def test_a_server_that_does_not_count(server: FakeChatServer) -> None:
    assert counted(server, "good") == [(None, None)] * 3


def test_a_server_that_refuses_to_count_is_asked_once(server: FakeChatServer) -> None:
    assert counted(server, "old") == [(None, None)] * 3
    assert ["stream_options" in body for body in server.bodies] == [True, False, False, False]


def check(url: str, model: str) -> str:
    async def run() -> str:
        async with ChatClient(url, model) as client:
            return await client.check()

    return asyncio.run(run())


def test_check(server: FakeChatServer) -> None:
    assert check(server.url, "good") == f"{server.url}/v1/models offers good"
    with pytest.raises(ChatError, match="offers good, busy, not 'better'"):
        check(server.url, "better")
    with pytest.raises(ChatError, match="status 404"):
        check(f"{server.url}/elsewhere", "good")
    with pytest.raises(ChatError, match="ConnectError"):
        check("http://127.0.0.1:9", "good")


def test_without_a_system_role(server: FakeChatServer) -> None:
    async def run(content: Any) -> None:
        async with ChatClient(server.url, "good", system_role=False) as client:
            await client.converse([{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}], 1)
            await client.converse([{"role": "user", "content": "Who?"}], 1)

    asyncio.run(run("Who?"))
    asyncio.run(run([image_part(Image.new("RGB", (4, 4))), {"type": "text", "text": "Who?"}]))
    first, plain, second, _ = (body["messages"] for body in server.bodies)
    assert first == [{"role": "user", "content": "Be brief.\n\nWho?"}]
    assert plain == [{"role": "user", "content": "Who?"}]
    assert [message["role"] for message in second] == ["user"]
    said, image, asked = second[0]["content"]
    assert (said["text"], image["type"], asked["text"]) == ("Be brief.", "image_url", "Who?")


def test_concurrency_is_limited(server: FakeChatServer) -> None:
    async def run() -> list[ChatReply]:
        async with ChatClient(server.url, "counted", concurrency=3) as client:
            return await asyncio.gather(*(client.converse([{"role": "user", "content": str(i)}], 1) for i in range(9)))

    assert [reply.text for reply in asyncio.run(run())] == [f"heard: {i}" for i in range(9)]
    assert server.most_active == 3


def test_image_part() -> None:
    part = image_part(Image.new("RGBA", (2000, 500), (200, 30, 30, 255)))
    header, data = part["image_url"]["url"].split(",")
    sent = Image.open(io.BytesIO(base64.b64decode(data)))
    assert header == "data:image/jpeg;base64" and sent.size == (1024, 256)
    assert np.abs(np.asarray(sent)[128, 512].astype(int) - (200, 30, 30)).max() < 8


@pytest.mark.parametrize(
    "settings", [{"base_url": "localhost:1"}, {"retries": -1}, {"concurrency": 0}, {"timeout": 0}, {"backoff": -1}]
)
def test_settings_out_of_range(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        ChatClient(**{"base_url": "http://localhost", "model": "m", **settings})


EVIDENCE = Evidence("e", "Velland", "Geography", "The highest point is Mount Vell.")


async def test_generator(server: FakeChatServer) -> None:
    async with ChatClient(server.url, "good") as client:
        generator = ChatGenerator(client, max_context_tokens=5)
        first, second = await generator.generate(
            [
                GenerationRequest("How high is it?", None, EVIDENCE),
                GenerationRequest("Who?", Image.new("RGB", (4, 4)), None),
            ]
        )
        assert first.answer is not None and first.answer == (
            "heard: - Context: # Wiki Article: Velland\n## Section Title: Geography\nThe highest point is\n"
            "- Question: How high is it?\nThe answer is:"
        )
        assert first.truncated and not second.truncated
        assert second.answer == "heard: - Question: Who?\nThe answer is:"
        assert generator.name == "good"
        stream = [piece async for piece in generator.stream(GenerationRequest("Who?", None, EVIDENCE))]
        text = first.answer.replace("How high is it?", "Who?")
        assert stream[-1] == Generation(text, truncated=True) and "".join(map(str, stream[:-1])) == text


@pytest.mark.parametrize(
    ("asked", "stop", "sent", "whole", "pieces"),
    [
        (1, (), 1, Generation("heard:", ending="cut"), ["heard:", Generation("heard:", ending="cut")]),
        (
            None,
            (),
            3,
            Generation("heard: - Question:", ending="cut"),
            ["heard:", " -", " Question:", Generation("heard: - Question:", ending="cut")],
        ),
        (
            9,
            (),
            3,
            Generation("heard: - Question:", ending="cut"),
            ["heard:", " -", " Question:", Generation("heard: - Question:", ending="cut")],
        ),
        (2, (":", "nt"), 2, Generation("heard"), ["heard:", " -", Generation("heard")]),
    ],
)
def test_the_lower_limit_counts(
    server: FakeChatServer,
    asked: int | None,
    stop: tuple[str, ...],
    sent: int,
    whole: Generation,
    pieces: list[str | Generation],
) -> None:
    """An answer that a stop string ends is not cut at the limit, which the server may reach after it."""
    request = GenerationRequest("Who?", None, None, stop=stop, max_tokens=asked)
    assert generated(server.url, "limited", request) == (whole, pieces)
    assert [body["max_tokens"] for body in server.bodies] == [sent, sent]


def generated(url: str, model: str, request: GenerationRequest) -> tuple[Generation, list[str | Generation]]:
    """Returns the answer of a generator limited to three tokens, and its later stream."""

    async def run() -> tuple[Generation, list[str | Generation]]:
        async with ChatClient(url, model, retries=0) as client:
            client._begins_thoughts = False  # as an earlier reply shows
            generator = ChatGenerator(client, max_tokens=3)
            [whole] = await generator.generate([request])
            return whole, [piece async for piece in generator.stream(request)]

    return asyncio.run(run())


def test_nothing_but_reasoning_within_the_limit() -> None:
    """A request's own limit leaves an empty answer; the generator's limit is the reason for none."""
    thought = ollama_chunk(reasoning="The image")
    usage = {"choices": [], "usage": {"prompt_tokens": 21, "completion_tokens": 3}}
    whole, streamed = ollama_completion("", "length", "The image"), as_events([thought, ollama_chunk("length"), usage])
    empty = Generation("", prompt_tokens=21, completion_tokens=3, ending="cut", thoughts="The image")
    with LocalChatServer({"/v1/chat/completions": [whole, streamed, whole, streamed]}) as server:
        asked = GenerationRequest("Who?", None, None, max_tokens=2)
        assert generated(server.url, "m", asked) == (empty, [empty])
        one, [same] = generated(server.url, "m", replace(asked, max_tokens=None))
        assert one == same and one.abstained and one.ending == "cut" and one.thoughts == "The image"
        assert one.reason is not None and "all of its 3 tokens on reasoning" in one.reason


def completion(content: object, finish: str = "stop", **message: object) -> CannedReply:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return CannedReply(json.dumps({"choices": [choice]}))


NONE = Generation(None)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (completion("<think>\nA disc.\n</think>\n\nTokyo"), Generation("Tokyo", thoughts="A disc.")),
        (completion("A disc.\n</think>\n\nTokyo"), Generation("Tokyo", thoughts="A disc.")),
        (completion("<think>A disc, so", "length"), replace(NONE, ending="cut", thoughts="A disc, so")),
        (completion("<think>A disc, so"), replace(NONE, thoughts="A disc, so")),
        (completion("<think>I</think><answer>Tokyo</answer>"), Generation("Tokyo", thoughts="I")),
        (completion("Tokyo", reasoning_content="A disc."), Generation("Tokyo", thoughts="A disc.")),
        (completion("Tokyo", reasoning="A disc."), Generation("Tokyo", thoughts="A disc.")),
        (completion(None, "length", reasoning="A disc"), replace(NONE, ending="cut", thoughts="A disc")),
        (completion("", "length", reasoning_content="A disc"), replace(NONE, ending="cut", thoughts="A disc")),
        (completion(None, "length", thinking="A disc"), replace(NONE, ending="cut", thoughts="A disc")),
        (
            completion(
                [{"type": "thinking", "thinking": [{"type": "text", "text": "A"}]}, {"type": "text", "text": "B"}]
            ),
            Generation("B", thoughts="A"),
        ),
        (completion("Tokyo is", "length"), Generation("Tokyo is", ending="cut")),
        (
            completion(None, refusal="I cannot help."),
            replace(NONE, ending="refused", limitation="m refused: I cannot help."),
        ),
        (completion("I must", "refusal"), replace(NONE, ending="refused", limitation="m refused: I must")),
        (
            completion("", "content_filter"),
            replace(NONE, ending="filtered", limitation="the server's content filter withheld it"),
        ),
        (
            completion("Tok", "content_filter"),
            replace(NONE, ending="filtered", limitation="the server's content filter withheld it"),
        ),
        (completion(None), NONE),
        (completion(" "), NONE),
        (
            completion(None, "tool_calls", tool_calls=[{"id": "1", "function": {"name": "search", "arguments": "{}"}}]),
            replace(NONE, limitation="m called the tool 'search' instead of answering"),
        ),
    ],
)
def test_how_a_reply_ends(reply: CannedReply, expected: Generation) -> None:
    async def run(url: str) -> Generation:
        async with ChatClient(url, "m", retries=0) as client:
            return (await ChatGenerator(client).generate([GenerationRequest("Who?", None, None)]))[0]

    with LocalChatServer({"/v1/chat/completions": reply}) as server:
        found = asyncio.run(run(server.url))
    if expected.ending == "cut" and expected.answer is None:
        assert found.limitation is not None and "all of its 128 tokens on reasoning" in found.limitation
        found = replace(found, limitation=None)
    assert found == expected


def streamed(replies: list[CannedReply], n: int) -> list[list[str | Generation]]:
    """Sends `n` requests, one after the other; returns the pieces that a generator streams for each."""

    async def run(url: str) -> list[list[str | Generation]]:
        async with ChatClient(url, "m", retries=0) as client:
            generator = ChatGenerator(client)
            asked = GenerationRequest("Who?", None, None)
            return [[piece async for piece in generator.stream(asked)] for _ in range(n)]

    with LocalChatServer({"/v1/chat/completions": replies}) as server:
        return asyncio.run(run(server.url))


def test_thoughts_are_not_streamed() -> None:
    stop = ollama_chunk("stop")
    said = [as_events([*(ollama_chunk(content=one) for one in text), stop]) for text in (
        ["Tok", "yo"], ["Tok", "yo"], ["<th", "ink>A <b", "> disc</thin", "k>\n", "Tok", "yo <", "3"],
        ["A disc", ".</think>", "Tok", "yo"], ["A disc", ".</think>", "Tok", "yo"],
    )]  # fmt: skip
    first, plain, tagged, late, opened = streamed(said, 5)
    assert first == ["Tokyo", Generation("Tokyo")]  # held back: its prompt might have begun a thought
    assert plain == ["Tok", "yo", Generation("Tokyo")]
    assert tagged == ["Tok", "yo", " <3", Generation("Tokyo <3", thoughts="A <b> disc")]
    assert late[-1] == Generation("Tokyo", thoughts="A disc.")
    assert opened == ["Tok", "yo", Generation("Tokyo", thoughts="A disc.")]


def test_text_cut_before_the_end_of_a_thought_that_the_prompt_began_is_no_answer() -> None:
    done = as_events([ollama_chunk(content="A.</think>Tokyo"), ollama_chunk("stop")])
    cut = as_events([ollama_chunk(content="A red disc, so"), ollama_chunk("length")])
    first, [second] = streamed([done, cut], 2)
    assert first == ["Tokyo", Generation("Tokyo", thoughts="A.")]
    assert isinstance(second, Generation) and second.answer is None and second.thoughts == "A red disc, so"


def test_an_empty_answer_is_an_abstention_unless_the_request_limits_it() -> None:
    cut, done = ollama_completion(" ", "length"), ollama_completion(" ")
    chunks = [as_events([ollama_chunk(content=" "), ollama_chunk(reason)]) for reason in ("length", "stop")]
    replies = [cut, chunks[0], cut, chunks[0], done, chunks[1]]
    with LocalChatServer({"/v1/chat/completions": replies}) as server:
        answers = [
            generated(server.url, "m", GenerationRequest("Who?", None, None, max_tokens=limit))[0].answer
            for limit in (2, None, 2)
        ]
    assert answers == ["", None, None]


async def test_multimodal_generator_sends_the_image(server: FakeChatServer) -> None:
    async with ChatClient(server.url, "good") as client:
        generator = ChatGenerator(client, style="infoseek", multimodal=True)
        await generator.generate([GenerationRequest("Who?", Image.new("RGB", (4, 4)), EVIDENCE)])
    image, text = server.bodies[0]["messages"][1]["content"]
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert "Mount Vell" in text["text"]
