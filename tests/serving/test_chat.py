"""The OpenAI routes, called with OpenAI's own client."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.resources.chat.completions import Completions

from chat_models.chat import ChatClient
from generators.chat import ChatGenerator
from omgm.local_servers import local_server_findings
from serving.chat_schemas import IGNORED, NEUTRAL, ChatFields
from serving.settings import ServingSettings
from tests.fakes.asking import WHEN
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.service import World, served
from tests.fakes.web import serve_web
from tests.fakes.world import FakeQuoter

Messages = list[Any]
ALWAYS = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
"""Parameters of every method of OpenAI's client, which are not sent."""


@pytest.fixture
def client(world: World) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0, timeout=20) as client:
        yield client


def image_part(color: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_uri(image_bytes(color)), "detail": "low"}}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def ask(client: OpenAI, *messages: Any, **more: Any) -> Any:
    return client.chat.completions.create(model="omgm", messages=list(messages), **more)


def test_answer(client: OpenAI) -> None:
    found = ask(client, user(text_part(WHEN), image_part("red")))
    assert found.id.startswith("chatcmpl-") and found.object == "chat.completion" and found.model == "omgm"
    [choice] = found.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "1848", "stop")
    assert found.usage.total_tokens == 0  # smolagents reads it without asking whether it is there
    about = found.omgm
    assert (about["entity"]["title"], about["entity"]["url"]) == ("Redland", "https://kb.example/Redland")
    assert (about["evidence"][0]["section"], about["evidence"][0]["scores"]["score"]) == ("History", 0.75)
    assert (about["confidence"], about["abstained"]) == (0.75, False)
    assert found.id == f"chatcmpl-{about['request_id']}"


def test_stream(client: OpenAI) -> None:
    chunks = list(ask(client, user(text_part(WHEN), image_part("green")), stream=True))
    assert {(chunk.object, chunk.id) for chunk in chunks} == {("chat.completion.chunk", chunks[0].id)}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "1", "8", "4", "8", None]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 5 + ["stop"]
    last = chunks[-1].omgm
    assert (last["entity"]["title"], last["answer"], last["confidence"]) == ("Greenland", "1848", 0.75)


def test_async(world: World) -> None:
    async def both() -> tuple[str | None, str]:
        async with AsyncOpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client:
            messages: Messages = [user(text_part(WHEN), image_part("red"))]
            whole = await client.chat.completions.create(model="omgm", messages=messages)
            stream = await client.chat.completions.create(
                model="omgm", messages=messages, stream=True, stream_options={"include_usage": True}
            )
            pieces = [choice.delta.content or "" async for chunk in stream for choice in chunk.choices]
            return whole.choices[0].message.content, "".join(pieces)

    assert asyncio.run(both()) == ("1848", "1848")


