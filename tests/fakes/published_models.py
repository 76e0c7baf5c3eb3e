"""Tiny models with random weights, in the layout in which models of 2025 and 2026 are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from retriever.models.padding import prepare_transformers

TEXTS = ["a red flag", "A Red Flag", "three bands of blue, white and red", "São Tomé"] * 4
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def write_siglip2(folder: Path) -> Path:
    """Writes a SigLIP 2 of a fixed size like google/siglip2-base-patch16-224: SigLIP's model, Gemma's tokenizer."""
    prepare_transformers()
    from transformers import SiglipConfig, SiglipModel

    torch.manual_seed(0)
    vision = {**SIZES, "image_size": 32, "patch_size": 8}
    text = {**SIZES, "vocab_size": 512, "projection_size": 16, "bos_token_id": 2, "eos_token_id": 1}
    SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    write_gemma_tokenizer(folder)
    image = {"image_processor_type": "SiglipImageProcessor", "do_resize": True, "do_rescale": True, "resample": 2}
    image |= {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    write(folder / "preprocessor_config.json", image | {"do_normalize": True, "processor_class": "SiglipProcessor"})
    return folder


def write_gemma_tokenizer(folder: Path) -> None:
    """Writes a tokenizer of SigLIP 2: no first token, a last one, padding with 0 to 64 tokens; its case is kept."""
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    tokenizer = Tokenizer(BPE(fuse_unk=True, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *bytes_]
    fill = [f"<unused{number}>" for number in range(150)]
    trainer = trainers.BpeTrainer(vocab_size=362, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_special_tokens(fill)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <eos>", pair="$A <eos> $B <eos>", special_tokens=[("<eos>", 1)]
    )
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokens = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk", "mask")}
    settings = {"add_bos_token": False, "add_eos_token": True, "model_max_length": 64, "padding_side": "right"}
    write(folder / "tokenizer_config.json", tokens | settings | {"tokenizer_class": "GemmaTokenizer"})


def write_bioclip2(folder: Path) -> Path:
    """Writes an open_clip model like imageomics/bioclip-2: OpenAI's CLIP, weights without metadata."""
    import open_clip
    from open_clip.push_to_hf_hub import save_config_for_hf

    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    model = open_clip.CLIP(**sizes)
    open_clip.model.set_model_preprocess_cfg(model, open_clip.transform.PreprocessCfg(size=32).__dict__)
    save_file({name: t.contiguous() for name, t in model.state_dict().items()}, folder / "open_clip_model.safetensors")
    save_config_for_hf(model, folder / "open_clip_config.json", model_config=sizes)
    return folder


def write(path: Path, settings: object) -> None:
    """Writes a JSON file."""
    path.write_text(json.dumps(settings))
