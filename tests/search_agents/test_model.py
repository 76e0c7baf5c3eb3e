"""The planner against a scripted OpenAI-compatible server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.messages import Message
from chat_models.replies import ChatReply, ToolCall, read_reply
from search_agents.context import fitted, tokens_of
from search_agents.engine import Engine
from search_agents.model import ChatPlanner
from search_agents.policies import policy_of
from search_agents.policies.auto import INSPECTION
from search_agents.policies.vsa import CAPTION
from search_agents.regions import Box
from search_agents.trail import AgentAnswer
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.planner import calling, fake_tool, image
from tests.fakes.scripted_server import ScriptedServer

HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [fake_tool("text_search").schema()]


def ask(
    server: FakeChatServer,
    times: int = 1,
    model: str = "scripted",
    messages: Sequence[Message] = HELLO,
    **fields: Any,
) -> ChatReply:
    async def run() -> ChatReply:
        async with ChatClient(server.url, model, backoff=0.01) as client:
            planner = ChatPlanner(client)
            for _ in range(times):
                reply = await planner.reply(messages, 16, fields.get("tools", []), fields.get("schema"))
            return reply

    return asyncio.run(run())


def test_tool_calls_of_the_api() -> None:
    with ScriptedServer([calling("text_search", '{"queries": ["a"]}')]) as server:
        reply = ask(server, tools=TOOLS, schema=INSPECTION)
    assert reply == ChatReply("", (ToolCall("text_search", '{"queries": ["a"]}', "call_0"),), 100, 10)
    [body] = server.bodies
    assert body["tools"][0]["function"]["name"] == "text_search"
    assert body["tools"][0]["function"]["parameters"]["properties"]["queries"]["type"] == "array"
    assert body["response_format"]["json_schema"]["schema"] == INSPECTION


def test_a_server_without_tools_is_asked_without_them_from_then_on() -> None:
    with ScriptedServer(["plain"], refuses=["tools"]) as server:
        assert ask(server, times=3, tools=TOOLS).text == "plain"
    assert ["tools" in body for body in server.bodies] == [True, False, False, False]


SYSTEM = [{"role": "system", "content": "rules"}, *HELLO]
SEEN = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:"}}],
    }
]


def test_a_schema_that_is_refused_does_not_cost_the_tools() -> None:
    with ScriptedServer(["plain"], refuses=["response_format"]) as server:
        ask(server, times=2, tools=TOOLS, schema=INSPECTION)
    fields = [("tools" in body, "response_format" in body) for body in server.bodies]
    assert fields == [(True, True), (True, False), (True, False)]


def test_tools_that_are_refused_are_described_in_the_text() -> None:
    with ScriptedServer(["plain"], refuses=["tools"]) as server:
        ask(server, messages=SYSTEM, tools=TOOLS)
    system, user = server.bodies[-1]["messages"]
    assert system["content"].startswith("rules\n\nThe tools:\n{") and user == HELLO[0]
    assert '"name": "text_search"' in system["content"] and '"queries"' in system["content"]


def test_a_server_that_takes_no_images_gets_the_text() -> None:
    with ScriptedServer(["plain"], refuses=["image_url"]) as server:
        assert ask(server, times=2, messages=SEEN, tools=TOOLS).text == "plain"
    assert [body["messages"][0]["content"] for body in server.bodies[1:]] == ["look", "look"]
    assert ["tools" in body for body in server.bodies] == [True, True, True]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (500, "Failed to create new sequence: this model is missing data required for image input"),
        (400, "Model does not support images. Please use a model that does."),
        (404, "No endpoints found that support image input"),
        (400, "Invalid content type. image_url is only supported by certain models."),
    ],
)
def test_a_model_without_vision_is_asked_without_images(status: int, message: str) -> None:
    with Picky(0, message, status) as server:
        reply = ask(server, times=2, messages=shown(0, 1), tools=TOOLS)
    assert reply.text == "ok" and reply.without == ("2 of 2 images",)
    assert len(server.bodies) <= 5 and images_in(server.bodies[-1]) == [] and "tools" in server.bodies[-1]


def test_a_conversation_too_long_for_the_server_is_shortened() -> None:
    long: list[Message] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "a" * 4_000},
        {"role": "user", "content": "r" * 20_000},
    ]
    with ScriptedServer(["plain"], longest=10_000) as server:
        assert ask(server, messages=long, tools=TOOLS).text == "plain"
    sizes = [sum(len(message["content"]) for message in body["messages"]) for body in server.bodies]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] <= 10_000 < sizes[-2]
    assert [message["content"] for message in server.bodies[-1]["messages"][:2]] == ["s", "question"]
    assert all("tools" in body for body in server.bodies)


def shown(*numbers: int) -> list[Message]:
    """A conversation with an image per message; the first one is the question's."""
    parts = [{"type": "image_url", "image_url": {"url": f"data:{number}"}} for number in numbers]
    return [{"role": "user", "content": [{"type": "text", "text": "look"}, part]} for part in parts]