def test_no_answer_is_a_sentence(client: OpenAI) -> None:
    message = user(text_part("What is the flag of one color?"), image_part("red"))
    found = ask(client, message)
    sentence = "No answer: the generator found none in the evidence."
    assert found.choices[0].message.content == sentence
    assert (found.omgm["abstained"], found.omgm["answer"]) == (True, None)
    chunks = list(ask(client, message, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == sentence
    assert chunks[-1].omgm["abstained"] is True


def test_which_question_and_which_image(world: World, client: OpenAI) -> None:
    """The last user message is the question; without its own image, it is about the most recent one."""
    earlier = [
        {"role": "system", "content": "You are a pirate."},
        user(image_part("red"), text_part("What is this?")),
        {"role": "assistant", "content": "A flag."},
        user(image_part("green"), text_part("And this?"), image_part("green")),
        {"role": "assistant", "content": "Another."},
    ]
    found = ask(client, *earlier, {"role": "user", "content": WHEN})
    assert found.omgm["entity"]["title"] == "Greenland" and world.retriever.batches[-1] == [WHEN]
    found = ask(client, *earlier, user(image_part("red"), text_part("When was"), text_part("the treaty?")))
    assert found.omgm["entity"]["title"] == "Redland" and world.retriever.batches[-1] == ["When was\nthe treaty?"]
    asked = user(image_part("green"), text_part(WHEN))
    found = ask(
        client, asked, {"role": "assistant", "content": "1953"}, user(image_part("red"), text_part("And this?"))
    )
    assert found.omgm["entity"]["title"] == "Redland" and world.retriever.batches[-1] == [WHEN]


def test_parameters(client: OpenAI) -> None:
    message = user(text_part(WHEN), image_part("red"))
    tuned = {"temperature": 0.2, "top_p": 0.9, "seed": 1, "user": "me", "n": 1}
    tuned |= {"prediction": {"type": "content", "content": "1849"}, "stream_options": None}
    for unset in (None, "", list[str]()):
        assert ask(client, message, **tuned, stop=unset).choices[0].message.content == "1848"
    assert len(ask(client, message, extra_body={"omgm": {"k": 2}}).omgm["candidates"]) == 2
    tools = [{"type": "function", "function": {"name": "f"}}]
    stops: list[Any] = [[""], ["a"] * 5, "a" * 257, [1], {}, 1]
    assert ask(client, message, tools=tools, tool_choice="none").choices[0].message.content == "1848"
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"tools": tools}, "unsupported_parameter", "tools"),
        ({"tools": tools, "tool_choice": "auto"}, "unsupported_parameter", "tools"),
        *(({"stop": stop}, "wrong_type", "stop") for stop in stops),
        ({"max_tokens": 0}, "out_of_range", "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": -1}, "out_of_range", "max_completion_tokens"),
        ({"extra_body": {"max_tokens": "5"}}, "wrong_type", "max_tokens"),
        ({"extra_body": {"max_tokens": True}}, "wrong_type", "max_tokens"),
        ({"response_format": {"type": "json_object"}}, "unsupported_parameter", "response_format"),
        ({"logprobs": True}, "unsupported_parameter", "logprobs"),
        ({"extra_body": {"top_k": 5}}, "unknown_option", "top_k"),
        ({"extra_body": {"image": "x"}}, "unknown_option", "image"),
        ({"extra_body": {"k": 5}}, "unknown_option", "k"),
        ({"extra_body": {"omgm": {"k": 101}}}, "out_of_range", "omgm"),
        ({"extra_body": {"omgm": {"depth": 3}}}, "unknown_option", "omgm"),
    ]
    for more, code, param in wrong:
        with pytest.raises(openai.BadRequestError) as raised:
            ask(client, message, **more)
        assert (raised.value.status_code, raised.value.code, raised.value.param) == (400, code, param)
        assert raised.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError, match="max_tokens must be at least 1, got 0"):
        ask(client, message, max_tokens=0)
    with pytest.raises(openai.BadRequestError, match=r'write k into omgm: "omgm": \{"k": …\}'):
        ask(client, message, extra_body={"k": 5})


def test_null_is_as_good_as_missing(client: OpenAI) -> None:
    message = user(text_part(WHEN), image_part("red"))
    names = set(inspect.signature(Completions.create).parameters) - ALWAYS - {"messages", "model"}
    for omgm in (None, {"k": None, "on_generator_error": None}):
        nulls = {**dict.fromkeys(names), "omgm": omgm}
        assert ask(client, message, extra_body=nulls).choices[0].message.content == "1848"


@pytest.mark.parametrize(
    ("stop", "text", "span"),
    [("4", "18", (63, 65)), (["x", "84"], "1", (63, 64)), ("18", "", None), ("1849", "1848", (63, 67))],
)
def test_stop(client: OpenAI, stop: str | list[str], text: str, span: tuple[int, int] | None) -> None:
    """The generator of these tests knows nothing of `stop` and streams its answer by the character."""
    message = user(text_part(WHEN), image_part("red"))
    found = ask(client, message, stop=stop)
    chunks = list(ask(client, message, stop=stop, stream=True))
    assert found.choices[0].message.content == text
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    for about in (found.omgm, chunks[-1].omgm):
        assert (about["answer"], about["abstained"], about["grounded"]) == (text, False, True if text else None)
        assert about["evidence"][0]["span"] == (list(span) if span else None)


