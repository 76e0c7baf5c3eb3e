"""A tiny model of ours with random weights, exported under LAVIS's names for LAVIS to run; see README.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import BertTokenizer

from retriever.models.lavis import lavis_sources
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion

VISION = {
    "hidden_size": 32,
    "intermediate_size": 67,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
"""The oracle's sizes."""
QFORMER: dict[str, Any] = {
    "vocab_size": 28,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "encoder_hidden_size": 32,
    "use_qformer_text_input": True,
}


def tiny_model(tokenizer: BertTokenizer, seed: int = 1) -> QFormerFusion:
    """Returns a fusion encoder of the oracle's sizes in which every weight affects the output."""
    torch.manual_seed(seed)
    settings = {
        "qformer": QFORMER,
        "vision": {"kind": "blip2", "config": VISION},
        "queries": 32,
        "max_text_tokens": 40,
    }
    model = QFormerFusion(settings, tokenizer, PixelPreparation(16, crop=True, target_ratio=1.25))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def tiny_tokenizer(words: list[str], folder: Path) -> BertTokenizer:
    """Returns BERT's tokenizer with a vocabulary of a few words plus BLIP-2's additional token."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizer(str(folder / "vocab.txt"))
    tokenizer.add_special_tokens({"bos_token": "[DEC]"})
    return tokenizer


def export_lavis(model: QFormerFusion) -> dict[str, Tensor]:
    """Returns a model's weights under LAVIS's names.

    The key bias is left out: it adds the same amount to all scores of a query, which softmax cancels.
    """
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        sources = lavis_sources(name)
        queries, _, values = tensor.chunk(3) if len(sources) == 2 else (tensor, None, tensor)
        state |= {source: part.detach() for source, part in zip(sources, (queries, values), strict=False)}
    positions = len(state["Qformer.bert.embeddings.position_embeddings.weight"])
    return state | {"Qformer.bert.embeddings.position_ids": torch.arange(positions)[None]}


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    model = tiny_model(tiny_tokenizer(words, out / "words"))
    torch.save({"model": export_lavis(model)}, out / "ours.pth")
