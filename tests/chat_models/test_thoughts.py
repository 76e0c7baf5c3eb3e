"""Thoughts of reasoning models in the forms of many families, whole and in streams of any pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_models.thoughts import THINK, Parted, ThoughtFilter, part

FORMS = {
    "qwen": ("<think>\n", "\n</think>\n\n"),
    "thinking": ("<thinking>", "</thinking>"),
    "exaone": ("<thought>\n", "</thought>"),
    "spaced": ("< Think >", "< / think >"),
    "reasoning": ("<reasoning>", "</reasoning>"),
    "seed": ("<seed:think>", "</seed:think>"),
    "magistral": ("[THINK]", "[/THINK]"),
    "kimi": ("◁think▷", "◁/think▷"),
    "openthinker": ("<|begin_of_thought|>", "<|end_of_thought|>\n\n"),
    "command": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "gemma": ("<|channel>thought\n", "<channel|>"),
    "granite": ("Here is my thought process: ", " Here is my response: "),
    "harmony": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
}
THOUGHT = "A <b>red</b> disc [1]; not 5 > 3.\nSo: Japan?"


@pytest.mark.parametrize("form", FORMS)
def test_closed_opened_and_cut(form: str) -> None:
    begin, end = FORMS[form]
    closed = part(f"{begin}{THOUGHT}{end}Tokyo [2] <3")
    assert (closed.text, closed.thoughts, closed.closed) == ("Tokyo [2] <3", THOUGHT, True)
    cut = part(f"{begin}{THOUGHT}")
    assert (cut.text, cut.thoughts, cut.closed) == ("", THOUGHT, False)
    if form != "harmony":
        assert part(f"{THOUGHT}{end}Tokyo") == Parted("Tokyo", THOUGHT, opened=True)


@pytest.mark.parametrize(
    ("reply", "text", "thoughts"),
    [
        ("Tokyo", "Tokyo", ""),
        (" 5 < 6 > 4 [THINKING] <b>Tokyo</b>\n", " 5 < 6 > 4 [THINKING] <b>Tokyo</b>\n", ""),
        ("<think></think>Tokyo", "Tokyo", ""),
        ("<think>a</think>Tok<think>b</think>yo", "Tokyo", "a\nb"),
        ("<think>a <think>b</think> c</think>Tokyo", "Tokyo", "a <think>b\nc"),
        ("<think>I use <think> tags </think>Tokyo", "Tokyo", "I use <think> tags"),
        ("<think>a</reasoning> b</think>Tokyo", "Tokyo", "a</reasoning> b"),
        ("Tokyo <think>or Kyoto", "Tokyo", "or Kyoto"),
        ("<|channel|>final<|message|>Tokyo<|return|>", "Tokyo", ""),
        ("analysisThe disc is red.assistantfinalTokyo", "Tokyo", "The disc is red."),
        ("analysisThe disc is red, so", "", "The disc is red, so"),
        ("analysis of the flag", "analysis of the flag", ""),
        ("<|begin_of_thought|>a<|end_of_thought|>\n<|begin_of_solution|>Tokyo<|end_of_solution|>", "Tokyo", "a"),
        ("<think>a</think><|begin_of_box|>Tokyo<|end_of_box|>", "Tokyo", "a"),
    ],
)
def test_other_replies(reply: str, text: str, thoughts: str) -> None:
    assert (part(reply).text, part(reply).thoughts) == (text, thoughts)


def test_a_prompt_of_ours_may_ask_for_some_tags() -> None:
    assert part("<Thought> No?", THINK).text == "<Thought> No?"
    assert part("<think>a</think><Thought> No?", THINK).text == "<Thought> No?"


TAGS = ["<think>", "</think>", "<thin", "k>", "</", "[THINK]", "[/THINK]", "[1]", "<", ">", "a", "Tokyo", " ", "\n"]
WORDS = ["5 < 6", "analysis", "assistantfinal", "Here is my thought process:", "Here is my response:", "<|channel>"]
pieces = st.sampled_from([*TAGS, *WORDS, "thought"])


@given(st.lists(pieces, max_size=8), st.lists(st.integers(0, 60), max_size=8))
def test_a_stream_says_what_the_whole_reply_says(parts: list[str], cuts: list[int]) -> None:
    reply = "".join(parts)
    places = sorted({0, len(reply), *(min(cut, len(reply)) for cut in cuts)})
    stream = ThoughtFilter()
    sent = [stream.feed(reply[a:b]) for a, b in itertools.pairwise(places)]
    whole = part(reply)
    said = "".join([*sent, stream.close(whole.text)])
    assert stream.whole == reply
    if said.strip() != whole.text.strip():  # text that turns out to be a thought later cannot be taken back
        begun = [part(reply[:end]).text.strip() for end in range(len(reply))]
        assert not all(whole.text.strip().startswith(text) for text in begun)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_no_thought_is_streamed(form: str, size: int) -> None:
    begin, end = FORMS[form]
    reply = f"{begin}{THOUGHT}{end}Tokyo [2] <3"
    stream = ThoughtFilter()
    sent = [stream.feed(reply[at : at + size]) for at in range(0, len(reply), size)]
    assert "".join([*sent, stream.close(part(reply).text)]) == "Tokyo [2] <3"


@pytest.mark.parametrize("form", [form for form in FORMS if form != "harmony"])
def test_a_thought_that_the_prompt_began_is_not_streamed(form: str) -> None:
    reply = f"{THOUGHT}{FORMS[form][1]}Tokyo [2] <3"
    for opened in (True, None):
        stream = ThoughtFilter(opened=opened)
        assert "".join([*map(stream.feed, reply), stream.close(part(reply).text)]) == "Tokyo [2] <3"