def test_what_is_read_on_an_image_is_told_from_what_an_article_says(tmp_path: Path) -> None:
    message = user(text_part("What does it say?"), image_part("red"))
    with (
        served(tmp_path, generator=FakeQuoter()) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none") as client,
    ):
        found, stopped = ask(client, message), ask(client, message, stop="today")
        chunks = list(ask(client, message, stream=True))
    assert found.choices[0].message.content == "SALE\ntoday\n(read on the image)"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "SALE\ntoday\n(read on the image)"
    assert stopped.choices[0].message.content == "SALE"
    for about in (found.omgm, chunks[-1].omgm):
        assert (about["answer"], about["declined"], about["abstained"]) == ("SALE\ntoday", True, False)
        assert (about["reason"], about["entity"], about["evidence"], about["grounded"]) == (None, None, [], None)
        assert [(line["text"], line["box"]) for line in about["quote"]] == [
            ("SALE", [0.25, 0.25, 0.75, 0.5]),
            ("today", [0.25, 0.5, 0.5, 0.75]),
        ]


def test_stop_in_a_sentence_of_the_service(client: OpenAI) -> None:
    message = user(text_part("What is the flag of one color?"), image_part("red"))
    assert ask(client, message, stop=" in").choices[0].message.content == "No answer: the generator found none"


def test_stop_reaches_a_chat_model(tmp_path: Path) -> None:
    message = user(text_part(WHEN), image_part("red"))
    with (
        FakeChatServer() as server,
        served(tmp_path, generator=ChatGenerator(ChatClient(server.url, "good"))) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client,
    ):
        found = ask(client, message, stop=[" Context", "Wiki"])
        assert found.choices[0].message.content == found.omgm["answer"] == "heard: -"  # the server ignores it
        chunks = list(ask(client, message, stop="ext: #", stream=True))
        assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "heard:", " -", " Cont", None]
        assert chunks[-1].omgm["answer"] == "heard: - Cont"
        ask(client, message)
    assert [body.get("stop") for body in server.bodies] == [[" Context", "Wiki"], ["ext: #"], None]


def test_a_limit_never_cuts_an_extract(client: OpenAI) -> None:
    [choice] = ask(client, user(text_part(WHEN), image_part("red")), max_tokens=1).choices
    assert (choice.message.content, choice.finish_reason) == ("1848", "stop")


@pytest.mark.parametrize(
    ("limits", "sent", "expected"),
    [
        ({"max_tokens": 1}, 1, ("heard:", "length")),
        ({"max_completion_tokens": 1, "max_tokens": None}, 1, ("heard:", "length")),
        ({"max_completion_tokens": 1, "max_tokens": 2}, 1, ("heard:", "length")),
        ({"max_completion_tokens": 8, "max_tokens": 2}, 2, ("heard: -", "length")),
        ({"max_tokens": 1000}, 3, ("heard: - Context:", "length")),
        ({}, 3, ("heard: - Context:", "length")),
    ],
)
def test_limits_of_a_chat_model(tmp_path: Path, limits: dict[str, Any], sent: int, expected: tuple[str, str]) -> None:
    message = user(text_part(WHEN), image_part("red"))
    with (
        FakeChatServer() as server,
        served(tmp_path, generator=ChatGenerator(ChatClient(server.url, "limited"), max_tokens=3)) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client,
    ):
        found = ask(client, message, **limits)
        *chunks, last = ask(client, message, **limits, stream=True)
    assert (found.choices[0].message.content, found.choices[0].finish_reason) == expected
    text = "".join(chunk.choices[0].delta.content for chunk in chunks)
    assert (text, last.choices[0].finish_reason) == expected
    assert {chunk.choices[0].finish_reason for chunk in chunks} == {None}
    assert [body["max_tokens"] for body in server.bodies] == [sent, sent]
    assert "cut" not in found.omgm and "cut" not in last.omgm


