"""Tool calls in the forms that models of the papers and of other families write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chat_models.replies import ChatReply
from search_agents.calls import calls_of
from search_agents.records import Call
from search_agents.tool import CallError, check_call, plain_name
from search_agents.tools.index import TextSearchArguments
from tests.fakes.planner import fake_tool

NAMES = ["text_search", "image_search"]
SEARCH = Call("text_search", {"queries": ["a"]})
ARGUMENTS = '{"queries": ["a"]}'
WRITTEN = f'{{"name": "text_search", "arguments": {ARGUMENTS}}}'


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>text_search(queries=["a"])</tool_call>',
        '```python\ntext_search(queries=["a"])\n```',
        'I search.\n```tool_code\nprint(text_search(queries=["a"]))\n```',
        'text_search(queries=["a"])',
        'results = tools.text_search(queries=["a"])',
        '[text_search(queries=["a"])]',
        f"Thought: I search.\nAction: text_search\nAction Input: {ARGUMENTS}",
        f"**Action:** `text_search`\n**Action Input:** {ARGUMENTS}",
        f"Action: text_search({ARGUMENTS})",
        '<tool_call>\n<function=text_search>\n<parameter=queries>\n["a"]\n</parameter>\n</function>\n</tool_call>',
        f"<function=text_search>{ARGUMENTS}</function>",
        '<calls><invoke name="text_search">\n<parameter name="queries">["a"]</parameter>\n</invoke></calls>',
        '<tool_call>text_search\n<arg_key>queries</arg_key>\n<arg_value>["a"]</arg_value>\n</tool_call>',
        f'<tool_call name="text_search">{ARGUMENTS}</tool_call>',
        f'<tool_calls><tool_call name="text_search">{ARGUMENTS}</tool_call></tool_calls>',
        f"<tool_call>text_search{ARGUMENTS}</tool_call>",
        f"[TOOL_CALLS][{WRITTEN}]",
        f"<|python_tag|>{WRITTEN}<|eom_id|>",
        f"<text_search>{ARGUMENTS}</text_search>",
        f'<tool_call>{{"name": "text_search", "parameters": {ARGUMENTS}}}</tool_call>',
        '{"name": "text_search", "queries": ["a"]}',
        f'<tool_call>{{"text_search": {ARGUMENTS}}}</tool_call>',
        f'```json\n{{"action": "text_search", "action_input": {ARGUMENTS}}}\n```',
        f"<tool_call>{WRITTEN[:-1]}</tool_call>",
        f"<tool_call><name>text_search</name>\n<arguments>{ARGUMENTS}</arguments></tool_call>",
        f"[TOOL_CALLS]text_search[ARGS]{ARGUMENTS}",
        "<\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>text_search\n"
        f"```json\n{ARGUMENTS}\n```<\uff5ctool\u2581call\u2581end\uff5c>",
        "<|channel|>analysis<|message|>{} <answer>no</answer><|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.text_search <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        'Thought: I search.\nAction: text_search["a"]',
        "Action: text_search[a]",
        'Action: text_search(queries=["a"])\nObservation: none',
        f'{{"thought": "x", "action": {WRITTEN}}}',
        f"<tool_call>{WRITTEN}}}</tool_call>",
        '<tool_call>{"name": "text_search", // the name\n "arguments": {"queries": ["a"]}}</tool_call>',
        f"<tool_call>{WRITTEN}</tool_call>".replace('"', "\u201d"),
        f"<think>\nI need it.\n<tool_call>{WRITTEN}</tool_call>",
        f"<think>I need it. <tool_call>{WRITTEN}</tool_call></think>\n",
        f"<think>I need it: {WRITTEN}",
        '<tool_call>\n<function=text_search>\n<parameter=queries>\n["a"]\n',
        f"[TOOL_CALLS]text_search[CALL_ID]abcdefghi[ARGS]{ARGUMENTS}",
        '<|python_tag|>text_search.call(queries=["a"])',
        "<\uff5ctool\u2581call\u2581begin\uff5c>text_search<\uff5ctool\u2581sep\uff5c>"
        f"{ARGUMENTS}<\uff5ctool\u2581call\u2581end\uff5c>",
        '<\uff5cDSML\uff5cfunction_calls><\uff5cDSML\uff5cinvoke name="text_search">\n'
        '<\uff5cDSML\uff5cparameter name="queries" '
        'string="false">["a"]</\uff5cDSML\uff5cparameter></\uff5cDSML\uff5cinvoke></\uff5cDSML\uff5cfunction_calls>',
        '<|tool_call>call:text_search{queries:[<|"|>a<|"|>]}<tool_call|>',
        "<start_function_call>call:text_search{queries:[<escape>a<escape>]}<end_function_call>",
        f"Action: ```json\n[{WRITTEN}]\n```",
        f"<tool_calls>[{WRITTEN}]</tool_calls>",
        f"I will search first.\n\n{WRITTEN}",
        f"I will search first: {WRITTEN}. Then I will read.",
        'I will search.\n\n`text_search(queries=["a"])`\n\nLet me wait.',
        '<code>\nresult = text_search(queries=["a"])\nprint(result)\n</code>',
        f'{{"tool_uses": [{{"recipient_name": "text_search", "parameters": {ARGUMENTS}}}]}}',
        f'{{"function_calls": [{{"function_name": "text_search", "args": {ARGUMENTS}}}]}}',
        f'[{{"tool_call_id": "0", "tool_name": "text_search", "parameters": {ARGUMENTS}}}]',
        "{name: 'text_search', arguments: {queries: ['a']}}",
    ],
)
def test_a_call_is_read_in_every_spelling(text: str) -> None:
    assert calls_of(ChatReply(text), NAMES) == ((SEARCH,), "")


@pytest.mark.parametrize(
    "text",
    [
        "tool: text_search\narguments:\n  queries:\n    - a",
        'I search.\n```yaml\nname: text_search\narguments:\n  queries: ["a"]\n```\n',
        "- tool: text_search\n  parameters:\n    queries:\n      - a",
        'action: "text_search"\nargs:\n  queries:\n  - "a"',
        "tool: text_search\nqueries:\n  - a",
        "tool_calls:\n  - name: text_search\n    arguments:\n      queries:\n        - a",
        "text_search:\n  queries:\n    - a",
        "<tool_call>\nname: text_search\narguments:\n  queries:\n    - a\n</tool_call>",
        f'<tool name="text_search">{ARGUMENTS}</tool>',
        f"<tool_use>\n  <name>text_search</name>\n  <arguments>{ARGUMENTS}</arguments>\n</tool_use>",
        f"<use_mcp_tool><server_name>kb</server_name><tool_name>text_search</tool_name><arguments>{ARGUMENTS}</arguments>"
        "</use_mcp_tool>",
        '<invoke>\n<tool_name>text_search</tool_name>\n<parameters>\n<queries>["a"]</queries>\n</parameters>\n</invoke>',
        '<text_search>\n<queries>["a"]</queries>\n</text_search>',
        '<tool_call name="text_search" queries=\'["a"]\'/>',
        '<steptml:invoke name="text_search"><steptml:parameter name="queries">["a"]</steptml:parameter>'
        "</steptml:invoke>",
        "<longcat_tool_call>text_search\n<longcat_arg_key>queries</longcat_arg_key>\n"
        '<longcat_arg_value>["a"]</longcat_arg_value>\n</longcat_tool_call>',
        f"<|tool_call:begin|>x<|tool_call:name|>text_search<|tool_call:args|>{ARGUMENTS}<|tool_call:end|>",
        f"<|from|>assistant\n<|recipient|>text_search\n<|content|>{ARGUMENTS}",
        f">>>text_search\n{ARGUMENTS}",
        f"\u273fFUNCTION\u273f: text_search\n\u273fARGS\u273f: {ARGUMENTS}\n\u273fRESULT\u273f",
        f"**Tool:** text_search\n**Arguments:** {ARGUMENTS}",
        f"\u52a8\u4f5c\uff1atext_search\n\u52a8\u4f5c\u8f93\u5165\uff1a{ARGUMENTS}",
        f"I call text_search with the arguments {ARGUMENTS}.",
        f'call_tool("text_search", {ARGUMENTS})',
        'Let me use `text_search(queries=["a"])` to find out.',
        'results = await text_search(queries=["a"])',
        f'{{"tool_name": "text_search", "tool_args": {ARGUMENTS}}}',
        f'{{"functionCall": {{"name": "text_search", "args": {ARGUMENTS}}}}}',
        f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {WRITTEN}}}',
        '{"text_search": ["a"]}',
    ],
)
def test_the_last_resort_reads_any_known_tool_with_arguments(text: str) -> None:
    assert calls_of(ChatReply(text), NAMES) == ((SEARCH,), "")


@pytest.mark.parametrize(
    "text",
    [
        "<think>I need it.</think><search> the capital </search>",
        "<search>the capital",
        "<search><query>the capital</query></search>",
        '<search query="the capital"/>',
        "<|begin_search_query|>the capital<|end_search_query|>",
        "<|begin_of_query|> the capital <|end_of_query|>",
        "Action: text_search\nAction Input: queries: the capital",
        '<text_search queries="the capital" />',
        "<text_search>\n<queries>the capital</queries>\n</text_search>",
    ],
)
def test_a_search_without_a_name(text: str) -> None:
    """The tags of models that were trained with a single tool, and a query as text."""
    assert calls_of(ChatReply(text), NAMES) == ((Call("text_search", {"queries": "the capital"}),), "")


def test_a_search_with_the_image() -> None:
    assert calls_of(ChatReply("<search><img></search>"), NAMES)[0] == (Call("image_search", {}),)


@pytest.mark.parametrize(
    "text",
    [
        'It says so.\nFinal Answer: Niamey, as text_search({"queries": ["a"]}) found.',
        "<answer>The text_search: {}</answer> <search>a</search>",
    ],
)
def test_an_answer_is_not_searched_for_calls(text: str) -> None:
    assert calls_of(ChatReply(text), NAMES) == ((), "")


def test_what_was_only_thought_of_is_no_call_beside_a_text() -> None:
    reply = ChatReply("The capital is Niamey.", thoughts=f"Maybe <tool_call>{WRITTEN}</tool_call>?")
    assert calls_of(reply, NAMES) == ((), "") and calls_of(replace(reply, text=""), NAMES)[0] == (SEARCH,)


@pytest.mark.parametrize(
    "text",
    [
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.text_search:0<|tool_call_argument_begin|>{ARGUMENTS}"
        "<|tool_call_end|><|tool_calls_section_end|>",
        f'{{"recipient_name": "functions.text_search", "parameters": {ARGUMENTS}}}',
    ],
)
def test_names_with_a_namespace(text: str) -> None:
    [call], problem = calls_of(ChatReply(text), NAMES)
    assert (plain_name(call.tool, NAMES), call.arguments, problem) == ("text_search", SEARCH.arguments, "")


@pytest.mark.parametrize(
    "text",
    [
        f"<think>Maybe {WRITTEN}?</think><answer>Niamey</answer>",
        f"<think>Maybe <tool_call>{WRITTEN}</tool_call></think>The capital is Niamey.",
        'An example of JSON is {"name": "Niamey", "arguments": {"population": 1}}.',
        "The function text_search(queries) finds articles.",
        'The record {"name": "Niger", "capital": "Niamey"} says so.',
    ],
)
def test_other_texts_call_nothing(text: str) -> None:
    assert calls_of(ChatReply(text), NAMES)[0] == ()


def test_the_text_of_the_only_argument() -> None:
    for written in ('"the capital"', "the capital"):
        [call], _ = calls_of(ChatReply(f"Action: text_search\nAction Input: {written}"), NAMES)
        tool = replace(fake_tool("text_search"), arguments=TextSearchArguments)
        assert check_call(call, {"text_search": tool})[1] == TextSearchArguments(queries=["the capital"])


def test_a_query_may_have_a_line_break() -> None:
    text = '<tool_call>{"name": "text_search", "arguments": {"queries": ["a\nb"]}}</tool_call>'
    assert calls_of(ChatReply(text)) == ((Call("text_search", {"queries": ["a\nb"]}),), "")


def test_a_query_alone_in_the_tag_of_a_tool() -> None:
    """MMSearch-R1's format."""
    assert calls_of(ChatReply("<reason>I search.</reason><text_search>the  capital</text_search>"), NAMES)[0] == (
        Call("text_search", {"queries": "the  capital"}),
    )


