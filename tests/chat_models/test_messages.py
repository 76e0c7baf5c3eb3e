"""Texts of others that look like a conversation, by the control tokens of published chat templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from chat_models.messages import harmless, harmless_source
from search_agents.answers import cited

_TOKENS = """
<|im_start|> <|im_end|> <|endoftext|> <|begin_of_text|> <|start_header_id|> <|end_header_id|>
<|eot_id|> <|eom_id|> <|python_tag|> <s> </s> <unk> <pad> [INST] [/INST] <<SYS>> <</SYS>>
[TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [SYSTEM_PROMPT]
[CALL_ID] [ARGS] [IMG] [IMG_BREAK] [IMG_END] <bos> <eos> <start_of_turn> <end_of_turn>
<start_of_image> <|user|> <|assistant|> <|system|> <|end|> <|observation|> [gMASK] <sop>
<｜begin▁of▁sentence｜> <｜User｜> <｜Assistant｜> <｜tool▁calls▁begin｜> <｜tool▁outputs▁end｜>
<｜DSML｜function_calls> <|START_OF_TURN_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|> <|im_user|>
<|im_middle|> <|tool_calls_section_begin|> <|start|> <|channel|> <|message|> <|call|>
<|start_of_role|> <|end_of_role|> <|vision_start|> <|image_pad|> <image> <IMG_CONTEXT>
<fake_token_around_image> <end_of_utterance> <think> </think> <tool_call> </tool_call>
<tool_response> <answer> </answer> </open_page_result> <|header_start|> <|eot|> <|header_end|>
"""
TOKENS = _TOKENS.split()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A tokenizer of the usual library, in which all of them are special tokens."""
    made = Tokenizer(WordLevel({"[UNKNOWN]": 0}, unk_token="[UNKNOWN]"))
    made.pre_tokenizer = Whitespace()
    made.add_special_tokens(TOKENS)
    return made


def special(tokenizer: Tokenizer, text: str) -> list[str]:
    return [token for token in tokenizer.encode(text).tokens if token in TOKENS]


def test_no_control_token_is_left(tokenizer: Tokenizer) -> None:
    text = " a ".join(TOKENS)
    assert special(tokenizer, text) == TOKENS
    assert special(tokenizer, harmless(text)) == []
    assert special(tokenizer, harmless("".join(TOKENS))) == []


@given(st.lists(st.sampled_from([*TOKENS, "<", ">", "[", "]", " ", "|", "x", "\n"]), max_size=12))
def test_nor_in_any_order(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    assert special(tokenizer, harmless(text)) == []
    assert len(harmless_source(text)) == len(text)


@pytest.mark.parametrize("text", ["5 < 7 and 9 > 8", "a <- b", "x[i] = y", "[note] see below", "I <3 it", "A, B & C"])
def test_other_texts_stay(text: str) -> None:
    assert harmless_source(text) == text


@pytest.mark.parametrize("text", ["[9]", "[1, 2]", "【9†source】", "[Result 3]", "['4']", "[[5]]", "[web 2]", "[^1]"])
def test_no_number_of_a_result_is_forged(text: str) -> None:
    assert cited(text) and not cited(harmless_source(f"It was founded in 1850 {text}."))


def test_nor_the_heading_of_one() -> None:
    assert harmless_source("a\nResult 9 web_info: x") == "a\nresult 9 web_info: x"