def images_in(body: dict[str, Any]) -> list[str]:
    parts = (
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    )
    return [part["image_url"]["url"].removeprefix("data:") for part in parts if part["type"] == "image_url"]


class Picky(FakeChatServer):
    """A server that takes so many images, and says so in its own words."""

    def __init__(self, most: int, message: str, status: int = 400) -> None:
        self.most, self.message, self.status = most, message, status
        super().__init__()

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        if len(images_in(body)) > self.most:
            return JSONResponse({"error": {"message": self.message}}, self.status)
        return JSONResponse({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})


@pytest.mark.parametrize(
    ("most", "message", "sent", "status"),
    [
        (1, "At most 1 image(s) may be provided in one request.", [4, 1], 400),
        (2, "Too many images: at most 2 images may be provided in one prompt. (parameter=image, value=4)", [4, 2], 400),
        (1, "You provided 4 images, the limit is 1.", [4, 1], 400),
        (3, "height:9 or width:9 must be larger than factor:28", [4, 3], 400),
        (1, "The response was filtered due to the prompt triggering the content management policy", [4, 3, 2, 1], 400),
        (1, "Failed to load image or audio file", [4, 3, 2, 1], 400),
        (1, "Bad Request", [4, 3, 2, 1], 400),
        (2, "unprocessable", [4, 3, 2], 422),
    ],
)
def test_a_refused_image_is_that_of_one_request(most: int, message: str, sent: list[int], status: int) -> None:
    with Picky(most, message, status) as server:
        reply = ask(server, messages=shown(0, 1, 2, 3), tools=TOOLS, schema=INSPECTION)
        again = ask(server, messages=shown(7), tools=TOOLS)
    *asked, last = server.bodies
    assert list(dict.fromkeys(len(images_in(body)) for body in asked)) == sent
    assert images_in(asked[-1]) == ["0", *map(str, range(5 - most, 4))]  # the question's, and the newest
    assert all("tools" in body and "response_format" in body for body in asked)
    assert reply.text == "ok" and reply.without == (f"{4 - most} of 4 images",)
    assert images_in(last) == ["7"] and "tools" in last and again.without == ()


def test_a_bare_refusal_is_forgotten() -> None:
    """A request that is refused without a reason is repeated with less; the next one has everything again."""

    async def run(url: str) -> list[ChatReply]:
        async with ChatClient(url, "scripted", backoff=0.01) as client:
            planner = ChatPlanner(client)
            return [await planner.reply(shown(0), 16, TOOLS, INSPECTION) for _ in range(2)]

    class Moody(Picky):
        async def answer(self, request: Request) -> Response:
            self.bodies.append(body := await request.json())
            if len(self.bodies) <= 2:  # the client first suspects a field of its own
                return JSONResponse({"error": {"message": "Bad Request"}}, 400)
            return JSONResponse({"choices": [{"message": {"content": str(len(body))}, "finish_reason": "stop"}]})

    with Moody(1, "") as server:
        asyncio.run(run(server.url))
    features = [("response_format" in body, "tools" in body, len(images_in(body))) for body in server.bodies]
    assert features[1:] == [(True, True, 1), (False, True, 1), (True, True, 1)]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "The decoder prompt (length 16476) is longer than the maximum model length of 16384."),
        (400, "This model's maximum context length is 4096 tokens and your request has 3500 input tokens"),
        (
            422,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3900 `inputs` tokens",
        ),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        (400, "the request exceeds the available context size, try increasing it"),
        (413, "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7200"),
        (413, "413 Request Entity Too Large"),
        (
            400,
            "Trying to keep the first 5000 tokens, but the model is loaded with a context length of only 4096",
        ),
    ],
)
def test_too_long_in_anybodys_words(status: int, message: str) -> None:
    """Older results go, never the question's image or the tools, and the next question is not affected."""
    results = [{"role": "user", "content": letter * 6_000} for letter in "abc"]
    conversation = [*shown(0), *results]

    class Short(Picky):
        async def answer(self, request: Request) -> Response:
            self.bodies.append(body := await request.json())
            if sum(len(str(one["content"])) for one in body["messages"]) > 9_000:
                return JSONResponse({"error": {"message": self.message}}, self.status)
            return JSONResponse({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})

    with Short(1, message, status) as server:
        reply = ask(server, messages=conversation, tools=TOOLS)
        ask(server, messages=shown(7), tools=TOOLS)
    assert reply.text == "ok" and reply.without == ("older results",)
    assert [images_in(body) for body in server.bodies] == [["0"]] * (len(server.bodies) - 1) + [["7"]]
    assert all("tools" in body for body in server.bodies)
    sizes = [sum(len(str(one["content"])) for one in body["messages"]) for body in server.bodies]
    assert sizes == sorted(sizes, reverse=True)


