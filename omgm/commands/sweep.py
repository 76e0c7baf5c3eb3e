"""Tune alpha and beta, or with --recognition when an image counts as recognized; writes a profile."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path

from omgm.commands.common import (
    check_known,
    describe,
    existing,
    print_json,
    profile_of,
    query_images_of,
    training_notes,
)
from omgm.commands.evaluate import add_inputs, selected_questions
from retriever.wording import counted

GRID = "0:1:0.05"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_inputs(parser)
    for name in ("alphas", "betas"):
        parser.add_argument(f"--{name}", type=grid, metavar="GRID", help=f"0.1,0.5,0.9 or FROM:TO:STEP ({GRID})")
    parser.add_argument(
        "--report-queries", type=Path, metavar="FILE", help="another split to report on, not used for tuning"
    )
    parser.add_argument(
        "--recognition",
        action="store_true",
        help="instead of alpha and beta, fit when an image counts as recognized, and decline those recognized with a "
        "lower probability than recognition.threshold",
    )


def grid(text: str) -> list[float]:
    """Parses `a,b,c` or `from:to:step`, both ends included."""
    try:
        if ":" not in text:
            numbers = [float(part) for part in text.split(",")]
        else:
            start, stop, step = map(float, text.split(":"))
            numbers = [round(start + i * step, 6) for i in range(round((stop - start) / step) + 1)]
    except (ValueError, ArithmeticError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither like 0.1,0.5 nor like 0:1:0.05") from error
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r}: all numbers must be between 0 and 1")
    return numbers


def run(args: argparse.Namespace) -> None:
    """Runs retrieval once per split, fuses the scores with every alpha and beta, and prints the tables."""
    if args.recognition:
        if args.alphas or args.betas or args.report_queries is not None:
            raise ValueError("--alphas, --betas and --report-queries do not apply to --recognition; remove them")
        _calibrate(args)
        return
    profile = profile_of(args)
    questions, images = {"tune": selected_questions(args)}, query_images_of(args)
    if args.report_queries is not None:
        held_out = argparse.Namespace(**vars(args) | {"queries": existing(args.report_queries, "--report-queries")})
        questions["report"] = selected_questions(held_out)

    from evaluation.image_overlap import ImageOverlap, images_of, note_images, read_images
    from evaluation.records import RECORDS, read_records
    from evaluation.report import write_report
    from evaluation.run import evaluate
    from evaluation.summary import check_any, counts_line
    from evaluation.sweep import as_text, sweep
    from omgm.identity import used
    from omgm.opening import open_retriever
    from omgm.profile import parse_overrides
    from omgm.written_profile import write_profile

    retriever = open_retriever(profile, args.index, verify=True)
    for selected in questions.values():
        check_known(retriever.index, selected)
    contents = read_images((one.image_id for part in questions.values() for one in part), images).names()
    counts = {}
    for split, selected in questions.items():
        known = images_of(selected, images)
        metrics = evaluate(
            retriever,
            None,
            selected,
            images,
            args.out / split,
            dataset=args.dataset,
            profile_name=profile.name,
            settings=profile.model_dump(mode="json"),
            index_info=describe(retriever.index),
            depends_on=used(profile, retriever.index, answers=False),
            further=ImageOverlap.of(selected, known, retriever.index, args.index, training_notes(args, profile)),
            overwrite=args.overwrite,
        )
        write_report(args.out / split, images)
        note_images(args.out / split, known)
        check_any(metrics)
        counts[split] = counts_line(metrics)
    report = "report" in questions
    table = sweep(
        read_records(args.out / "tune" / RECORDS),
        args.alphas or grid(GRID),
        args.betas or grid(GRID),
        tune_split=str(args.queries),
        words=profile.search.words_weight,
        report=read_records(args.out / "report" / RECORDS) if report else None,
        report_split=str(args.report_queries) if report else None,
        out=args.out,
        contents=contents,
    )
    chosen = {"fusion.alpha": table["alpha"]} | ({} if table["beta"] is None else {"sections.beta": table["beta"]})
    if table["words"] != profile.search.words_weight:
        chosen["search.words_weight"] = table["words"]
    pair = chosen | {"fusion.tuned_for": profile.fusion.score_mode}
    tuned = write_profile(args.out, args.profile, parse_overrides(args.overrides) | pair)
    seen = read_images((one.image_id for one in questions["tune"]), images)
    note_images(args.out, seen, training_notes(args, profile))
    if args.json:
        print_json(table)
        return
    print(as_text(table))
    for split, line in counts.items():
        if line:
            print(f"{split}: {line}")
    found = ", ".join(f"{key} = {value:g}" for key, value in chosen.items())
    print(f"{found}: in the middle of the values within one standard error of the best; use it with --profile {tuned}")
    if table["beta"] is None:
        print("sections.beta stays as it is: no question names its evidence section")


CACHE_BYTES = 64 * 2**20
"""Size of the image cache of both models: every image is used twice, and takes about 0.7 MiB at the paper's sizes."""


