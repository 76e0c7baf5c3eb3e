"""Calibrates recognition for an index when it is built, without labels.

Thumbnails of the index are photographed again by code, flat and waving: asked of the whole index they should be
recognized, and asked without their own entity they should not. Entities that show the same image are left out together.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from evaluation.recognition import CROP, FOLDS, Trial, fit, logit, probability
from indexes.image_copies import KnownImages
from indexes.live.following import FollowingIndex
from indexes.progress import progress_bar
from indexes.store.index import Index
from indexes.store.manifest import RECOGNITION
from omgm.kinds.steps import all_signs, fusion_step, search_step
from omgm.opening import recognition_key
from omgm.own_recognition import images_in, read_recognition, write_recognition
from omgm.settings import STEPS, Profile
from omgm.steps import StepParts
from retriever.borders import trim
from retriever.image_cache import ImageCache, set_content
from retriever.images import load_image
from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.pipeline import Retriever
from retriever.protocols import DualEncoder, FusionEncoder, Step
from retriever.recognition import APART, SIGNS, Recognition, signs_of
from retriever.types import Options, Query, RetrievalResult
from training.augment import vary

logger = logging.getLogger(__name__)

MOST, FEWEST = 200, 40
"""Most entities that are photographed again, each twice, and fewest; with fewer, the profile's recognition holds."""
DECLINED, KEPT, LEAST, AT = 0.92, 0.94, 0.8, 0.4
"""Share of what the index does not hold that is declined at this threshold, unless less than `KEPT` of what is right
would be kept: an index of things that look alike declines less, but never less than `LEAST`. If both can be had, the
threshold is halfway between. All are measured on entities that the fit has not seen, by images alone; words and
keypoints lift what is right, so the embedded profile declines below 0.5."""
RIDGE = 0.01
_SIDE, _STORED, _BATCH = 256, 320, 16
_CACHE_BYTES = 2**26
"""For a batch of images: larger models compute more from each."""


class Curve(NamedTuple):
    """What a threshold would do, measured on entities that the fit has not seen.

    Attributes:
        declined: Share of images of entities left out that are declined.
        kept: Share of images whose entity is found that are not declined.
        logit: The threshold, as the logarithm of the odds.
    """

    declined: float
    kept: float
    logit: float


def calibrate_index(profile: Profile, folder: Path, index: Index, encoder: DualEncoder, fusion: FusionEncoder) -> None:
    """Writes `recognition.json` into an index's folder, unless it is there and belongs to this content.

    Nothing is written for fewer than `FEWEST` entities with an image, or for a profile with other steps.
    """
    if profile.steps != STEPS:
        return
    inputs = index.manifest.inputs
    made_for = {
        "fitted_to": recognition_key(profile, encoder, fusion, inputs.image_keys, inputs.tokens),
        "content": index.fingerprint,
        "changes": index.changes if isinstance(index, FollowingIndex) else 0,
        "threshold": AT,
        "shares": [DECLINED, KEPT, LEAST],
        # Of a file without them, the signs it lacks have no weight; those apart have the profile's.
        "signs": [name for name in SIGNS if name not in APART],
    }
    if made_for.items() <= (read_recognition(folder) or {}).items():
        return
    (folder / RECOGNITION).unlink(missing_ok=True)
    shown = [row for row in _rows(index) if index.image_path(row) is not None][:MOST]
    if len(shown) < FEWEST:
        return
    step_parts = StepParts(profile, index, encoder, fusion)
    steps: list[Step] = [search_step(step_parts), fusion_step(step_parts)]
    retriever = Retriever(steps, index, trim_borders=profile.search.trim_borders, device=index.device)
    all_signs(retriever, encoder)
    bars = progress_bar(total=len(shown), desc="calibrate", unit="image")
    with _caching(encoder, fusion), bars as bar:
        trials: list[Trial] = []
        for start in range(0, len(shown), _BATCH):
            part = shown[start : start + _BATCH]
            trials += _trials(retriever, index, part, start)
            bar.update(len(part))
    try:
        recognition, curve = _fitted(trials)
    except ValueError as error:  # retrieval gets all of them right, or all of them wrong
        logger.warning("%s: recognition was not calibrated: %s", folder, error)
        return
    found: dict[str, Any] = {
        **made_for,
        "entities": images_in(index),
        "sampled": len(shown),
        "bias": recognition.bias,
        "crop_threshold": recognition.crop_threshold,
        "weights": {name: value for name, value in asdict(recognition.weights).items() if name not in APART},
        "curve": [one._asdict() for one in curve],
    }
    write_recognition(folder, found)


@contextmanager
def _caching(*models: object) -> Iterator[None]:
    """Lets models cache what they compute from images, each of which is asked twice."""
    caching = [model for model in models if isinstance(model, ClipEncoder | QFormerFusion)]
    before = [model.cache for model in caching]
    cache = ImageCache(_CACHE_BYTES)
    for model in caching:
        model.cache = cache
    try:
        yield
    finally:
        for model, own in zip(caching, before, strict=True):
            model.cache = own


def _rows(index: Index) -> Iterator[int]:
    """Yields rows of entities in an order drawn once, changes included."""
    if not isinstance(index, FollowingIndex):
        yield from _sample(len(index))
        return
    version = index.version
    gone, new = set(version.removed.values()), [entry.row for entry in version.entries.values()]
    for number in _sample(len(version.base) + len(new)):
        if number >= len(version.base):
            yield new[number - len(version.base)]
        elif number not in gone:
            yield version.start + number


