"""The models of steps 1 and 2: CLIP-type encoders and BLIP-2's Q-Former."""

from __future__ import annotations

from functools import partial

from omgm.parts import loaded, placement
from omgm.settings import Profile
from retriever.image_cache import ImageCache
from retriever.models.encoder import ClipEncoder
from retriever.models.qformer import QFormerFusion
from retriever.models.qwen3_vl import Qwen3VLEncoder
from retriever.protocols import DualEncoder, FusionEncoder


def clip(profile: Profile, cache: ImageCache | None = None) -> DualEncoder:
    """Loads a CLIP-type encoder, whose kind the files of its folder determine."""
    settings = profile.encoder
    load = partial(
        ClipEncoder.load, long_texts=settings.long_texts, key_sizes=settings.key_sizes, fused=True, fp8=settings.fp8
    )
    encoder = loaded(profile, "encoder", load, *placement(profile))
    encoder.cache = cache
    if profile.cuda_graphs:
        encoder.use_cuda_graphs()
    return encoder


def qwen3_vl(profile: Profile, cache: ImageCache | None = None) -> DualEncoder:
    """Loads a Qwen3-VL-Embedding."""
    encoder = loaded(profile, "encoder", Qwen3VLEncoder.load, *placement(profile))
    encoder.cache = cache
    return encoder


def qformer(profile: Profile, cache: ImageCache | None = None) -> FusionEncoder:
    """Loads a Q-Former."""
    fusion = loaded(profile, "fusion", partial(QFormerFusion.load, fused=True), *placement(profile))
    fusion.cache = cache
    if profile.cuda_graphs:
        fusion.use_cuda_graphs()
    return fusion
