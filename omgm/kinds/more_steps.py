"""Steps of newer papers that ask no chat model: manifold ranking, and a vision-language reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from indexes.live.reading import keys_of
from omgm.downloads.hub import local_folder
from omgm.parts import placement
from omgm.steps import StepParts
from retriever.manifold import Manifold
from retriever.models.qwen3_vl import Qwen3VLReranker
from retriever.picture_rerank import PictureRerank
from retriever.types import FloatArray

Count = Annotated[int, Field(ge=1)]


def manifold_step(parts: StepParts, keep: Count = 20) -> Manifold:
    """Makes the step `manifold`.

    Raises:
        ValueError: The index is in parts, which do not send keys.
    """
    index = parts.index
    if hasattr(index, "parts"):
        raise ValueError("the step manifold needs the keys of candidates, which stay with the parts; leave it out")
    manifest, dimension = index.manifest, parts.encoder.dimension
    count = 2 if manifest.inputs.candidates == "combined" else 1
    nothing = np.zeros((1, count * dimension), np.float32)

    def views(row: int) -> Sequence[FloatArray]:
        keys = keys_of(index, row)
        return np.split(keys[0] if len(keys) else nothing[0], count)

    return Manifold(parts.encoder, views, keep)


def rerank_vl_step(
    parts: StepParts, model: str, candidates: Count = 10, weight: Annotated[float, Field(ge=0, le=1)] = 0.5
) -> PictureRerank:
    """Makes the step `rerank-vl` with a Qwen3-VL-Reranker.

    Raises:
        ValueError: The model is not there, or damaged.
    """
    try:
        reranker = Qwen3VLReranker.load(local_folder(model, options=parts.profile.options), *placement(parts.profile))
    except ValueError as error:
        raise ValueError(f"profile {parts.profile.name}: steps: rerank-vl: model: {error}") from error
    return PictureRerank(reranker.score, parts.index, candidates, weight)