@pytest.mark.parametrize(
    "text",
    [
        "I would call text_search(queries=my_queries) now.",
        "f(x) = text_search(x)",
        "other(queries=['a'])",
        "text_search(queries=open('/etc/passwd').read())",
        "text_search(queries=['a'].__class__)",
        "The tool text_search is of no use here.",
        "My action is to wait.",
    ],
)
def test_what_is_no_call(text: str) -> None:
    assert calls_of(ChatReply(text), NAMES) == ((), "")


@pytest.mark.parametrize(
    ("call", "queries"),
    [
        (Call("functions.text_search", ARGUMENTS), ["a"]),
        (Call(" Text-Search ", ARGUMENTS), ["a"]),
        (Call("textSearch", ARGUMENTS), ["a"]),
        (Call("text_search_tool", ARGUMENTS), ["a"]),
        (Call("text_search", "{'queries': ['a',],}"), ["a"]),
        (Call("text_search", '"{\\"queries\\": [\\"a\\"]}"'), ["a"]),
        (Call("text_search", '[["a", "b"]]'), ["a", "b"]),
        (Call("text_search", ""), ["anything"]),
        (Call("text_search", "null"), ["anything"]),
    ],
)
def test_names_and_arguments_that_are_nearly_right(call: Call, queries: list[str]) -> None:
    _, arguments = check_call(call, {"text_search": fake_tool("text_search")})
    assert arguments.model_dump() == {"queries": queries}


@pytest.mark.parametrize("arguments", ['{"queries": ["a"', '{"queries": ["a', "queries", "[1", '"a"', "3"])
def test_cut_arguments_are_not_completed(arguments: str) -> None:
    with pytest.raises(CallError, match="text_search"):
        check_call(Call("text_search", arguments), {"text_search": fake_tool("text_search")})


def test_values_of_python_become_those_of_json() -> None:
    text = "<tool_call>{'name': 'text_search', 'arguments': {'queries': ('a', 'b'), 3: None}}</tool_call>"
    assert calls_of(ChatReply(text))[0] == (Call("text_search", {"queries": ["a", "b"], "3": None}),)
    assert calls_of(ChatReply("<tool_call>{'name': 'a', 'arguments': {'b': {1, 2}}}</tool_call>"))[0] == ()
