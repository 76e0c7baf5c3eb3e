"""Calibrates recognition: `omgm sweep --recognition`."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from omgm.commands.common import print_json, profile_of, query_images_of
from omgm.commands.evaluate import selected_questions
from retriever.wording import counted

CACHE_BYTES = 64 * 2**20
"""Size of the image cache of both models: every image is used twice, and takes about 0.7 MiB at the paper's sizes."""


def calibrate(args: argparse.Namespace) -> None:
    """Asks every question with and without its gold entities, fits, and writes `profile.toml`."""
    profile = profile_of(args)
    questions, images = selected_questions(args), query_images_of(args)

    from evaluation.recognition import collect, report
    from evaluation.recognition_fit import CROP, fit
    from indexes.progress import progress_bar
    from omgm.opening import open_retriever, recognition_key
    from omgm.parts import build_encoder, build_fusion
    from omgm.profile import parse_overrides, write_profile
    from retriever.image_cache import ImageCache
    from retriever.step1_search import EntitySearch

    cache = ImageCache(CACHE_BYTES)
    encoder, fusion = build_encoder(profile, cache), build_fusion(profile, cache)
    retriever = open_retriever(profile, args.index, encoder=encoder, fusion=fusion)
    retriever.recognition = None  # whole images only
    for step in retriever.steps:
        if isinstance(step, EntitySearch):
            step.second_network = True  # a sign that the fit may weigh
    with progress_bar(total=len(questions), desc="calibrate", unit="question", shown=not args.json) as bar:
        trials = list(collect(retriever, questions, images, done=bar.update))
    if not trials:
        raise ValueError(f"{images}: none of the questions' images can be read")
    threshold = profile.recognition.threshold
    recognition, quality = fit(trials, threshold), report(trials, threshold)
    inputs = retriever.index.manifest.inputs
    found = {
        "recognition.fitted_to": recognition_key(profile, encoder, fusion, inputs.image_keys, inputs.tokens),
        "recognition.general": False,
        "recognition.threshold": recognition.threshold,
        "recognition.crop_threshold": max(CROP, recognition.threshold),
        "recognition.bias": recognition.bias,
        **{f"recognition.{name}": value for name, value in asdict(recognition.weights).items()},
    }
    args.out.mkdir(parents=True, exist_ok=True)
    written = write_profile(args.out, args.profile, parse_overrides(args.overrides) | found)
    if args.json:
        print_json({"recognition": found, "report": asdict(quality), "profile": str(written)})
        return
    asked = counted(quality.n, "question")
    print(f"on images that it was not fitted to ({asked}, each with and without its gold entity):")
    print(f"  answered, of what the index holds            {quality.answered:.3f}")
    print(f"  declined, of what it does not hold           {quality.declined:.3f}")
    print(f"  wrong entity, of the answered                {quality.wrong:.3f}")
    print(f"use it with --profile {written}")
