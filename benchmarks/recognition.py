r"""Fits recognition on several data sets at once, as was done for the embedded profile.

    python -m benchmarks.recognition --profile embedded --threshold 0.3 \
        --set-of world/index evqa world/questions.csv world/queries \
        --set-of coins/index plain coins/bare.jsonl coins/queries

Each data set has its own index, built with the profile. `omgm sweep --recognition` fits to one data set; recognition
for images of any kind must be fitted to several, because the scores of unknown things differ between kinds of things.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.frame import arguments
from evaluation.datasets import load
from evaluation.recognition import collect
from evaluation.recognition_fit import FOLDS, Trial, fit
from omgm.opening import open_retriever, recognition_key
from omgm.parts import build_encoder, build_fusion
from omgm.profile import load_profile
from retriever.image_cache import ImageCache

THRESHOLDS = [round(0.05 * step, 2) for step in range(4, 13)]
CACHE_BYTES = 2**27


def main() -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--threshold", type=float, default=0.5, metavar="P", help="(%(default)s)")
    parser.add_argument(
        "--set-of",
        dest="sets",
        action="append",
        required=True,
        nargs=4,
        metavar=("INDEX", "DATASET", "QUERIES", "IMAGES"),
        help="an index, and questions with their images; may be repeated",
    )
    args = parser.parse_args()
    profile = load_profile(args.profile)
    trials: dict[str, list[Trial]] = {}
    keys = set()
    for index, dataset, queries, images in args.sets:
        cache = ImageCache(CACHE_BYTES)  # one per data set, since image ids are only unique within one
        encoder, fusion = build_encoder(profile, cache), build_fusion(profile, cache)
        retriever = open_retriever(profile, Path(index), encoder=encoder, fusion=fusion)
        retriever.steps = [step for step in retriever.steps if step.name != "step3"]
        inputs = retriever.index.manifest.inputs
        keys.add(recognition_key(profile, encoder, fusion, inputs.image_keys, inputs.tokens))
        trials[queries] = list(collect(retriever, list(load(dataset, queries)), Path(images)))
        print(f"{queries}: {len(trials[queries])} trials", flush=True)
    if len(keys) > 1:
        parser.error("the indexes have different numbers of image keys or different tokens")
    every = [trial for own in trials.values() for trial in own]
    recognition = fit(every, args.threshold)
    fitted = {"fitted_to": keys.pop(), "threshold": args.threshold, "bias": recognition.bias}
    print(json.dumps(fitted | asdict(recognition.weights), indent=1))
    print("share declined if not in the index / answered if in the index, on images it was not fitted to")
    print("threshold", *THRESHOLDS)
    halves = [fit([trial for trial in every if trial.fold != fold]) for fold in range(FOLDS)]
    for name, own in trials.items():
        shares = []
        for threshold in THRESHOLDS:
            given = [(trial.held, halves[trial.fold].of(trial.signs) >= threshold) for trial in own]
            held, absent = ([passed for is_held, passed in given if is_held == side] for side in (True, False))
            shares.append(f"{1 - sum(absent) / len(absent):.3f}/{sum(held) / len(held):.3f}")
        print(name, *shares)


if __name__ == "__main__":
    main()
