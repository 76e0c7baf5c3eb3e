"""A RoBERTa without padding computes what transformers computes with it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import RobertaConfig, RobertaForSequenceClassification, XLMRobertaConfig
from transformers import XLMRobertaForSequenceClassification as XlmRoberta

from retriever.models.packed_roberta import PackedRoberta, packed, padded_total

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "num_labels": 1,
}
MODELS: dict[str, Any] = {
    "xlm-roberta": XlmRoberta(XLMRobertaConfig(**SIZES, vocab_size=100, pad_token_id=1, initializer_range=0.3)),
    "roberta": RobertaForSequenceClassification(
        RobertaConfig(**SIZES, vocab_size=100, pad_token_id=1, initializer_range=0.3, hidden_act="gelu_new")
    ),
}


def texts_of(seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[0, *draw.choices(range(5, 100), k=draw.randint(0, 40)), 2] for _ in range(9)]


@pytest.mark.parametrize("kind", MODELS)
@torch.inference_mode()
def test_logits_are_those_of_the_model(kind: str) -> None:
    model, texts = MODELS[kind].eval(), texts_of(1)
    longest = max(map(len, texts))
    ids = torch.tensor([text + [1] * (longest - len(text)) for text in texts])
    expected = model(input_ids=ids, attention_mask=(ids != 1).long()).logits[:, 0]
    assert expected.std() > 0.1
    joined = PackedRoberta(model)
    torch.testing.assert_close(joined(texts), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat([joined([text]) for text in texts]), expected, rtol=1e-4, atol=1e-5)
    after = model(input_ids=ids, attention_mask=(ids != 1).long()).logits[:, 0]  # its weights are views now
    torch.testing.assert_close(after, expected, rtol=1e-6, atol=1e-6)


@torch.inference_mode()
def test_padding_is_a_text_of_its_own() -> None:
    roberta, texts = PackedRoberta(MODELS["xlm-roberta"].eval()), texts_of(2)
    tokens = sum(map(len, texts))
    places, ends = roberta.laid_out(texts, 1024)
    assert places.shape == (2, 1024) and places[:, tokens:].unique().tolist() == [0, 1]
    assert ends.tolist()[:9] == roberta.laid_out(texts)[1].tolist()[:9]
    assert ends.tolist()[9:] == [tokens] * 7 + [1024]  # room for 16 texts
    padded = roberta.logits(places, ends, 1024)
    torch.testing.assert_close(padded[: len(texts)], roberta(texts), rtol=1e-5, atol=1e-6)
    assert padded.isfinite().all()


@pytest.mark.parametrize(
    ("tokens", "texts", "total"),
    [(1, 1, 256), (255, 3, 256), (256, 1, 512), (255, 4, 512), (8191, 127, 8192), (8192, 9, None), (900, 128, None)],
)
def test_graphs_have_room_for_the_texts_and_for_padding(tokens: int, texts: int, total: int | None) -> None:
    assert padded_total(tokens, texts) == total


def test_a_cpu_uses_the_model_itself() -> None:
    assert packed(MODELS["roberta"]) is None
    assert packed(MODELS["xlm-roberta"].to(torch.bfloat16)) is None


def test_an_old_gpu_has_no_flash_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    config = SimpleNamespace(model_type="xlm-roberta")
    model: Any = SimpleNamespace(config=config, device=torch.device("cuda"), dtype=torch.float16)
    assert packed(model) is None
