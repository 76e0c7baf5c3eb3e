"""Loads the BERT encoders of the table of base models."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer

from retriever.base_models import base_model
from retriever.files import read_object
from retriever.models.bert import Bert, BertConfig
from retriever.models.weights import read_weights, without_memory


def load_bert(name: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> tuple[Bert, Tokenizer]:
    """Loads a base model without its pooler, and its tokenizer without truncation and padding.

    Raises:
        ValueError: The model is unknown, not available, or a file of it differs from the table.
    """
    folder = base_model(name)
    with without_memory():
        model = Bert(BertConfig.read(read_object(folder / "config.json")))
    model.load_state_dict(read_weights(folder, model.state_dict(), device=device, dtype=dtype), assign=True)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return model.eval(), tokenizer