def test_a_model_that_reasons_for_long_is_given_more_room() -> None:
    def play(body: dict[str, Any]) -> ChatReply:
        return ChatReply("", ending="cut") if body["max_tokens"] < 1_000 else ChatReply("<Website 1>")

    async def run(url: str) -> AgentAnswer:
        async with ChatClient(url, "scripted") as client:
            engine = Engine(ChatPlanner(client), [fake_tool("text_search")])
            return await engine.run(policy_of("mmsearch"), "Who?", None)

    with ScriptedServer(play, whole=True) as server:
        answer = asyncio.run(run(server.url))
    assert answer.answer == "<Website 1>"
    assert [body["max_tokens"] for body in server.bodies] == [512, 4096, 4096, 4096]


def test_requests_at_once_are_all_given_more_room() -> None:
    def play(body: dict[str, Any]) -> ChatReply:
        return ChatReply("", ending="cut") if body["max_tokens"] < 1_000 else ChatReply('{"sufficient": true}')

    async def run(url: str) -> AgentAnswer:
        async with ChatClient(url, "scripted") as client:
            engine = Engine(ChatPlanner(client), [fake_tool("text_search")])
            return await engine.run(policy_of("vsa"), "Who?", image(), boxes=[Box(0, 0, 8, 8), Box(4, 4, 12, 12)])

    with ScriptedServer(play, whole=True) as server:
        asyncio.run(run(server.url))
    captions = [body["max_tokens"] for body in server.bodies if body["messages"][0]["content"] == CAPTION]
    assert len(captions) == 4 and captions.count(4096) == 2


def test_other_errors_are_raised() -> None:
    with FakeChatServer() as server, pytest.raises(ChatError, match="not a chat completion"):
        ask(server, model="empty")


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ({"content": None}, ChatReply("")),
        ({"content": "a", "tool_calls": None}, ChatReply("a")),
        (
            {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            ChatReply("", (ToolCall("f", '{"a": 1}'),)),
        ),
        ({"tool_calls": [{"function": {"name": "f"}}]}, ChatReply("", (ToolCall("f", "{}"),))),
        (
            {"tool_calls": [{"function": {"arguments": "{}"}}, {}]},
            ChatReply("", (ToolCall("", "{}"), ToolCall("", "{}"))),
        ),
        ({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, ChatReply("", (ToolCall("f", "{}"),))),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, ChatReply("ab")),
        # an unpaired surrogate, raw and as a model escapes it in JSON; a complete pair is kept
        ({"content": "a\ud83d \\ud83d \\ud83d\\ude00"}, ChatReply("a\ufffd \\ufffd \\ud83d\\ude00")),
        (
            {"tool_calls": [{"function": {"name": "f\ude00", "arguments": '{"q": "\\uDE00"}'}}]},
            ChatReply("", (ToolCall("f\ufffd", '{"q": "\\ufffd"}'),)),
        ),
        ({"content": None, "reasoning_content": "<answer>no</answer>"}, ChatReply("", thoughts="<answer>no</answer>")),
    ],
)
def test_replies_in_the_shapes_that_servers_send(message: dict[str, Any], reply: ChatReply) -> None:
    assert read_reply({"choices": [{"message": message}]}) == reply


def test_the_oldest_results_leave_the_context_first() -> None:
    messages: list[Message] = [
        {"role": "system", "content": "s" * 400},
        {"role": "user", "content": [{"type": "text", "text": "q" * 400}]},
        {"role": "assistant", "content": "a" * 4_000},
        {"role": "user", "content": "r" * 4_000},
        {"role": "assistant", "content": "b" * 40},
        {"role": "user", "content": "z" * 4_000},
    ]
    assert fitted(messages, 4_000) == messages
    less = fitted(messages, 2_000)
    assert tokens_of(less) <= 2_000
    assert [len(message["content"]) for message in less[2:]] == [40, 4_000]  # a whole turn goes
    least = fitted(messages, 500)
    assert tokens_of(least) <= 500
    assert least[:2] == messages[:2] and least[-1]["content"].startswith("zzz")