def test_usage(tmp_path: Path) -> None:
    """The tokens that the chat model's server counts; a stream has them in a chunk of their own, if asked."""
    message = user(text_part(WHEN), image_part("red"))
    with (
        FakeChatServer() as server,
        served(tmp_path, generator=ChatGenerator(ChatClient(server.url, "counting"))) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client,
    ):
        usage = ask(client, message).usage
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (120, 7, 127)
        *chunks, last = ask(client, message, stream=True, stream_options={"include_usage": True})
        assert (last.choices, last.usage, chunks[-1].omgm["prompt_tokens"]) == ([], usage, 120)
        assert {chunk.usage for chunk in ask(client, message, stream=True)} == {None}
        with pytest.raises(openai.BadRequestError, match="stream_options"):
            ask(client, message, extra_body={"stream_options": True})


def test_every_parameter_of_openai_s_client_is_known() -> None:
    given = set(inspect.signature(Completions.create).parameters) - ALWAYS
    assert given <= IGNORED | set(NEUTRAL) | set(ChatFields.model_fields)


def test_messages_at_fault(client: OpenAI) -> None:
    image, words = image_part("red"), text_part(WHEN)
    cases: list[tuple[Messages, str, str | None]] = [
        ([], "wrong_type", "messages"),
        ([{"role": "assistant", "content": "Hello"}], "wrong_type", "messages"),
        ([{"content": "Hello"}], "wrong_type", "messages[0]"),
        ([user(image)], "empty_question", "messages"),
        ([user(image, text_part("x" * 101))], "question_too_long", "messages"),
        ([{"role": "user", "content": None}], "empty_question", "messages"),
        ([user(words, {"type": "input_audio", "input_audio": {}})], "wrong_type", "messages[0].content[1].type"),
        ([user(words, {"type": "image_url"})], "wrong_type", "messages[0].content[1].image_url"),
        ([user(words, *map(image_part, ("red", "green", "blue", "gray", "white")))], "too_many_images", "messages"),
        ([user(words, url_part("flag.png"))], "bad_image_url", "messages[0].content[1].image_url"),
        ([user(words, url_part("data:image/png;base64,@@@"))], "malformed_data_uri", "messages"),
        ([user(words, url_part(data_uri(b"hello")))], "not_an_image", "messages"),
        ([user(words, url_part(data_uri(b"\0" * 110_000)))], "image_too_large", "messages"),
        ([user(words, url_part("A" * 800_000))], "conversation_too_large", None),
    ]
    for messages, code, param in cases:
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as raised:
                ask(client, *messages, stream=stream)
            assert (raised.value.code, raised.value.param) == (code, param)


def test_a_front_end_that_checks_the_model_is_told_that_nothing_is_found(client: OpenAI) -> None:
    ping: Messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "ping"}]
    completion = ask(client, *ping, max_tokens=1)
    [choice] = completion.choices
    assert choice.message.content == "No answer: the generator found none in the evidence."
    assert (choice.finish_reason, completion.usage.total_tokens) == ("stop", 0)
    chunks = list(ask(client, *ping, max_tokens=1, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert (text, chunks[-2].choices[0].finish_reason) == (choice.message.content, "stop")
    task = ask(
        client, {"role": "user", "content": "### Task: write a title for the chat. " * 20}
    )  # of the front end itself
    assert task.choices[0].message.content == choice.message.content
    told = completion.model_extra["omgm"]
    assert (told["answer"], told["abstained"], told["entity"], told["candidates"]) == (None, True, None, [])


def test_a_question_without_an_image(client: OpenAI) -> None:
    asked = {"role": "user", "content": "When was the treaty of Redland?"}
    completion = ask(client, asked)
    assert completion.choices[0].message.content == "1848"
    told = completion.model_extra["omgm"]
    assert [(c["title"], c["sim_c"], c["sim_m"]) for c in told["candidates"]] == [("Redland", None, None)]
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in ask(client, asked, stream=True))
    assert streamed == "1848"


def test_bodies_at_fault(world: World) -> None:
    cases = [
        (b"{", "application/json", "malformed_json", None),
        (b"[]", "application/json", "wrong_type", None),
        (b'{"model": "omgm", "model": "omgm"}', "application/json", "malformed_json", None),
        (b"{}", "application/json; charset=utf-8", "missing_model", "model"),
        (b'{"model": "omgm"}', "application/json", "missing_messages", "messages"),
        (b"{}", "text/plain", "unsupported_media_type", None),  # another site's page could send this without preflight
    ]
    for body, kind, code, param in cases:
        url = f"{world.url}/v1/chat/completions"
        response = httpx.post(url, content=body, headers={"Content-Type": kind}, trust_env=False)
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["param"]) == (400, code, param)


