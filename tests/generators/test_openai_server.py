"""The chat client against `transformers serve` with a tiny random model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from chat_models.chat import ChatClient
from chat_models.context import token_cut
from chat_models.errors import ChatError
from chat_models.prompts import answer_messages
from generators.chat import ChatGenerator
from retriever.texts import section_passage
from retriever.types import Evidence, GenerationRequest
from tests.fakes.transformers_server import needs_server

pytestmark = needs_server


@pytest.fixture(scope="module")
def served(transformers_server: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("llama")
    _write_model(folder)
    return transformers_server, str(folder)


def _write_model(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<s>", "</s>", "<unk>", *(f"word{i}" for i in range(61))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    fast.chat_template = "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


MESSAGES = [{"role": "system", "content": "word1"}, {"role": "user", "content": "word2 word3"}]


async def test_whole_and_streamed_answers_agree(served: tuple[str, str]) -> None:
    url, model = served

    async with ChatClient(url, model) as client:
        whole = await client.converse(MESSAGES, 8)
        *pieces, _ = [piece async for piece in client.stream(MESSAGES, 8)]
    words = whole.text.split()
    assert words and all(word.startswith("word") or word in ("<s>", "<unk>") for word in words)
    assert "".join(map(str, pieces)).split() == words


def test_an_unknown_model_is_a_clear_error(served: tuple[str, str]) -> None:
    url, model = served

    async def run() -> None:
        async with ChatClient(url, model + "-missing", retries=0) as client:
            await client.converse(MESSAGES, 4)

    with pytest.raises(ChatError, match="chat/completions"):
        asyncio.run(run())


def test_the_server_counts_as_the_cut_does(served: tuple[str, str]) -> None:
    url, model = served
    cut = token_cut(Path(model))
    text = " ".join(f"word{i}, unheard-of" for i in range(20))  # word, comma, unheard, hyphen, of: 5 tokens each

    def prompt_tokens(limit: int) -> int:
        context = section_passage("Velland", "Geography", cut(text, limit)[0])
        body = {"model": model, "messages": answer_messages("Who?", context), "max_tokens": 1}
        return int(httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30).json()["usage"]["prompt_tokens"])

    assert prompt_tokens(31) - prompt_tokens(7) == 24
    assert prompt_tokens(100) - prompt_tokens(99) == 1
    assert prompt_tokens(101) == prompt_tokens(100)

    async def run() -> list[bool]:
        async with ChatClient(url, model) as client:
            request = GenerationRequest("Who?", None, Evidence("v", "Velland", "Geography", text))
            generators = [ChatGenerator(client, max_tokens=2, max_context_tokens=n, cut=cut) for n in (99, 100)]
            return [(await generator.generate([request]))[0].truncated for generator in generators]

    assert asyncio.run(run()) == [True, False]


def test_a_check_says_that_the_server_offers_the_model(served: tuple[str, str]) -> None:
    url, model = served

    async def run() -> str:
        async with ChatClient(url, model) as client:
            return await client.check()

    # Before 5.24, transformers lists only models that are in its cache.
    assert asyncio.run(run()) in (f"{url}/v1/models offers {model}", f"{url}/v1/models responds but lists no models")
