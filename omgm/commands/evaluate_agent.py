"""Evaluate a search agent: `omgm evaluate --mode POLICY`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.commands.agents import add_agent
from omgm.commands.common import (
    describe,
    existing,
    profile_of,
    query_images_of,
    question_names,
    report,
    training_notes,
)
from omgm.commands.numbers import positive
from search_agents.policies import policy_kind, policy_names

if TYPE_CHECKING:
    from evaluation.datasets.question import SearchTask
    from omgm.settings import Profile

ALL_OPTIONS = (
    "corpus", "judge_url", "judge_model", "canary", "concurrency", "official", "tolerant", "own_image_search",
    "regions",
)  # fmt: skip
"""Options of `evaluate` that apply only to agents."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that only an agent's evaluation has."""
    modes = f"{', '.join(policy_names())}, or a baseline (docs/agents.md)"
    agent = add_agent(parser, modes, "replay a run's searches, pages and replies from its folder corpus/")
    agent.add_argument("--judge-url", metavar="URL", help="the server of a chat model that judges answers")
    agent.add_argument("--judge-model", metavar="NAME", help="its name; without --judge-url, on the planner's server")
    agent.add_argument("--canary", metavar="TEXT", help="the text that decrypts MMSearch-Plus")
    parsing = agent.add_mutually_exclusive_group()
    parsing.add_argument(
        "--official", action="store_true", help="read replies as the published code does (the default)"
    )
    parsing.add_argument("--tolerant", action="store_true", help="read replies in any form that models write")
    agent.add_argument(
        "--own-image-search", action="store_true", help="search for images instead of using MMSearch's own results"
    )
    agent.add_argument(
        "--regions", type=Path, metavar="FILE", help="regions of each question's image, JSON lines of id and boxes"
    )
    agent.add_argument("--concurrency", type=positive, metavar="N", help="questions asked at once (1)")


def run(args: argparse.Namespace) -> None:
    """Evaluates an agent and prints the main figures."""
    from evaluation.datasets.dataset import dataset_named
    from evaluation.image_overlap import ImageOverlap, note_images, overlap_text
    from evaluation.search.figures import as_text
    from evaluation.search.run import SearchRun, evaluate_search
    from evaluation.search.tasks import read_regions, read_tasks
    from evaluation.summary import check_any
    from indexes.image_copies import KnownImages
    from omgm.agent import Agent, access_of, budget_of, wordings_of
    from omgm.agent_evaluation import Conduct, ask, judging, single_steps
    from omgm.api import OMGM
    from omgm.identity import reported, used
    from omgm.kinds.chat import build_planner
    from omgm.opening import open_retriever
    from omgm.parts import build_encoder, build_generator, model_folder
    from omgm.regions import build_proposer, can_propose
    from retriever.identity import files_as_items
    from retriever.models.folder import folder_fingerprint
    from search_agents.corpus import Corpus
    from search_agents.model import ChatPlanner

    profile, mode = profile_of(args), dataset_named(args.dataset).policy if args.mode is None else args.mode
    modes = policy_names(baselines=True)
    if mode not in modes:
        raise ValueError(f"--mode must be one of {', '.join(modes)}; got {mode!r}")
    queries = existing(args.queries, "--queries")
    images = None if args.query_images is None else query_images_of(args)
    read = read_tasks(args.dataset, queries, images, canary=args.canary or "", names=question_names(args))
    corpus = Corpus(args.out / "corpus", record=True) if args.corpus is None else Corpus(args.corpus)
    settings = profile.agents
    wordings = wordings_of(mode, settings.prompts, evaluation=True)
    regions = {} if args.regions is None else read_regions(existing(args.regions, "--regions"))
    conduct = Conduct(mode, wordings, not args.tolerant, args.own_image_search, regions)
    with ExitStack() as stack:
        encoder = build_encoder(profile)
        retriever = open_retriever(profile, args.index, encoder=encoder, live=True, verify=True)
        omgm = stack.enter_context(OMGM(retriever, build_generator(profile)))
        planner = ChatPlanner(build_planner(profile))
        by_default = policy_kind(mode).needs_regions and not conduct.regions and can_propose(profile, encoder)
        proposes = settings.propose_regions or by_default
        propose = build_proposer(profile, encoder) if proposes else None
        agent = stack.enter_context(Agent(omgm, planner, propose=propose, corpus=corpus, **access_of(settings)))
        models = {"planner": planner.name}
        depends_on = {**used(profile, omgm.index, answers=False), **conduct.identity()}
        if proposes and profile.regions.model:  # otherwise they come from step 1's model
            depends_on["regions.model"] = folder_fingerprint(model_folder(profile, "regions"))
        servers = {"planner's server": profile}
        verdict = None
        if args.judge_url or args.judge_model:
            servers["judge's server"] = _judging(profile, args.judge_url, args.judge_model)
            judge = build_planner(servers["judge's server"])
            models["judge"] = judge.model
            verdict = stack.enter_context(judging(judge, corpus))
        if args.corpus is None:
            depends_on |= {name: reported(one) for name, one in servers.items()}
        else:
            recorded = sorted(args.corpus.glob("*/*.json"))
            files = ((path.relative_to(args.corpus).as_posix(), path) for path in recorded)
            depends_on["corpus"] = files_as_items(files, "result")
        selected = partial(_selected, read, args.only_split, args.limit)
        known = KnownImages.of_several({task.question.id: task.images.found for task in selected(True)})
        questions = [task.question for task in selected(False)]
        overlap = ImageOverlap.of(questions, known, omgm.index, args.index, training_notes(args, profile))
        evaluation = SearchRun(
            dataset=args.dataset,
            mode=mode,
            read=selected,
            ask=partial(ask, agent, conduct, budget_of(settings)),
            steps=single_steps(args.dataset, queries, agent, conduct),
            verdict=verdict,
            header={
                "profile": profile.name,
                "models": models,
                # Wherever a server is, its model answers the same: `depends_on` has what it reports.
                "settings": profile.model_dump(mode="json", exclude={"generator": {"base_url"}}),
                "index": describe(omgm.index),
            },
            concurrency=args.concurrency or 1,
            depends_on=depends_on,
            deviations=conduct.deviations(proposes=proposes),
            known=lambda entity: omgm.index.row_of(entity) is not None,
            recorded=(args.out / "corpus",),
            further=overlap.of_scores,
        )
        metrics = evaluate_search(evaluation, args.out, overwrite=args.overwrite)
        note_images(args.out, known)
    lines = [as_text(metrics), *overlap_text(metrics), "", str(args.out / "report.html")]
    report(args, metrics, "\n".join(lines))
    check_any(metrics)


def _judging(profile: Profile, url: str | None, model: str | None) -> Profile:
    """Returns the profile with the chat model that judges, by default on the planner's server."""
    given = {key: value for key, value in (("base_url", url), ("model", model)) if value}
    return profile.model_copy(update={"generator": profile.generator.model_copy(update=given)})


def _selected(
    read: Callable[[bool], Iterator[SearchTask]], split: str | None, limit: int | None, images: bool
) -> Iterator[SearchTask]:
    tasks = (task for task in read(images) if split is None or task.question.data_split == split)
    return islice(tasks, limit)
