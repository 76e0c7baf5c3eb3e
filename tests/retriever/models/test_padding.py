"""Scores stay the same if a model is told what it would read from a padding mask, and then it reads nothing."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    GPT2Config,
    ModernBertConfig,
    MPNetConfig,
    PreTrainedConfig,
    Qwen3Config,
    XLMRobertaConfig,
)

from retriever.models.padding import known_padding
from tests.fakes.unread_device import DEVICE, UnreadDevice

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
    "num_labels": 1,
    "pad_token_id": 1,
}
RELATIVE: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_position_embeddings": 64}
UNUSED: dict[str, Any] = {f"{name}_token_id": None for name in ("bos", "eos", "cls", "sep")}
CONFIGS: dict[str, PreTrainedConfig] = {
    "bert": BertConfig(**SIZES),
    "eager": BertConfig(**SIZES | {"attn_implementation": "eager"}),
    "xlm-roberta": XLMRobertaConfig(**SIZES),  # its positions depend on the padding
    "modernbert": ModernBertConfig(**SIZES | UNUSED, local_attention=8),  # shorter than the rows
    "mpnet": MPNetConfig(**SIZES),  # is "eager"
    "deberta": DebertaV2Config(**SIZES, **RELATIVE),  # builds its own masks, and looks for padding without one
    "qwen3": Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=8),  # causal
    "gpt2": GPT2Config(**SIZES),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_scores_are_the_same_and_no_mask_is_read(name: str, padded: bool) -> None:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(CONFIGS[name]).eval()
    ids = torch.randint(5, 100, (3, 20))
    mask = torch.ones_like(ids)
    if padded:
        mask[1, 15:] = mask[2, 7:] = 0
    given = {"input_ids": ids.masked_fill(mask == 0, 1), "attention_mask": mask}
    expected = model(**given).logits
    with known_padding(padded):
        torch.testing.assert_close(model(**given).logits, expected)

    model.to(DEVICE)
    sent = {key: value.to(DEVICE) for key, value in given.items()}
    with UnreadDevice() as device, known_padding(padded):
        assert model(**sent).logits.shape == (3, 1)
    assert device.reads == 0
    reads = pytest.raises(RuntimeError, match="item") if name != "deberta" else nullcontext()
    with UnreadDevice(), reads:  # a reason to exist
        model(**sent)


@torch.inference_mode()
def test_attention_gets_a_mask_only_where_something_is_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AutoModelForSequenceClassification.from_config(CONFIGS["xlm-roberta"]).eval()
    masks: list[torch.Tensor | None] = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def recorded(*args: Any, **kwargs: Any) -> torch.Tensor:
        masks.append(kwargs["attn_mask"])
        return attention(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
    ids, mask = torch.full((2, 6), 7), torch.ones(2, 6, dtype=torch.int64)
    with known_padding(False):
        model(input_ids=ids, attention_mask=mask)
    assert masks == [None, None]
    with known_padding(True):
        model(input_ids=ids, attention_mask=mask)
    assert all(given is not None and given.all() for given in masks[2:]) and len(masks) == 4
