"""Reproduce the paper's tables and figures, next to its published numbers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.commands.common import (
    add_json,
    add_max_bad,
    add_profile,
    add_questions,
    add_reading,
    existing,
    knowledge_of,
    load_questions,
    print_json,
    profile_of,
    query_images_of,
    training_notes,
)
from omgm.commands.numbers import positive

if TYPE_CHECKING:
    from evaluation.tables.indexes import Components, QuestionSet
    from omgm.settings import Profile

NAMES = (*map(str, range(2, 15)), "figure3", "figure4", "figure5")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("tables", nargs="+", metavar="N", choices=(*NAMES, "all"), help="2 to 14, figure3 to 5, or all")
    add_profile(parser)
    parser.add_argument("--kb", type=Path, metavar="FILE", help="the knowledge base")
    add_reading(parser)
    add_max_bad(parser, listed="")
    parser.add_argument("--images", type=Path, metavar="DIR", help="the folder with its images")
    parser.add_argument("--index", type=Path, metavar="INDEX", help="the profile's index; by default built under --out")
    add_questions(parser, required=False)
    parser.add_argument("--bem", type=Path, metavar="DIR", help="E-VQA's learned judge of answers (docs/evaluation.md)")
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N questions")
    parser.add_argument("--tuned-on", type=Path, metavar="RUN", help="the run that alpha and beta were chosen on")
    parser.add_argument("--runs", nargs="+", default=[], metavar="[LABEL=]RUN", help="finished runs to add as rows")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="output folder for tables, indexes and runs"
    )
    parser.set_defaults(lock=Path)  # as by `add_overwrite`
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the tables; one that cannot be measured explains why."""
    from omgm.dataset_prompts import for_dataset

    profile = for_dataset(profile_of(args), args.dataset)
    given = dict(_labeled(run) for run in args.runs)

    from evaluation.tables.make import make
    from evaluation.tables.paper import tables
    from evaluation.tables.runs import TableRuns, refuse_tuned
    from evaluation.tables.write import as_json, as_markdown, write

    questions = _question_set(args, profile)
    if questions is not None and args.tuned_on is not None:
        refuse_tuned(args.tuned_on, questions)
    runs = None if questions is None else TableRuns(_components(args, profile), questions, args.out)
    measured = []
    for name in NAMES if "all" in args.tables else args.tables:
        table = make(tables()[name], runs, given, args.tuned_on)
        path = write(table, args.out)
        measured.append(table)
        if not args.json:
            print(f"{as_markdown(table)}\n{path}\n")
    if args.json:
        print_json([as_json(table) for table in measured])


def _question_set(args: argparse.Namespace, profile: Profile) -> QuestionSet | None:
    from evaluation.tables.indexes import QuestionSet
    from indexes.knowledge.knowledge_base import KnowledgeBase

    if args.queries is None:
        return None
    if args.query_images is None or (args.kb is None and args.index is None):
        raise ValueError("--queries needs --query-images, and --kb or --index")
    return QuestionSet(
        dataset=args.dataset,
        questions=load_questions(args)[: args.limit],
        query_images=query_images_of(args),
        knowledge=None if args.kb is None else KnowledgeBase(**knowledge_of(args, profile)),
        index=None if args.index is None else existing(args.index, "--index"),
    )


def _components(args: argparse.Namespace, profile: Profile) -> Components:
    from evaluation.bem import load_bem
    from evaluation.tables.indexes import Components
    from omgm import indexing, parts
    from omgm.dataset_prompts import deviations
    from omgm.identity import used
    from retriever.protocols import VectorReranker

    reranker = parts.build_text_reranker(profile)
    return Components(
        profile=profile.name,
        settings=profile.model_dump(mode="json"),
        encoder=parts.build_encoder(profile),
        fusion=parts.build_fusion(profile),
        reranker=reranker,
        sections=reranker.encoder if isinstance(reranker, VectorReranker) else None,
        summarizer=parts.build_summarizer(profile),
        generator=parts.build_generator(profile),
        k=profile.search.k,
        alpha=profile.fusion.alpha,
        beta=profile.sections.beta,
        mode=profile.fusion.score_mode,
        design=indexing.design_of(profile),
        trim_borders=profile.search.trim_borders,
        device=parts.placement(profile)[0],
        gpu_search=profile.search.gpu,
        bem=None if args.bem is None else load_bem(existing(args.bem, "--bem")),
        deviations=deviations(profile, args.dataset),
        trained=training_notes(args, profile),
        used=lambda index: used(profile, index, answers=profile.generator.kind != "openai"),  # its server may be off
    )


def _labeled(text: str) -> tuple[str, Path]:
    label, equals, path = text.partition("=")
    folder = existing(Path(path if equals else text), "--runs")
    return (label if equals else folder.name), folder
