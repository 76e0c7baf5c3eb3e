"""OpenAI's Responses API, called by OpenAI's own client."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from openai.resources.responses import Responses
from openai.types.responses import Response

from chat_models.chat import ChatClient
from generators.chat import ChatGenerator
from serving.responses_schemas import RESPONSES_IGNORED, RESPONSES_NEUTRAL, ResponsesFields
from tests.fakes.asking import WHEN
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.service import World, served


@pytest.fixture
def client(world: World) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0, timeout=20) as client:
        yield client


def text_part(text: str = WHEN) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def image_part(color: str = "red") -> dict[str, Any]:
    return {"type": "input_image", "image_url": data_uri(image_bytes(color)), "detail": "auto"}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def ask(client: OpenAI, *items: Any, **more: Any) -> Any:
    return client.responses.create(model="omgm", input=list(items), **more)


def test_answer(client: OpenAI) -> None:
    found = ask(client, user(text_part(), image_part()))
    assert (found.output_text, found.status, found.model, found.object) == ("1848", "completed", "omgm", "response")
    [message] = found.output
    assert (message.role, message.status, message.content[0].annotations) == ("assistant", "completed", [])
    assert found.usage.output_tokens_details.reasoning_tokens == 0  # LlamaIndex reads it without checking
    about = found.omgm
    assert (about["entity"]["title"], about["confidence"]) == ("Redland", 0.75)
    assert (found.id, message.id) == (f"resp_{about['request_id']}", f"msg_{about['request_id']}")
    Response.model_validate(found.model_dump())  # has all fields that the client's type requires


def test_stream(client: OpenAI) -> None:
    events = list(ask(client, user(text_part(), image_part("green")), stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type.removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * 4,
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.delta for event in events[4:8]] == ["1", "8", "4", "8"] and events[8].text == "1848"
    last = events[-1].response
    assert (last.output_text, last.omgm["entity"]["title"], last.status) == ("1848", "Greenland", "completed")
    assert {event.item_id for event in events[3:10]} == {last.output[0].id}
    items: Any = [user(text_part(), image_part())]
    with client.responses.stream(model="omgm", input=items) as stream:  # checks the order
        stream.until_done()
        assert stream.get_final_response().output_text == "1848"


def test_no_answer_is_a_sentence(client: OpenAI) -> None:
    message, sentence = (
        user(text_part("What is the flag of one color?"), image_part()),
        "No answer: the generator found none in the evidence.",
    )
    found = ask(client, message)
    assert (found.output_text, found.omgm["abstained"]) == (sentence, True)
    assert list(ask(client, message, stream=True))[-1].response.output_text == sentence


def test_a_conversation_goes_on(world: World, client: OpenAI) -> None:
    """Items may be those of an earlier response, or another model's tool calls."""
    first = ask(client, user(text_part("What is this?"), image_part("green")))
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "x"}
    system = {"role": "developer", "content": "You are a pirate."}
    conversation = [system, user(text_part(), image_part("green")), *first.output, call, output]
    found = ask(client, *conversation, {"role": "user", "content": WHEN, "type": "message"})
    assert found.omgm["entity"]["title"] == "Greenland" and world.retriever.batches[-1] == [WHEN]


