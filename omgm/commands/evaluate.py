"""Evaluate every step and the answers, or a search agent, on the questions of a data set."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands import evaluate_agent
from omgm.commands.agents import refuse_without_mode
from omgm.commands.common import (
    add_index,
    add_json,
    add_overwrite,
    add_profile,
    add_questions,
    describe,
    existing,
    load_questions,
    print_json,
    profile_of,
    query_images_of,
    training_notes,
)
from omgm.commands.numbers import positive

if TYPE_CHECKING:
    from evaluation.datasets import Question
    from evaluation.given import Rankings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_inputs(parser, images=False)
    parser.add_argument("--no-answers", action="store_true", help="measure retrieval alone")
    parser.add_argument(
        "--step1",
        metavar="FILE",
        help="take step 1's candidates from a file of retrieval results, or the correct entities (gold)",
    )
    parser.add_argument(
        "--step1-order",
        choices=("list", "scores", "distances"),
        help="what puts the candidates of --step1 in order, if the file contradicts itself: their place in the list, "
        "scores (higher is better) or distances (lower is better)",
    )
    parser.add_argument(
        "--step1-partial",
        action="store_true",
        help="accept a --step1 file of which less than half is in the index, or that has candidates for less than half "
        "of the questions",
    )
    parser.add_argument("--bem", type=Path, metavar="DIR", help="E-VQA's learned judge of answers (docs/evaluation.md)")
    parser.add_argument("--batch-size", type=positive, default=16, metavar="N", help="queries per batch (%(default)s)")
    evaluate_agent.add_arguments(parser)


def add_inputs(parser: argparse.ArgumentParser, *, images: bool = True) -> None:
    """Adds the arguments that `evaluate` and `sweep` share; `images` says whether `--query-images` is required."""
    add_profile(parser)
    add_index(parser)
    add_questions(parser, images=images)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="output folder for metrics and records")
    parser.add_argument("--only-split", metavar="NAME", help="only the questions of this split of the file")
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N questions")
    add_overwrite(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluates retrieval and the generator, or an agent, and prints the main figures."""
    from evaluation.datasets.dataset import dataset_named

    if args.mode is not None or dataset_named(args.dataset).policy:
        if args.no_answers or args.bem is not None or args.step1 is not None:
            raise ValueError("--no-answers, --bem and --step1 do not apply to agents; remove them")
        evaluate_agent.run(args)
        return
    if args.step1 in (None, "gold") and (args.step1_order is not None or args.step1_partial):
        raise ValueError("--step1-order and --step1-partial say how to read a file; name it with --step1")
    refuse_without_mode(args, evaluate_agent.ALL_OPTIONS)
    if args.query_images is None:
        raise ValueError(f"--query-images is needed: {args.dataset} names its images")
    if args.bem is not None and args.no_answers:
        raise ValueError("--bem judges answers, but --no-answers asks for none; remove one of them")
    profile = profile_of(args)
    questions, images = selected_questions(args), query_images_of(args)

    from evaluation.ablation import as_markdown, step_table
    from evaluation.bem import load_bem
    from evaluation.given import GOLD, GivenCandidates
    from evaluation.image_overlap import ImageOverlap, images_of, note_images, overlap_text
    from evaluation.records import RECORDS, read_records
    from evaluation.report import write_report
    from evaluation.run import evaluate
    from evaluation.summary import as_text, check_any
    from indexes.ranked_lists import check_coverage
    from omgm.dataset_prompts import deviations, for_dataset
    from omgm.identity import used
    from omgm.opening import open_retriever
    from omgm.parts import build_generator
    from retriever.files import write_json, write_whole

    profile = for_dataset(profile, args.dataset)
    bem = None if args.bem is None else load_bem(existing(args.bem, "--bem"))
    given = None if args.step1 is None else _given(args, questions)
    retriever = open_retriever(profile, args.index, verify=True)
    index = retriever.index
    settings = profile.model_dump(mode="json")
    if given is not None:
        found, settings["step1"] = given
        step1 = GivenCandidates(found, index, profile.search.k)
        if args.step1 != GOLD:
            partial = "" if args.step1_partial else "--step1-partial"
            ids = {id: [entity for entity, _ in ranking] for id, ranking in found.items()}
            covered = check_coverage(Path(args.step1), ids, len(questions), step1.has, partial_flag=partial)
            settings["step1"] |= covered
        retriever.steps = [step1, *retriever.steps[1:]]
        retriever.recognition = None  # it is fitted to the scores of our step 1
    overlap = ImageOverlap.of(questions, images_of(questions, images), index, args.index, training_notes(args, profile))
    metrics = evaluate(
        retriever,
        None if args.no_answers else build_generator(profile),
        questions,
        images,
        args.out,
        dataset=args.dataset,
        profile_name=profile.name,
        settings=settings,
        index_info=describe(index),
        batch_size=args.batch_size,
        bem=bem,
        depends_on=used(profile, index, answers=not args.no_answers),
        deviations=deviations(profile, args.dataset),
        further=overlap,
        overwrite=args.overwrite,
    )
    write_report(
        args.out, images, lambda entity: None if (row := index.row_of(entity)) is None else index.image_path(row)
    )
    note_images(args.out, overlap.images)
    rows = step_table(read_records(args.out / RECORDS), [step.name for step in retriever.steps])
    write_json(args.out / "ablation.json", rows)
    write_whole(args.out / "ablation.md", as_markdown(rows).encode())
    if args.json:
        print_json(metrics)
    else:
        print("\n".join([as_text(metrics), *overlap_text(metrics)]))
        print(f"\n{as_markdown(rows)}\n{args.out / 'report.html'}")
    check_any(metrics)


def _given(args: argparse.Namespace, questions: Sequence[Question]) -> tuple[Rankings, dict[str, Any]]:
    """Returns the candidates that `--step1` names, and a description of them for the run's note."""
    from evaluation.given import GOLD, gold_candidates
    from indexes.rankings import read_rankings
    from retriever.files import sha256_of

    if args.step1 == GOLD:
        return gold_candidates(questions), {"candidates": GOLD}
    path = existing(Path(args.step1), "--step1")
    wanted = dict.fromkeys(question.id for question in questions)
    found = read_rankings(path, wanted, order=args.step1_order, flag="--step1-order")
    order = {} if args.step1_order is None else {"order": args.step1_order}
    return found, {"candidates": path.name, "sha256": sha256_of(path), **order}


def selected_questions(args: argparse.Namespace) -> list[Question]:
    """Returns the questions that the arguments select.

    Raises:
        ValueError: The file has no questions of the split.
    """
    questions = load_questions(args)
    if args.only_split is not None:
        splits = sorted({question.data_split for question in questions})
        questions = [question for question in questions if question.data_split == args.only_split]
        if not questions:
            raise ValueError(f"--only-split: the file has no split {args.only_split!r}; it has {', '.join(splits)}")
    return questions[: args.limit]
