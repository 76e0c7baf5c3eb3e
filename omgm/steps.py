"""Makes the steps that a profile lists, each of its kind (`omgm.kinds.steps`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import ValidationError, validate_call

from indexes.store.index import Index
from omgm.kinds import kind_of
from omgm.settings import Profile, StepSettings
from retriever.protocols import DualEncoder, FusionEncoder, Step, TextReranker
from retriever.recognition import Recognition, Signs

_SCORING = ("fusion", "sections", "identify", "inspect", "rewrite", "manifold", "rerank-vl")


@dataclass(frozen=True)
class StepParts:
    """What steps are made of.

    Attributes:
        profile: The profile.
        index: The open index.
        encoder: The encoder of images.
        fusion: The encoder of images with texts.
        reranker: Scores texts; `None` if sections are not reranked.
        recognition: Estimates whether an image is recognized, by signs that the steps compute.
        columns: How to search the columns of the index, by their names (`indexes.store.columns.Column.search`).
    """

    profile: Profile
    index: Index
    encoder: DualEncoder
    fusion: FusionEncoder
    reranker: TextReranker | None = None
    recognition: Recognition | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def signs(self) -> Signs:
        """The weights of the signs that are needed."""
        return Signs() if self.recognition is None else self.recognition.weights


def build_steps(parts: StepParts) -> list[Step]:
    """Makes the steps of a profile.

    Raises:
        ValueError: A kind is unknown or refuses its settings, or no step finds candidates for the others; the message
            names the step.
    """
    if (first := parts.profile.steps[0].kind) in _SCORING:
        raise ValueError(
            f"profile {parts.profile.name}: steps.0: {first!r} only scores candidates; begin with a step that finds "
            'them, such as "search"'
        )
    return [build_step(parts, settings, f"steps.{number}") for number, settings in enumerate(parts.profile.steps)]


def build_step(parts: StepParts, settings: StepSettings, place: str) -> Step:
    """Makes one step; a `ValueError` names its `place` in the profile."""
    kind = validate_call(partial(kind_of("omgm.steps", settings.kind), parts))
    try:
        step: Step = kind(**settings.model_extra or {})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ValueError(f"profile {parts.profile.name}: {place} ({settings.kind}): {problems}") from error
    return step
