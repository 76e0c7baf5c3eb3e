"""The planner against a scripted OpenAI-compatible server on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agents import prompts
from agents.model import ChatPlanner, fitted, tokens_of
from llm.chat import ChatClient, ChatError
from llm.messages import Message
from llm.replies import ChatReply, ToolCall, read_reply
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.planner import calling, fake_tool
from tests.fakes.scripted_server import ScriptedServer

HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [fake_tool("text_search").schema()]


def ask(server: FakeChatServer, times: int = 1, model: str = "scripted", **fields: Any) -> ChatReply:
    async def run() -> ChatReply:
        async with ChatClient(server.url, model, backoff=0.01) as client:
            planner = ChatPlanner(client)
            for _ in range(times):
                reply = await planner.reply(HELLO, 16, fields.get("tools", []), fields.get("schema"))
            return reply

    return asyncio.run(run())


def test_tool_calls_of_the_api() -> None:
    with ScriptedServer([calling("text_search", '{"queries": ["a"]}')]) as server:
        reply = ask(server, tools=TOOLS, schema=prompts.INSPECTION)
    assert reply == ChatReply("", (ToolCall("text_search", '{"queries": ["a"]}', "call_0"),), 100, 10)
    [body] = server.bodies
    assert body["tools"][0]["function"]["name"] == "text_search"
    assert body["tools"][0]["function"]["parameters"]["properties"]["queries"]["type"] == "array"
    assert body["response_format"]["json_schema"]["schema"] == prompts.INSPECTION


def test_a_server_without_tools_is_asked_without_them_from_then_on() -> None:
    with ScriptedServer(["plain"], refuses=["tools"]) as server:
        assert ask(server, times=3, tools=TOOLS).text == "plain"
    assert ["tools" in body for body in server.bodies] == [True, False, False, False]


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
    assert [len(message["content"]) for message in less[2:]] == [24, 24, 40, 4_000]
    least = fitted(messages, 500)
    assert tokens_of(least) <= 500
    assert least[:2] == messages[:2] and least[-1]["content"].startswith("zzz")
