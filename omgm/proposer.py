"""What proposes regions of an image to agents, as a profile says."""

from __future__ import annotations

from omgm.parts import model_folder, placement
from omgm.settings import Profile
from retriever.models.encoder import ClipEncoder
from retriever.models.feature_map import feature_map
from retriever.models.grounding import load_grounding
from retriever.protocols import DualEncoder
from search_agents.proposals import detected_regions, map_regions
from search_agents.regions import ProposeRegions


def can_propose(profile: Profile, encoder: DualEncoder) -> bool:
    """Returns whether regions can be proposed: with the profile's detector, or from the encoder's feature map."""
    return bool(profile.regions.model) or isinstance(encoder, ClipEncoder)


def build_proposer(profile: Profile, encoder: DualEncoder) -> ProposeRegions:
    """Loads the region proposer for agents.

    Args:
        profile: The profile.
        encoder: Its model of step 1, whose feature map is used if `regions.model` is not set.

    Raises:
        ValueError: The model is missing, or the encoder has no feature map.
    """
    settings, (device, dtype) = profile.regions, placement(profile)
    if not settings.model:
        if not isinstance(encoder, ClipEncoder):
            raise ValueError("this encoder has no feature map to propose regions from; set regions.model")
        return map_regions(feature_map(encoder), settings.most)
    detect = load_grounding(
        model_folder(profile, "regions"),
        settings.labels,
        box_threshold=settings.box_threshold,
        text_threshold=settings.text_threshold,
        device=device,
        dtype=dtype,
    )
    return detected_regions(detect, settings.most)
