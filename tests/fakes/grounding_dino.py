"""A tiny Grounding DINO with random weights in the published file layout (IDEA-Research/grounding-dino-tiny)."""

from __future__ import annotations

import json
from pathlib import Path

import torch

import retriever.models  # noqa: F401  makes torchvision importable with a CPU build of PyTorch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "flag", "logo"]


def write_grounding_dino(folder: Path) -> Path:
    """Writes the model's folder and returns it."""
    from transformers import BertConfig, GroundingDinoConfig, GroundingDinoForObjectDetection, SwinConfig

    torch.manual_seed(0)
    swin = SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=2,
    )  # fmt: skip
    swin.out_indices = [2, 3, 4]
    bert = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64,
    )  # fmt: skip
    config = GroundingDinoConfig(
        backbone_config=swin, text_config=bert, d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=16,
        decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2, num_queries=12, max_text_len=64,
    )  # fmt: skip
    GroundingDinoForObjectDetection(config).save_pretrained(folder)
    pixels = {
        "do_normalize": True, "do_pad": True, "do_rescale": True, "do_resize": True, "format": "coco_detection",
        "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 2,
        "image_processor_type": "GroundingDinoImageProcessor", "processor_class": "GroundingDinoProcessor",
        "rescale_factor": 1 / 255, "size": {"longest_edge": 96, "shortest_edge": 64},
    }  # fmt: skip
    tokens = {
        "tokenizer_class": "BertTokenizer", "processor_class": "GroundingDinoProcessor", "do_lower_case": True,
        "model_max_length": 64, "cls_token": "[CLS]", "mask_token": "[MASK]", "pad_token": "[PAD]",
        "sep_token": "[SEP]", "unk_token": "[UNK]",
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(pixels))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder
