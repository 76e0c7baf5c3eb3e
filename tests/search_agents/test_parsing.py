"""Replies in the forms that models write, correct and malformed."""

from __future__ import annotations

import pytest

from chat_models.replies import ChatReply
from search_agents.answers import plain_answer
from search_agents.calls import calls_of
from search_agents.parsing import answer_of, is_abstention, json_object
from search_agents.records import Call

SEARCH = Call("text_search", {"queries": ["a"]})
WRITTEN = '{"name": "text_search", "arguments": {"queries": ["a"]}}'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"<tool_call>{WRITTEN}</tool_call>", (SEARCH,)),
        (f"< Tool_Call >\n{WRITTEN}\n< / tool_call >", (SEARCH,)),
        (f"<tool_call>```json\n{WRITTEN}\n```</tool_call>", (SEARCH,)),
        (
            f"I search.\n<tool_call>{WRITTEN}</tool_call>\n<tool_call>{WRITTEN}</tool_call> Then I wait.",
            (SEARCH, SEARCH),
        ),
        (f"<tool_call>{WRITTEN}\n{WRITTEN}</tool_call>", (SEARCH, SEARCH)),
        (f"<tool_call>[{WRITTEN}, {WRITTEN}]</tool_call>", (SEARCH, SEARCH)),
        ("<tool_call>{'name': 'text_search', 'arguments': {'queries': ['a',]}}</tool_call>", (SEARCH,)),
        (f"First I look it up.\n```json\n{WRITTEN}\n```\nThen I answer.", (SEARCH,)),
        (f'{{"tool_calls": [{{"function": {WRITTEN}}}]}}', (SEARCH,)),
        ('Tool Call: text_search\n\n```\n{\n  "queries": ["a"]\n}\n```', (SEARCH,)),  # appendix K of MMSearch-Plus
        (
            '**Tool Call:** `text_search`\n{"queries": ["a"]}\nTool Call: image_search {}',
            (SEARCH, Call("image_search", {})),
        ),
        ('Tool Call: text_search {"quer', (Call("text_search", '{"quer'),)),
        ("<think>Tool Call: a</think> <answer>b</answer>", ()),
        ('```json\n{"a": 1}\n```', ()),
        ("", ()),
    ],
)
def test_calls_are_read_from_text(text: str, calls: tuple[Call, ...]) -> None:
    assert calls_of(ChatReply(text)) == (calls, "")


@pytest.mark.parametrize(
    "text",
    ['<tool_call>{"name": "text_search", "argum', "<tool_call>text_search(a)</tool_call>", '{"name": 3}', "{broken"],
)
def test_what_has_the_form_of_a_call_is_told(text: str) -> None:
    calls, problem = calls_of(ChatReply(text))
    assert calls == () and problem.startswith("a tool call must be <tool_call>")


def test_python_is_read_but_not_run() -> None:
    assert json_object("{'a': __import__('os').abort()}") is None
    assert json_object("{'a': (1, 'b}'), \"c\": true}") == {"a": [1, "b}"], "c": True}
    assert json_object("{1} {'a': {}}") == {"a": {}}
    deep = json_object("{'a':" * 200 + "1" + "}" * 200)
    assert deep is not None and json_object("{'a':" * 999 + "1" + "}" * 999) is None
    assert json_object("{'a':" * 201 + "1" + "}" * 201) == deep  # Python's parser accepts 200 nested brackets


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("< answer > x [1] </ answer >;", "x [1]"),
        ("<ANSWER>x", "x"),
        ("<thought><answer>no</answer></thought> <answer>x</answer>", "x"),
        ("**Final Answer:** x", "x"),
        ("```\nAnswer: x\n```", "x"),
        ("Answer\uff1ax", "x"),
        ('<answer type="final">x</answer>', "x"),
        ("<final_answer>x</final_answer>", "x"),
        ("It follows from the results.\n\n### Final Answer: **x**", "x"),
        ("The answer is: x", "x"),
        ('{"answer": "x [1]"}', "x [1]"),
        ('```json\n{"final_answer": "x", "citations": [2, 1]}\n```', "x [2] [1]"),
    ],
)
def test_answers_are_read_from_text(text: str, answer: str) -> None:
    assert plain_answer(ChatReply(text)) == answer
    assert answer_of(text) == (answer if "<" in text else None)


@pytest.mark.parametrize(
    "text",
    [
        "Unknown.",
        "unknown [3]",
        "I don\u2019t know.",
        "I'm unable to determine this.",
        "I'm sorry, but I could not find the answer.",
        "It cannot be determined from the results.",
        "The results do not contain enough information to answer the question.",
        "There is not enough information.",
        "No relevant information was found.",
        "Unable to determine.",
    ],
)
def test_abstentions(text: str) -> None:
    assert is_abstention(text)


@pytest.mark.parametrize(
    "text",
    [
        "It does not contain caffeine.",
        "It is not found in Africa.",
        "No",
        "None",
        "No evidence of water",
        "The Unknown Soldier",
        "I Know What You Did",
        "Not Without My Daughter",
        "The information age",
    ],
)
def test_answers_that_only_sound_like_abstentions(text: str) -> None:
    assert not is_abstention(text)


def test_a_reply_of_empty_lines_takes_no_longer_than_another() -> None:
    text = "a" + 45_000 * "\n" + "b"  # would take minutes if parsing were quadratic in the number of lines
    assert calls_of(ChatReply(text), ["text_search"]) == ((), "")
    assert plain_answer(ChatReply(text)) == text
