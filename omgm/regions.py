"""Makes what proposes regions of an image to agents: a detector, or the encoder's feature map."""

from __future__ import annotations

from omgm.parts import model_folder, placement
from omgm.settings import Profile
from retriever.models.grounding import load_grounding
from retriever.protocols import DualEncoder, LocalEncoder
from search_agents.proposals import detected_regions, map_regions
from search_agents.regions import ProposeRegions


def can_propose(profile: Profile, encoder: DualEncoder) -> bool:
    """Returns whether regions can be proposed: with the profile's detector, or from the encoder's feature map."""
    return bool(profile.regions.model) or isinstance(encoder, LocalEncoder)


def build_proposer(profile: Profile, encoder: DualEncoder) -> ProposeRegions:
    """Loads the region proposer for agents.

    Args:
        profile: The profile.
        encoder: Its model of step 1, whose feature map is used if `regions.model` is not set.

    Raises:
        ValueError: The model is missing, or the encoder has no feature map.
    """
    settings = profile.regions
    if not settings.model:
        cells_of = encoder.feature_map if isinstance(encoder, LocalEncoder) else None
        if cells_of is None:
            raise ValueError("this encoder has no feature map to propose regions from; set regions.model")
        return map_regions(cells_of, settings.most)
    device, dtype = placement(profile)
    detect = load_grounding(
        model_folder(profile, "regions"),
        settings.labels,
        box_threshold=settings.box_threshold,
        text_threshold=settings.text_threshold,
        device=device,
        dtype=dtype,
    )
    return detected_regions(detect, settings.most)
