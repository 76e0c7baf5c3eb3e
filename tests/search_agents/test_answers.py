"""A tool call is never an answer, in whatever form a model writes it."""

from __future__ import annotations

import pytest

from chat_models.replies import ChatReply, ToolCall
from search_agents.answers import plain_answer
from search_agents.calls import calls_of
from search_agents.context import LEFT_OUT, NO_IMAGE

ASKED = "Is Tokyo the capital of Japan"
CALL = f'{{"name": "text_search", "arguments": {{"queries": ["{ASKED}"]}}}}'
FORMS = {
    "tag": f"<tool_call>{CALL}</tool_call>",
    "open tag": f"<tool_call>{CALL}",
    "fence": f"```json\n{CALL}\n```",
    "bare": CALL,
    "list": f"[{CALL}, {CALL}]",
    "spoken": f'Tool Call: text_search\n{{"queries": ["{ASKED}"]}}',
    "action": f'Action: text_search\nAction Input: {{"queries": ["{ASKED}"]}}',
    "function": f'<function=text_search><parameter=queries>["{ASKED}"]</parameter></function>',
    "invoke": f'<invoke name="text_search"><parameter name="queries">["{ASKED}"]</parameter></invoke>',
    "python": f'text_search(queries=["{ASKED}"])',
    "printed": f'```tool_code\nprint(text_search(queries=["{ASKED}"]))\n```',
    "own tag": f"<text_search>{ASKED}</text_search>",
    "mistral": f"[TOOL_CALLS][{CALL}]",
    "newer mistral": f'[TOOL_CALLS]text_search[ARGS]{{"queries": ["{ASKED}"]}}',
    "deepseek": "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function"
    f'<\uff5ctool\u2581sep\uff5c>text_search\n```json\n{{"queries": ["{ASKED}"]}}\n```',
    "harmony": f'<|channel|>commentary to=functions.text_search <|message|>{{"queries": ["{ASKED}"]}}<|call|>',
}
UNKNOWN = {
    "an unknown function": f'google_search("{ASKED}")',
    "keywords": f'lookup(query="{ASKED}")',
    "brackets": f'websearch["{ASKED}"]',
    "arguments alone": f'{{"queries": ["{ASKED}"]}}',
    "cut": f'<tool_call>{{"name": "text_search", "arguments": {{"queries": ["{ASKED}',
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_as_a_call_is_no_answer(form: str) -> None:
    reply = ChatReply(FORMS[form])
    assert calls_of(reply, ["text_search"])[0]
    assert plain_answer(reply) is None
    assert plain_answer(ChatReply(f"<think>So it is Tokyo.</think>\n{FORMS[form]}")) is None
    assert plain_answer(ChatReply(f"{FORMS[form]}\n<answer>Tokyo</answer>")) == "Tokyo"


@pytest.mark.parametrize("form", UNKNOWN)
def test_calls_of_unknown_tools_and_malformed_ones_are_no_answers(form: str) -> None:
    assert plain_answer(ChatReply(UNKNOWN[form])) is None


def test_text_beside_a_call_is_no_answer() -> None:
    assert plain_answer(ChatReply(f"I must check whether it is Tokyo.\n{FORMS['tag']}")) is None
    assert plain_answer(ChatReply("Is it Tokyo?", (ToolCall("text_search", "{}"),))) is None


@pytest.mark.parametrize(
    "text", ["Tokyo", "Tokyo (Japan)", "f(x) = 2x", "sin(x)", "[1885]", "C++", "1885 (or 1886)", "a b"]
)
def test_other_text_is_an_answer(text: str) -> None:
    assert plain_answer(ChatReply(text)) == text


def test_some_models_answer_with_a_call() -> None:
    call = '{"name": "final_answer", "arguments": {"answer": "Tokyo"}}'
    assert plain_answer(ChatReply(f"<tool_call>{call}</tool_call>")) == "Tokyo"
    assert plain_answer(ChatReply("", (ToolCall("finish", '{"answer": "Tokyo"}'),))) == "Tokyo"


def test_a_thought_alone_is_no_answer() -> None:
    assert plain_answer(ChatReply("<think>So it is <answer>Tokyo</answer></think>")) is None
    assert plain_answer(ChatReply("<think>So it is Tokyo")) is None


@pytest.mark.parametrize("text", ["{0}", "{0}\n", "<answer>{0}</answer>", "Answer: {0}."])
@pytest.mark.parametrize("mark", [LEFT_OUT, NO_IMAGE])
def test_what_stands_for_something_left_out_is_no_answer(text: str, mark: str) -> None:
    assert plain_answer(ChatReply(text.format(mark))) is None
