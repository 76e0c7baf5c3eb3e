"""Fits the embedded profile's recognition for indexes of few entities.

    python -m benchmarks.few_entities INDEX [INDEX ...]

Small indexes are made of each given one by leaving out all but 1 to 39 drawn entities. Their images are photographed
again by code, as in `omgm.self_calibration`, and so are those of entities left out and of other indexes. Prints the
coefficients, and what they keep and decline if they are fitted to the other indexes only.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from benchmarks.frame import arguments
from evaluation.recognition import CROP, Trial, fit, logit, probability
from indexes.store.index import Index
from omgm.opening import all_signs, recognition_key, search_steps
from omgm.parts import build_encoder, build_fusion
from omgm.profile import load_profile
from omgm.self_calibration import AT, DECLINED, KEPT, RIDGE, photographed_again
from retriever.image_cache import ImageCache, set_content
from retriever.images import load_image
from retriever.pipeline import Retriever
from retriever.recognition import Recognition, signs_of
from retriever.types import Options, Query

SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 26, 30, 34, 39)
MOST, INSIDE, TWINS, STRANGERS = 80, 8, 8, 4
"""Images of each index, and at most so many questions about each small index: about what it has, about what the given
index has beside it, and about what another one has."""
CACHE_BYTES = 2**29


class Shot(NamedTuple):
    """A photograph by code, and the row of its entity."""

    row: int
    image: Image.Image


def shots_of(index: Index, name: str) -> list[Shot]:
    """Returns a flat and a waving photograph of at most `MOST` images of an index, drawn once."""
    rows = [row for row in range(len(index)) if index.image_path(row) is not None]
    rows = random.Random(name).sample(rows, min(MOST, len(rows)))
    images = [load_image(path) for row in rows if (path := index.image_path(row))]
    shots = [
        Shot(row, image)
        for start in range(0, len(rows), 16)
        for waving in (False, True)
        for row, image in zip(
            rows[start : start + 16], photographed_again(images[start : start + 16], start, waving), strict=True
        )
    ]
    for number, shot in enumerate(shots):
        set_content(shot.image, f"{name} {number}")
    return shots


def trials_of(
    retriever: Retriever[Index], own: Sequence[Shot], others: Sequence[Sequence[Shot]], rng: random.Random
) -> Iterator[Trial]:
    """Yields the trials of small indexes."""
    rows = sorted({shot.row for shot in own})
    for entities in SIZES:
        for _ in range(4 if entities < 10 else 2):
            kept = set(rng.sample(rows, min(entities, len(rows) // 2)))
            inside = [shot for shot in own if shot.row in kept]
            asked = rng.sample(inside, min(INSIDE, len(inside)))
            asked += rng.sample([shot for shot in own if shot.row not in kept], TWINS)
            asked += [shot._replace(row=-1) for shot in rng.sample(rng.choice(others), STRANGERS)]
            left_out = tuple(row for row in range(len(retriever.index)) if row not in kept)
            queries = [Query(shot.image, "", str(shot.row), Options(exclude=left_out)) for shot in asked]
            for shot, result in zip(asked, retriever.retrieve(queries), strict=True):
                if signs := signs_of(result.candidates):
                    held = shot.row in kept
                    yield Trial(str(shot.row), signs, held, held and result.candidates[0].row == shot.row)


def fitted(trials: Sequence[Trial]) -> Recognition:
    """Fits the signs; `AT` is between what declines `DECLINED` of the twins and what keeps `KEPT` of what is right."""
    everything = fit(trials, AT, ridge=RIDGE)
    logits = [logit(everything.of(one.signs)) for one in trials]
    twins = [at for at, one in zip(logits, trials, strict=True) if not one.held and one.image_id != "-1"]
    right = [at for at, one in zip(logits, trials, strict=True) if one.right]
    keeping = float(np.quantile(right, 1 - KEPT))
    shift = logit(AT) - min((float(np.quantile(twins, DECLINED)) + keeping) / 2, keeping)
    crops = max(AT, probability(logit(CROP) + shift))
    return replace(everything, bias=everything.bias + shift, crop_threshold=crops)


def main() -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("indexes", nargs="+", type=Path, metavar="INDEX")
    folders = parser.parse_args().indexes
    profile, cache = load_profile("embedded"), ImageCache(CACHE_BYTES)
    encoder, fusion = build_encoder(profile, cache), build_fusion(profile, cache)
    indexes = [Index.open(folder, image_weight=profile.search.image_weight) for folder in folders]
    shots = [shots_of(index, folder.name) for index, folder in zip(indexes, folders, strict=True)]
    found: list[list[Trial]] = []
    for number, index in enumerate(indexes):
        steps = search_steps(profile, index, encoder, fusion, None)
        retriever = Retriever(steps, index, trim_borders=profile.search.trim_borders)
        all_signs(retriever, encoder)
        others = [own for place, own in enumerate(shots) if place != number]
        found.append(list(trials_of(retriever, shots[number], others, random.Random(number))))
        print(f"{folders[number].name}: {len(found[-1])} trials", flush=True)
    recognition = fitted([trial for own in found for trial in own])
    inputs = indexes[0].manifest.inputs
    key = recognition_key(profile, encoder, fusion, inputs.image_keys, inputs.tokens)
    print(json.dumps({"fitted_to": key, **asdict(recognition)}, indent=1))
    for number, folder in enumerate(folders):
        others_only = fitted([trial for place, own in enumerate(found) if place != number for trial in own])
        kept = [others_only.of(one.signs) >= AT for one in found[number] if one.right]
        declined = [others_only.of(one.signs) < AT for one in found[number] if not one.held]
        print(f"{folder.name}: keeps {np.mean(kept):.3f}, declines {np.mean(declined):.3f}")


if __name__ == "__main__":
    main()