def test_parameters(client: OpenAI) -> None:
    message = user(text_part(), image_part())
    tuned = {"temperature": 0, "top_p": 0.9, "max_output_tokens": 1, "store": True, "instructions": "Be brief."}
    neutral = {"tools": [], "text": {"format": {"type": "text"}, "verbosity": "low"}, "reasoning": {"effort": "low"}}
    assert ask(client, message, **tuned, **neutral, include=[], truncation="auto").output_text == "1848"
    assert len(ask(client, message, extra_body={"omgm": {"k": 2}}).omgm["candidates"]) == 2
    schema = {"format": {"type": "json_schema", "name": "a", "schema": {}}}
    wrong: list[tuple[dict[str, Any], str, str, str]] = [
        ({"previous_response_id": "resp_1"}, "unsupported_parameter", "previous_response_id", "whole conversation"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter", "tools", "omgm mcp"),
        ({"text": schema}, "unsupported_parameter", "text", "text.format"),
        ({"background": True}, "unsupported_parameter", "background", "leave it out"),
        ({"extra_body": {"top_k": 5}}, "unknown_option", "top_k", "known fields"),
        ({"extra_body": {"stop": "."}}, "unknown_option", "stop", "known fields"),  # the API has no such parameter
        ({"max_output_tokens": 0}, "out_of_range", "max_output_tokens", "max_output_tokens must be at least 1, got 0"),
        ({"extra_body": {"max_tokens": 5}}, "unknown_option", "max_tokens", "max_output_tokens"),
        ({"extra_body": {"omgm": {"k": 101}}}, "out_of_range", "omgm", "between 1 and 100"),
    ]
    for more, code, param, advice in wrong:
        with pytest.raises(openai.BadRequestError, match=advice) as raised:
            ask(client, message, **more)
        assert (raised.value.status_code, raised.value.code, raised.value.param) == (400, code, param)


def test_every_parameter_of_openai_s_client_is_known() -> None:
    given = set(inspect.signature(Responses.create).parameters)
    given -= {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
    assert given <= RESPONSES_IGNORED | set(RESPONSES_NEUTRAL) | set(ResponsesFields.model_fields)


def test_limits_of_a_chat_model(tmp_path: Path) -> None:
    """As at OpenAI, the last event of a stream that the limit cuts is `response.incomplete`."""
    message = user(text_part(), image_part())
    with (
        FakeChatServer() as server,
        served(tmp_path, generator=ChatGenerator(ChatClient(server.url, "limited"))) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client,
    ):
        whole = ask(client, message, max_output_tokens=1)
        *_, item, last = ask(client, message, max_output_tokens=1, stream=True)
        assert (whole.output_text, last.response.output_text) == ("heard:", "heard:")
        assert (item.type, item.item.status) == ("response.output_item.done", "incomplete")
        assert (last.type, last.response.omgm["answer"]) == ("response.incomplete", "heard:")
        for found in (whole, last.response):
            assert (found.status, found.incomplete_details.reason) == ("incomplete", "max_output_tokens")
            assert found.output[0].status == "incomplete" and "cut" not in found.omgm
            Response.model_validate(found.model_dump())
        *_, last = ask(client, message, max_output_tokens=99, stream=True)
        assert (last.type, last.response.status) == ("response.completed", "completed")
        assert ask(client, message, max_output_tokens=None).incomplete_details is None
    assert [body["max_tokens"] for body in server.bodies] == [1, 1, 99, 128]


def test_usage(tmp_path: Path) -> None:
    with (
        FakeChatServer() as server,
        served(tmp_path, generator=ChatGenerator(ChatClient(server.url, "counting"))) as world,
        OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as client,
    ):
        message = user(text_part(), image_part())
        for found in (ask(client, message), list(ask(client, message, stream=True))[-1].response):
            usage = found.usage
            assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (120, 7, 127)


def test_without_an_image(client: OpenAI) -> None:
    response = client.responses.create(model="omgm", input="ping", max_output_tokens=16)
    assert response.status == "completed" and "No answer: the generator found none" in response.output_text
    events: list[Any] = list(ask(client, user(text_part("When was the treaty of Redland?")), stream=True))
    assert events[-1].type == "response.completed" and events[-1].response.output_text == "1848"


def test_input_at_fault(client: OpenAI) -> None:
    words, image = text_part(), image_part()
    at = "input[0].content[1]"
    cases: list[tuple[Any, str, str]] = [
        ([], "wrong_type", "input"),
        ([user(image)], "empty_question", "input"),
        ([user(text_part("x" * 101), image)], "question_too_long", "input"),
        ([user(words, {"type": "input_file", "file_id": "f"})], "wrong_type", f"{at}.type"),
        ([user(words, {"type": "input_image", "file_id": "f"})], "wrong_type", f"{at}.image_url"),
        ([user(words, {"type": "input_image", "image_url": "flag.png"})], "bad_image_url", f"{at}.image_url"),
        ([user(words, {"type": "input_image", "image_url": data_uri(b"hello")})], "not_an_image", "input"),
    ]
    for given, code, param in cases:
        with pytest.raises(openai.BadRequestError) as raised:
            client.responses.create(model="omgm", input=given)
        assert (raised.value.code, raised.value.param) == (code, param)
    with pytest.raises(openai.NotFoundError, match="this service has 'omgm'"):
        client.responses.create(model="gpt-5", input=WHEN)
    response = httpx.post(f"{client.base_url}responses", json={"model": "omgm"}, trust_env=False)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "missing_input")


def test_a_generator_that_fails(client: OpenAI) -> None:
    message = user(text_part("When did the treaty break?"), image_part())
    with pytest.raises(openai.InternalServerError) as raised:
        ask(client, message)
    assert raised.value.code == "internal_error" and "secret" not in str(raised.value)
    with pytest.raises(openai.APIError) as broken:
        list(ask(client, message, stream=True))
    assert broken.value.code == "internal_error"
    degraded = ask(client, message, extra_body={"omgm": {"on_generator_error": "degrade"}})
    assert degraded.output_text.startswith("No answer: internal error")


def test_document(tmp_path: Path) -> None:
    document = World(tmp_path).app.openapi()
    body = document["paths"]["/v1/responses"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["properties"]["omgm"]["properties"]["on_generator_error"]["default"] == "fail"
    assert "$defs" not in str(document)