def _sample(entities: int) -> list[int]:
    """Returns rows in an order drawn once for every number of entities, at most enough to find `MOST` images."""
    rng = np.random.default_rng(0)
    if entities <= 20 * MOST:
        return [int(row) for row in rng.permutation(entities)]
    return list(dict.fromkeys(rng.integers(0, entities, 20 * MOST).tolist()))


def photographed_again(images: Sequence[Image.Image], seed: int, waving: bool = False) -> list[Image.Image]:
    """Returns images cropped, turned and lit as a hand-held camera would, in RGB; if `waving`, not flat either."""
    generator = torch.Generator().manual_seed(seed)
    varied = vary(PixelPreparation(_STORED).to_uint8(images), _SIDE, generator)
    varied = bent(varied, generator) if waving else varied
    return [Image.fromarray((one.permute(1, 2, 0) * 255).byte().numpy()) for one in varied]


def bent(images: Tensor, generator: torch.Generator) -> Tensor:
    """Shows each image in perspective and waving, with its light; float [B, 3, side, side] in 0..1, as the result."""
    count, side = len(images), images.shape[-1]

    def uniform(low: float, high: float) -> Tensor:
        return torch.empty(count, 1, 1).uniform_(low, high, generator=generator)

    steps = (torch.arange(side) + 0.5) / side * 2 - 1
    y, x = torch.meshgrid(steps, steps, indexing="ij")
    depth = 1 + uniform(-0.2, 0.2) * x + uniform(-0.2, 0.2) * y
    folds = functional.interpolate(
        torch.randn(count, 2, 3, 3, generator=generator) * 0.05, (side, side), mode="bicubic", align_corners=True
    )
    slant, speed = uniform(-0.5, 0.5), math.pi * uniform(1, 2.5)
    wave = torch.sin(speed * (x * torch.cos(slant) + y * torch.sin(slant)) + uniform(0, 2 * math.pi))
    wave = uniform(0, 0.035) * wave
    places = torch.stack([x / depth, y / depth], -1) + folds.permute(0, 2, 3, 1) + wave[..., None]
    moved = functional.grid_sample(images, places, mode="bilinear", padding_mode="reflection", align_corners=False)
    return (moved * (1 + 2.5 * wave[:, None])).clamp(0, 1)


def _trials(retriever: Retriever[Index], index: Index, rows: Sequence[int], seed: int) -> Iterator[Trial]:
    paths = [index.image_path(row) for row in rows]
    contents = [path.read_bytes() if path else b"" for path in paths]
    shown = [load_image(content) for content in contents]
    flat = [*map(trim, shown)] if retriever.trim_borders else shown  # as a thing fills the frame; a flag is whole
    images = photographed_again(flat, seed) + photographed_again(shown, seed + MOST, waving=True)
    for number, image in enumerate(images):
        set_content(image, f"{seed} {number}")
    queries = [Query(image, "", str(row)) for image, row in zip(images, [*rows, *rows], strict=True)]
    whole = retriever.retrieve(queries)
    same = _same(index, whole)
    without = [replace(query, options=Options(exclude=tuple(same[query.id]))) for query in queries]
    for results, held in ((whole, True), (retriever.retrieve(without), False)):
        for query, result in zip(queries, results, strict=True):
            signs = signs_of(result.candidates)
            if signs is not None:
                yield Trial(query.id, signs, held, held and result.candidates[0].row in same[query.id])


def _same(index: Index, results: Sequence[RetrievalResult]) -> dict[str, set[int]]:
    """Returns, for each query named after an entity's row, that entity and the candidates that show the same image."""
    pairs = {(result.query_id, str(candidate.row)) for result in results for candidate in result.candidates}
    rows = {result.query_id: {int(result.query_id)} for result in results}
    images = KnownImages.of({row: index.image_path(int(row)) for row in {*rows, *(other for _, other in pairs)}})
    for row, other in images.same(images, pairs):
        rows[row].add(int(other))
    return rows


def _fitted(trials: Sequence[Trial]) -> tuple[Recognition, list[Curve]]:
    """Fits recognition so that `AT` declines `DECLINED`, or keeps `KEPT`; returns it with the curve of thresholds."""
    halves = [fit([one for one in trials if one.fold != fold], ridge=RIDGE) for fold in range(FOLDS)]
    logits = np.array([logit(halves[one.fold].of(one.signs)) for one in trials])
    right = np.array([one.right for one in trials])
    held = np.array([one.held for one in trials])
    curve = []
    for share in (0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.95, 0.98):
        at = float(np.quantile(logits[~held], share))
        curve.append(Curve(share, float((logits[right] >= at).mean()), at))
    least, declining = (float(np.quantile(logits[~held], share)) for share in (LEAST, DECLINED))
    keeping = float(np.quantile(logits[right], 1 - KEPT))
    boundary = max(min((declining + keeping) / 2, keeping), least)
    everything, shift = fit(trials, AT, ridge=RIDGE), logit(AT) - boundary
    crops = max(AT, probability(logit(CROP) + shift))
    return replace(everything, bias=everything.bias + shift, crop_threshold=crops), curve
