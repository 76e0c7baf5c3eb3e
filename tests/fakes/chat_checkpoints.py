"""Tiny random chat models in their published format: LLaMA 3 and LLaVA-1.5, with chat template and tokenizer."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

LLAMA3_TEMPLATE = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' "
    "+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAVA_TEMPLATE = (  # as published with llava-hf/llava-1.5-7b-hf: images first, no end of text
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)


def write_llama(folder: Path, *, template: str | None = LLAMA3_TEMPLATE, positions: int = 4096) -> Path:
    """Writes a LLaMA whose tokens are bytes; returns the folder."""
    specials = ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]
    pieces = [*specials, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=specials[0], eos_token=specials[1])
    fast.chat_template = template
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(_language(len(pieces), positions)).save_pretrained(folder)
    return folder


def write_llava(folder: Path, *, template: str = LLAVA_TEMPLATE, side: int = 24, patch: int = 4) -> Path:
    """Writes a LLaVA whose tokens are characters, with LLaMA 2's handling of spaces; returns the folder.

    Images have `side` by `side` pixels and one token per patch: 36, and 576 with the published 336 and 14.
    """
    specials = ["<unk>", "<s>", "</s>", "<image>", "<pad>"]
    pieces = [*specials, "▁", "\n", *string.ascii_letters, *string.digits, *string.punctuation]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )
    images = CLIPImageProcessor(size={"shortest_edge": side}, crop_size={"height": side, "width": side})
    LlavaProcessor(
        images,
        fast,
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    ).save_pretrained(folder)
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=side,
        patch_size=patch,
        projection_dim=16,
    )
    torch.manual_seed(0)
    config = LlavaConfig(
        vision_config=vision,
        text_config=_language(len(pieces), 4096),
        image_token_index=pieces.index("<image>"),
        vision_feature_layer=-2,
        image_seq_length=(side // patch) ** 2,
    )
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    return folder


def _language(words: int, positions: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=words,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=positions,
        initializer_range=0.5,  # so that tokens differ in a model this narrow
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
