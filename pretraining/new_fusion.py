"""The sizes of the embedded profile's fusion encoder before its training."""

from __future__ import annotations

from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_folder import small_settings
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from retriever.models.text_tokenizer import TextTokenizer


def new_fusion(
    vision: SmallVision,
    vision_config: SmallCLIPConfig,
    tokenizer: TextTokenizer,
    pixels: PixelPreparation,
    *,
    hidden_size: int = 128,
    layers: int = 3,
    heads: int = 4,
    queries: int = 32,
    max_text_tokens: int = 128,
) -> QFormerFusion:
    """Creates an untrained fusion encoder around `vision`, seeded by PyTorch's global generator."""
    settings = {
        "qformer": {
            "vocab_size": len(tokenizer),
            "hidden_size": hidden_size,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden_size,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "max_position_embeddings": max_text_tokens,
            "pad_token_id": tokenizer.pad_token_id,
            "cross_attention_frequency": 2,
            # BLIP-2 has 0.02 at width 768; at this width hardly anything would reach the tokens.
            "initializer_range": 0.6 * hidden_size**-0.5,
            "encoder_hidden_size": vision_config.vision_width,
        },
        "vision": small_settings(vision_config),
        "queries": queries,
        "max_text_tokens": max_text_tokens,
        "centered": True,
    }
    return QFormerFusion(settings, tokenizer, pixels, vision)
