"""A tiny BLIP-2 of transformers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from transformers import BertTokenizer, Blip2Config, Blip2ForImageTextRetrieval, BlipImageProcessorPil

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "the",
    "is",
    "it",
    "what",
    "how",
    "tall",
    "tree",
    "flag",
    "red",
    "blue",
    "old",
]
SIZE = 16


def blip2() -> Blip2ForImageTextRetrieval:
    """Returns the model with random weights, the same in every call."""
    torch.manual_seed(0)
    config = Blip2Config(
        vision_config={
            "hidden_size": 24,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "image_size": SIZE,
            "patch_size": 4,
        },
        qformer_config={
            "vocab_size": len(WORDS) + 1,
            "hidden_size": 16,
            "num_hidden_layers": 4,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "max_position_embeddings": 20,
            "encoder_hidden_size": 24,
            "use_qformer_text_input": True,
        },
        num_query_tokens=32,
    )
    model: Blip2ForImageTextRetrieval = Blip2ForImageTextRetrieval(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def save_blip2(folder: Path) -> None:
    """Writes the model in several shards, with its tokenizer and image processor."""
    blip2().save_pretrained(folder, max_shard_size="20KB")
    (folder / "words").mkdir()
    (folder / "words" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = BertTokenizer(str(folder / "words" / "vocab.txt"))
    tokenizer.add_special_tokens({"bos_token": "[DEC]"})
    tokenizer.save_pretrained(folder)
    shutil.rmtree(folder / "words")
    processor = BlipImageProcessorPil(size={"height": SIZE, "width": SIZE})
    settings = processor.to_dict() | {"image_processor_type": "BlipImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
