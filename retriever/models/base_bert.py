"""Loads the BERT encoders of the table of base models."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer

from retriever.base_models import base_model
from retriever.files import read_object
from retriever.models.bert import Bert, BertConfig
from retriever.models.weights import check_shapes, read_weights, without_memory


def load_bert(name: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> tuple[Bert, Tokenizer]:
    """Loads a base model without its pooler, and its tokenizer without truncation and padding.

    Raises:
        ValueError: The model is unknown, not available, or a file of it differs from the table.
    """
    folder = base_model(name)
    with without_memory():
        model = Bert(BertConfig.read(read_object(folder / "config.json")))
    expected = model.state_dict()
    tensors = read_weights(folder, {key: key for key in expected}, device, dtype, ignored=_left_out)
    check_shapes(folder, tensors, expected)
    model.load_state_dict(tensors, assign=True)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return model.eval(), tokenizer


def _left_out(name: str) -> bool:
    return name.startswith("pooler.") or name.endswith(".position_ids")