def url_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_images_by_url(tmp_path: Path, client: OpenAI) -> None:
    """The same rules as for `/answer`: images are fetched only from hosts that the operator allows."""
    with serve_web({"green.png": image_bytes("green")}) as web:
        message = user(text_part(WHEN), url_part(web.url("good/green.png")))
        with pytest.raises(openai.BadRequestError) as raised:
            ask(client, message)
        assert (raised.value.code, raised.value.param) == ("host_not_allowed", "messages")
        assert web.paths() == []
        settings = ServingSettings(image_hosts=(web.place,))
        with served(tmp_path, settings) as world, OpenAI(base_url=f"{world.url}/v1", api_key="none") as allowed:
            assert ask(allowed, message).omgm["entity"]["title"] == "Greenland"


def test_a_generator_that_fails(client: OpenAI) -> None:
    message = user(text_part("When did the treaty break?"), image_part("red"))
    with pytest.raises(openai.InternalServerError) as raised:
        ask(client, message)
    assert raised.value.code == "internal_error" and "secret" not in str(raised.value)
    with pytest.raises(openai.APIError) as broken:
        list(ask(client, message, stream=True))
    assert broken.value.code == "internal_error"
    degrade = {"omgm": {"on_generator_error": "degrade"}}
    found = ask(client, message, extra_body=degrade)
    assert found.choices[0].message.content.startswith("No answer: internal error")
    assert found.omgm["entity"]["title"] == "Redland" and found.omgm["abstained"] is False
    chunks = list(ask(client, message, stream=True, extra_body=degrade))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text.startswith("18\nNo answer: internal error")


def test_a_generator_that_is_away(tmp_path: Path) -> None:
    away = ChatGenerator(ChatClient("http://127.0.0.1:9", "llama", retries=0))
    with (
        served(tmp_path, generator=away) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.APIStatusError) as raised,
    ):
        ask(client, user(text_part(WHEN), image_part("red")))
    assert (raised.value.status_code, raised.value.code) == (424, "generator_unavailable")


def wait_for(world: World, batches: int, waiting: int) -> None:
    deadline = time.monotonic() + 20
    ready = f"{world.url}/health/ready"
    while (len(world.retriever.batches), httpx.get(ready, trust_env=False).json()["waiting"]) != (batches, waiting):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_full_queue(tmp_path: Path) -> None:
    with (
        served(tmp_path, ServingSettings(max_queue=1, max_batch=1)) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client,
        ThreadPoolExecutor(2) as pool,
    ):
        world.retriever.gate.clear()
        accepted = []
        for batches, waiting in ((1, 0), (1, 1)):
            accepted.append(pool.submit(ask, client, user(text_part(WHEN), image_part("red"))))
            wait_for(world, batches, waiting)
        with pytest.raises(openai.RateLimitError) as raised:
            ask(client, user(text_part(WHEN), image_part("red")))
        assert (raised.value.code, raised.value.response.headers["retry-after"]) == ("queue_full", "1")
        world.retriever.gate.set()
        assert [found.result().choices[0].message.content for found in accepted] == ["1848", "1848"]


def test_models(world: World, client: OpenAI) -> None:
    [model] = client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("omgm", "model", "omgm")
    assert client.models.retrieve("omgm") == model
    with pytest.raises(openai.NotFoundError) as raised:
        client.models.retrieve("gpt-4o")
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": WHEN}])
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


def test_doctor_does_not_take_the_service_for_a_generator(world: World) -> None:
    port = httpx.URL(world.url).port
    assert port is not None
    [finding] = local_server_findings({port: "vLLM"}, seconds=20)
    assert finding.found.startswith(f"none on ports {port};")


def test_document(world: World) -> None:
    document = httpx.get(f"{world.url}/openapi.json", trust_env=False)
    body = document.json()["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["properties"]["omgm"]["properties"]["on_generator_error"]["default"] == "fail"
    assert "$defs" not in document.text
