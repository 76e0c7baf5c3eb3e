"""The models of steps 1 and 2: CLIP-type encoders and BLIP-2's Q-Former."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from omgm.downloads.hub import local_folder
from omgm.parts import loaded, placement
from omgm.settings import EncoderSettings, Profile
from retriever.image_cache import ImageCache
from retriever.models.encoder import ClipEncoder, encoder_fingerprint
from retriever.models.folder import folder_fingerprint
from retriever.models.image_tower import ImageTower, tower_fingerprint
from retriever.models.qformer import QFormerFusion
from retriever.models.qwen3_vl import Qwen3VLEncoder, qwen3_vl_fingerprint
from retriever.protocols import DualEncoder, FusionEncoder


def clip(profile: Profile, cache: ImageCache | None = None) -> DualEncoder:
    """Loads a CLIP-type encoder, whose kind the files of its folder determine."""
    settings = profile.encoder
    load = partial(
        ClipEncoder.load, long_texts=settings.long_texts, key_sizes=settings.key_sizes, fused=True, fp8=settings.fp8
    )
    encoder = loaded(profile, "encoder", load, *placement(profile))
    encoder.cache = cache
    if settings.image_model:
        _join(profile, encoder)
    if profile.cuda_graphs:
        encoder.use_cuda_graphs()
    return encoder


def _join(profile: Profile, encoder: ClipEncoder) -> None:
    """Joins an encoder with the network that the profile names.

    Raises:
        ValueError: The network is missing, or the encoder has a second one of its own.
    """
    where = f"profile {profile.name}: encoder.image_model"
    if encoder.photos:
        raise ValueError(f"{where}: {profile.encoder.model} has a second network of its own; set it to an empty text")
    try:
        folder = local_folder(profile.encoder.image_model, options=profile.options)
        encoder.photos = ImageTower.load(folder, *placement(profile), profile.encoder.image_share)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    encoder.fingerprint += encoder.photos.fingerprint


def encoder_identity(settings: EncoderSettings, folder: Path) -> str | None:
    """Returns the fingerprint of an encoder without loading it, `None` if it is of a kind of another package.

    Args:
        settings: Those of the profile.
        folder: The folder of its model.

    Raises:
        ValueError: A model is missing.
    """
    if settings.kind == "qwen3_vl":
        return qwen3_vl_fingerprint(folder_fingerprint(folder))
    if settings.kind != "clip":
        return None
    own = encoder_fingerprint(folder, settings.long_texts, settings.key_sizes)
    if not settings.image_model:
        return own
    return own + tower_fingerprint(folder_fingerprint(local_folder(settings.image_model)), settings.image_share)


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
