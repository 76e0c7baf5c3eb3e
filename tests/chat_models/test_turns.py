"""Recorded conversations of each family: what is sent is what came, byte for byte, but for what the policy adds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from chat_models.chat import ChatClient
from chat_models.messages import Message
from search_agents.budget import PromptCounts, believed
from search_agents.context import fitted, tokens_of
from search_agents.engine import Engine
from search_agents.model import ChatPlanner
from search_agents.policies import policy_of
from tests.fakes.planner import fake_tool
from tests.fakes.raw_server import Answer, RawServer, events, response

ARGUMENTS = '{"queries": ["Niger"]}'
WRITTEN = f'{{"name": "text_search", "arguments": {ARGUMENTS}}}'
ANSWER: Answer = [response({"choices": [{"message": {"role": "assistant", "content": "<answer>Niamey</answer>"}}]})]


def call(id_: str, **others: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "text_search", "arguments": ARGUMENTS}, **others}


def turn(calls: list[dict[str, Any]], **others: Any) -> Message:
    return {"role": "assistant", "content": None, **others, "tool_calls": calls}


SIGNED: dict[str, Any] = {"extra_content": {"google": {"thought_signature": "c2lnbmF0dXJl"}}}
DETAILS = [
    {"type": "reasoning.text", "text": "A badge.", "signature": "sig", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.encrypted", "data": "gAAAA", "format": "openai-responses-v1", "id": "rs_1", "index": 1},
]
WHOLE = {
    "Gemini 3": turn([call("function-call-77", **SIGNED), call("function-call-78")]),
    "Vertex": turn([call("a", extra_content={"vertex": {"thought_signature": "AY89"}})]),
    "Kimi": turn([call("functions.text_search:0")], content="", reasoning_content="The badge is a disc."),
    "DeepSeek": turn([call("call_00_x")], content="I search.", reasoning_content="The badge."),
    "Mistral": turn([call("D681PevKs")], content="", prefix=False),
    "Magistral": turn([call("D681PevKs")], content=[{"type": "thinking", "thinking": [{"type": "text", "text": "A"}]}]),
    "vLLM": turn([call("chatcmpl-tool-1")], reasoning="A badge.", refusal=None, annotations=None, audio=None),
    "OpenRouter": turn([call("toolu_1")], reasoning="A badge.", reasoning_details=DETAILS),
    "LiteLLM": turn([call("toolu_1")], thinking_blocks=[{"type": "thinking", "thinking": "A", "signature": "EqQB"}]),
    "MiniMax": turn([call("call_1")], content="<think>\nA badge.\n</think>\n\nI search."),
    "in the text": {
        "role": "assistant",
        "content": f'I <tool_call>{{"name": "text_search", "arguments": {ARGUMENTS}}}',
    },
}


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def begun(id_: str, arguments: str = ARGUMENTS, **others: Any) -> dict[str, Any]:
    function = {"name": "text_search", "arguments": arguments}
    return {"index": 0, "id": id_, "type": "function", "function": function, **others}


STREAMED: dict[str, list[dict[str, Any]]] = {
    "Gemini 3": [
        delta(role="assistant", tool_calls=[begun("function-call-77", **SIGNED)]),
        delta(tool_calls=[{**begun("function-call-78"), "index": 1}]),
    ],
    "Vertex": [  # without index, and the signature in a piece of its own
        delta(tool_calls=[{"id": "a", "type": "function", "function": {"name": "text_search", "arguments": "{"}}]),
        delta(tool_calls=[{"function": {"arguments": ARGUMENTS[1:]}}]),
        delta(tool_calls=[{"extra_content": {"vertex": {"thought_signature": "AY89"}}}]),
    ],
    "DeepSeek": [
        delta(role="assistant", content=None, reasoning_content="The "),
        delta(reasoning_content="badge."),
        delta(content="I "),
        delta(content="search."),
        delta(tool_calls=[begun("call_00_x", "")]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ARGUMENTS}}]),
    ],
    "Magistral": [
        delta(role="assistant", content=[{"type": "thinking", "thinking": [{"type": "text", "text": "A"}]}]),
        delta(tool_calls=[begun("D681PevKs")]),
    ],
    "OpenRouter": [
        delta(reasoning="A ", reasoning_details=[{"type": "reasoning.text", "text": "A ", "index": 0}]),
        delta(reasoning="badge.", reasoning_details=[{"type": "reasoning.text", "text": "badge.", "index": 0}]),
        delta(reasoning_details=[{k: DETAILS[0][k] for k in ("type", "signature", "format", "index")}, DETAILS[1]]),
        delta(tool_calls=[begun("toolu_1")]),
    ],
    "LiteLLM": [  # the signed block repeats the thought
        delta(thinking_blocks=[{"type": "thinking", "thinking": "A", "signature": None}]),
        delta(thinking_blocks=[{"type": "thinking", "thinking": "A", "signature": "EqQB"}]),
        delta(tool_calls=[begun("toolu_1")]),
    ],
}


def asked(*first: Answer) -> list[dict[str, Any]]:
    """Returns the requests of a run whose first replies are given and whose next one answers."""
    replies = iter(first)

    async def run(url: str) -> None:
        planner = ChatPlanner(ChatClient(url, "m", retries=0))
        await Engine(planner, [fake_tool("text_search")]).run(policy_of("mmsearch-plus"), "Capital?", None)
        await planner.aclose()

    with RawServer(lambda path, body: next(replies, ANSWER)) as server:
        asyncio.run(run(server.url))
    return [body for _, body in server.requests]


@pytest.mark.parametrize("family", WHOLE)
def test_a_turn_goes_back_as_it_came(family: str) -> None:
    came = WHOLE[family]
    _, second = asked([response({"choices": [{"message": came, "finish_reason": "stop"}], "model": "m"})])
    _, _, back, *results = second["messages"]
    assert json.dumps(back) == json.dumps(came)
    ids = [one["id"] for one in came.get("tool_calls", [])]
    assert [one["tool_call_id"] for one in results if one["role"] == "tool"] == ids


@pytest.mark.parametrize("family", STREAMED)
def test_a_streamed_turn_goes_back_whole(family: str) -> None:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    _, second = asked([events(*STREAMED[family], end, "[DONE]")])
    assert second["messages"][2] == WHOLE[family]


def test_only_what_no_server_reads_is_changed() -> None:
    broken = {"id": "", "type": "function", "function": {"name": "text_search", "arguments": '{"queries": ["a "b""]}'}}
    _, second = asked([response({"choices": [{"message": turn([broken, call("kept")], x=1)}]})])
    first, kept = second["messages"][2]["tool_calls"]
    assert (first["id"], first["function"]["arguments"]) == ("call01000", "{}") and kept == call("kept")
    assert [one["tool_call_id"] for one in second["messages"][3:5]] == ["call01000", "kept"]


@pytest.mark.parametrize(
    ("told", "calls", "content", "reasoning"),
    [
        ("property 'reasoning_content' is unsupported", True, None, None),
        ("Invalid 'content': 'content' field must be a string or an array of objects.", True, "", "A"),
        ("invalid message content type: <nil>", True, "", "A"),
        (
            "this model does not support tools",
            False,
            f'<tool_call>{{"name": "text_search", "arguments": {ARGUMENTS}}}',
            None,
        ),
    ],
)
def test_what_a_server_refuses_of_a_turn(told: str, calls: bool, content: str | None, reasoning: str | None) -> None:
    """Also tools that are refused only with the history: calls and results become text."""
    came = turn([call("a")], reasoning_content="A")
    requests = asked([response({"choices": [{"message": came}]})], [response({"error": told}, "400 Bad Request")])
    last = requests[-1]["messages"]
    back = last[2]
    assert (bool(back.get("tool_calls")), back.get("reasoning_content")) == (calls, reasoning)
    assert back["content"] == content or (content and str(back["content"]).startswith(content))
    assert any(one["role"] == "tool" for one in last) is calls


def test_whole_turns_leave_a_long_conversation() -> None:
    results = [{"role": "tool", "tool_call_id": "a", "content": "r" * 4_000}]
    older, newer = turn([call("a")], reasoning_content="o" * 400), turn([call("b")], reasoning_content="n" * 400)
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, older, *results, newer]
    messages += [{"role": "tool", "tool_call_id": "b", "content": "z" * 4_000}]
    less = fitted(messages, 1_300)
    assert less == [*messages[:2], *messages[4:]] and tokens_of(less) <= 1_300
    least = fitted(messages, 500)
    assert least[2] == newer and least[3]["content"].startswith("zzz") and tokens_of(least) <= 500


def test_counts_are_believed_if_they_can_be_true() -> None:
    assert [believed(count, 900) for count in (None, 0, 100, 500, 5_000)] == [900, 900, 900, 500, 5_000]
    assert believed(85, 1_020, least=20) == 85  # an image may be few tokens
    counts = PromptCounts()
    grows = [counts.is_cut(text, 0, counted) for text, counted in ((500, 600), (1_000, 1_150), (1_500, 1_160))]
    assert grows == [False, False, True]
    assert PromptCounts().is_cut(5_000, 0, 2_050) and not PromptCounts().is_cut(5_000, 0, 0)