def _calibrate(args: argparse.Namespace) -> None:
    """Asks every question with and without its gold entities, fits recognition, and writes `profile.toml`."""
    profile = profile_of(args)
    questions, images = selected_questions(args), query_images_of(args)

    from evaluation.image_overlap import note_images, read_images
    from evaluation.recognition import CROP, Trial, collect, fit
    from evaluation.recognition_report import report, with_apart
    from indexes.progress import progress_bar
    from omgm.kinds.steps import all_signs
    from omgm.opening import open_retriever, recognition_key
    from omgm.parts import build_encoder, build_fusion
    from omgm.profile import parse_overrides
    from omgm.written_profile import write_profile
    from retriever.image_cache import ImageCache
    from retriever.recognition import APART, Signs
    from retriever.step2_rerank import FusionRerank

    cache = ImageCache(CACHE_BYTES)
    encoder, fusion = build_encoder(profile, cache), build_fusion(profile, cache)
    retriever = open_retriever(profile, args.index, encoder=encoder, fusion=fusion, verify=True)
    check_known(retriever.index, questions)
    retriever.recognition = None  # whole images only
    all_signs(retriever, encoder)
    second = next((step for step in retriever.steps if isinstance(step, FusionRerank)), None)
    if second is None:
        raise ValueError(f'profile {profile.name}: steps: --recognition needs the step "fusion"')
    verify, second.verify = second.verify, None
    seen = read_images((one.image_id for one in questions), images)
    contents = seen.names()  # copies belong to the same half of the data

    def asked(desc: str) -> list[Trial]:
        with progress_bar(total=len(questions), desc=desc, unit="question", shown=not args.json) as bar:
            trials = list(collect(retriever, questions, images, done=bar.update))
        return [replace(trial, image_id=contents.get(trial.image_id, trial.image_id)) for trial in trials]

    trials = asked("calibrate")
    if not trials:
        raise ValueError(f"{images}: none of the questions' images can be read")
    threshold = profile.recognition.threshold
    recognition, unsure = fit(trials, threshold), list[Trial]()
    if retriever.refine is not None or verify is not None:
        retriever.recognition, second.verify, second.is_unsure = recognition, verify, recognition.is_unsure
        unsure = asked("calibrate what is unsure")
    known = Signs(**{name: getattr(profile.recognition, name) for name in APART})
    recognition, quality = with_apart(unsure, recognition, known), report(trials, threshold, unsure, known)
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
    note_images(args.out, seen, training_notes(args, profile))
    if args.json:
        print_json({"recognition": found, "report": asdict(quality), "profile": str(written)})
        return
    count = counted(quality.n, "question")
    print(f"on images that it was not fitted to ({count}, each with and without its gold entity):")
    print(f"  answered, of what the index holds            {quality.answered:.3f}")
    print(f"  declined, of what it does not hold           {quality.declined:.3f}")
    print(f"  wrong entity, of the answered                {quality.wrong:.3f}")
    print(f"use it with --profile {written}")
