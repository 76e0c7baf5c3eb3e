"""Measure again which images count as recognized, as a build does, after many changes."""

from __future__ import annotations

import argparse

from omgm.commands.common import add_index, add_json, add_profile, existing, profile_of, report
from retriever.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_index(parser)
    add_json(parser)
    add_profile(parser)


def run(args: argparse.Namespace) -> None:
    """Calibrates the index and prints on how many images."""
    from indexes.progress import bars
    from indexes.store.manifest import RECOGNITION
    from omgm.opening import open_retriever
    from omgm.own_recognition import read_recognition
    from omgm.parts import build_encoder, build_fusion
    from omgm.self_calibration import calibrate_index
    from retriever.models.bm25 import BM25

    existing(args.index, "--index")
    profile = profile_of(args)
    if not (profile.recognition.fitted_to and profile.recognition.general):
        raise ValueError(f"profile {profile.name}: recognition.general is not set, so an index's own would not be used")
    encoder, fusion = build_encoder(profile), build_fusion(profile)
    index = open_retriever(profile, args.index, encoder=encoder, fusion=fusion, reranker=BM25(), live=True).index
    with bars(not args.json):
        calibrate_index(profile, args.index, index, encoder, fusion)
    found = read_recognition(args.index)
    if found is None:
        report(args, {"calibrated": False}, f"{args.index}: too few images to calibrate recognition")
        return
    text = f"{args.index / RECOGNITION}: fitted to {counted(found['sampled'], 'image')}"
    report(args, {"calibrated": True, **found}, text)
