"""Tiny models with random weights, in the layout in which models of 2025 and 2026 are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from retriever.models.padding import prepare_transformers

TEXTS = ["a red flag", "A Red Flag", "three bands of blue, white and red", "São Tomé"] * 4
SIZES: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


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


QWEN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
        "<|image_pad|>", "<|video_pad|>", "<think>", "</think>"]  # fmt: skip
"""Tokens of Qwen3 that are no text."""


def write_qwen_tokenizer(folder: Path, *, ends: bool) -> int:
    """Writes a tokenizer of Qwen3 and returns its size; with `ends`, as of its embeddings, a last token is added."""
    tokenizer = Tokenizer(BPE())
    split = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["yes no", "yes", "no", *TEXTS], trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=not token.endswith("think>")) for token in QWEN])
    byte_level = processors.ByteLevel(trim_offsets=False)
    end = processors.TemplateProcessing(
        single="$A <|endoftext|>", pair="$A $B <|endoftext|>",
        special_tokens=[("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))],
    )  # fmt: skip
    tokenizer.post_processor = processors.Sequence([byte_level, end]) if ends else byte_level
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "errors": "replace",
    }
    settings |= {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None, "model_max_length": 131072}
    write(
        folder / "tokenizer_config.json",
        settings | {"tokenizer_class": "Qwen2Tokenizer", "split_special_tokens": False},
    )
    return tokenizer.get_vocab_size()


def qwen3_config(size: int) -> Any:
    """Returns the configuration of a tiny Qwen3 with a vocabulary of a size."""
    from transformers import Qwen3Config

    settings = SIZES | {"vocab_size": size, "num_key_value_heads": 1, "head_dim": 8, "tie_word_embeddings": True}
    return Qwen3Config(**settings | {"rope_theta": 1e6, "max_position_embeddings": 32768})


def save_large(model: Any, folder: Path, prefix: str = "") -> None:
    """Saves a model with weights large enough that mistakes show, all their names after a prefix."""
    torch.manual_seed(0)
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.3)
    model.save_pretrained(folder)
    tensors = {
        prefix + name: tensor.contiguous() for name, tensor in model.state_dict().items() if name != "lm_head.weight"
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def write_qwen3_embedding(folder: Path) -> Path:
    """Writes a Qwen3-Embedding with the files that its publisher adds for sentence-transformers."""
    prepare_transformers()
    from transformers import Qwen3Model

    model = Qwen3Model(qwen3_config(write_qwen_tokenizer(folder, ends=True)))
    save_large(model, folder)
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", config | {"architectures": ["Qwen3ForCausalLM"]})
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kinds[path]}"}
               for i, path in enumerate(kinds)]  # fmt: skip
    write(folder / "modules.json", modules)
    task = "Given a web search query, retrieve relevant passages that answer the query"
    prompts = {"query": f"Instruct: {task}\nQuery:", "document": ""}
    write(
        folder / "config_sentence_transformers.json",
        {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    pooling = {f"pooling_mode_{mode}": mode == "lasttoken" for mode in modes}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 16, "include_prompt": True} | pooling)
    return folder


def write_qwen3_reranker(folder: Path) -> Path:
    """Writes a Qwen3-Reranker: a language model whose head is its embedding."""
    prepare_transformers()
    from transformers import Qwen3ForCausalLM

    save_large(Qwen3ForCausalLM(qwen3_config(write_qwen_tokenizer(folder, ends=False))), folder)
    return folder


def write_qwen3_vl(folder: Path, head: bool = False) -> Path:
    """Writes a Qwen3-VL-Embedding: the parts of a Qwen3-VL under `model.`; a Qwen3-VL-Reranker has a `head`, tied."""
    prepare_transformers()
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLModel

    size = write_qwen_tokenizer(folder, ends=False)
    settings = json.loads((folder / "tokenizer.json").read_text())
    ids = {token["content"]: token["id"] for token in settings["added_tokens"]}
    text: dict[str, Any] = {
        **SIZES,
        "vocab_size": size,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "tie_word_embeddings": True,
    }
    text |= {"rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [2, 1, 1]}}
    text |= {"max_position_embeddings": 262144, "rope_theta": 5e6}
    vision: dict[str, Any] = {"depth": 3, "hidden_size": 16, "num_heads": 2, "intermediate_size": 32, "patch_size": 16}
    vision |= {"out_hidden_size": 16, "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1]}
    vision |= {"spatial_merge_size": 2, "temporal_patch_size": 2}
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    if head:
        save_large(Qwen3VLForConditionalGeneration(config), folder)
    else:
        save_large(Qwen3VLModel(config), folder, "model.")
    image = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2, "image_mean": [0.5] * 3}
    image |= {"image_std": [0.5] * 3, "size": {"shortest_edge": 65536, "longest_edge": 16777216}}
    write(folder / "preprocessor_config.json", image | {"image_processor_type": "Qwen2VLImageProcessorFast"})
    return folder


IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def write_dinov2(folder: Path) -> Path:
    """Writes a DINOv2 under the names that facebook/dinov2-base is published with."""
    prepare_transformers()
    from transformers import Dinov2Config, Dinov2Model

    model = Dinov2Model(Dinov2Config(**SIZES, image_size=56, patch_size=14))
    save_large(model, folder)
    tensors = {published_dinov2(name): tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    image = {"image_processor_type": "BitImageProcessor", "do_center_crop": True, "do_resize": True, "resample": 3}
    image |= {"size": {"shortest_edge": 32}, "crop_size": {"height": 28, "width": 28}}
    write(folder / "preprocessor_config.json", image | IMAGENET)
    return folder


def published_dinov2(name: str) -> str:
    """Returns the name of a tensor of DINOv2 before transformers 5."""
    for new, old in (("q_proj", "attention.query"), ("k_proj", "attention.key"), ("v_proj", "attention.value"),
                     ("o_proj", "output.dense")):  # fmt: skip
        name = name.replace(f"attention.{new}", f"attention.{old}")
    return name


def write_dinov3(folder: Path) -> Path:
    """Writes a DINOv3, a vision transformer with registers."""
    prepare_transformers()
    from transformers import DINOv3ViTConfig, DINOv3ViTModel

    save_large(DINOv3ViTModel(DINOv3ViTConfig(**SIZES, image_size=32, patch_size=8, num_register_tokens=4)), folder)
    image = {"image_processor_type": "DINOv3ViTImageProcessorFast", "do_resize": True, "resample": 2}
    image |= {"size": {"height": 32, "width": 32}, "do_center_crop": None, "crop_size": None}
    write(folder / "preprocessor_config.json", image | IMAGENET)
    return folder
