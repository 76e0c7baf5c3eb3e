"""Evaluate a search agent: `omgm evaluate --mode POLICY`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.agents import OPTIONS, add_agent, agent_settings, with_model
from omgm.commands.common import describe, existing, print_json, profile_of, query_images_of, question_names
from omgm.commands.numbers import positive
from retriever.wording import counted

if TYPE_CHECKING:
    from PIL import Image

    from agents.budget import Budget
    from agents.corpus import Corpus
    from agents.engine import Policy
    from evaluation.datasets import Question
    from evaluation.search.rows import RowImages
    from evaluation.search.run import SingleStep
    from evaluation.search.steps import StepTask
    from evaluation.search.tasks import SearchTask
    from llm.background import BackgroundLoop
    from llm.chat import ChatClient
    from omgm.agent import Agent

MODES = {"mmsearch": "mmsearch", "mmsearch-plus": "mmsearch-plus"}
"""The default policies of the data sets that only agents can be evaluated on."""
ALL_OPTIONS = (*OPTIONS, "judge_url", "judge_model", "canary", "concurrency")
"""Options of `evaluate` that apply only to agents."""
_SLICE, _SLICES = 512, 10
"""Height in pixels and maximum number of slices of a page's screenshot, as in MMSearch."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that only an agent's evaluation has."""
    modes = "auto, mmsearch-plus, omnisearch, mmsearch, vsa, or a baseline (docs/agents.md)"
    agent = add_agent(parser, modes, "replay a run's searches, pages and replies from its folder corpus/")
    agent.add_argument("--judge-url", metavar="URL", help="the server of a chat model that judges answers")
    agent.add_argument("--judge-model", metavar="NAME", help="its name; without --judge-url, on the planner's server")
    agent.add_argument("--canary", metavar="TEXT", help="the text that decrypts MMSearch-Plus")
    agent.add_argument("--concurrency", type=positive, metavar="N", help="questions asked at once (1)")


def run(args: argparse.Namespace) -> None:
    """Evaluates an agent and prints the main figures."""
    from agents.corpus import Corpus
    from agents.model import ChatPlanner
    from agents.policies import BASELINES, POLICIES
    from evaluation.search.run import SearchRun, evaluate_search
    from evaluation.search.tasks import read_tasks
    from llm.background import BackgroundLoop
    from omgm.agent import Agent, access_of, budget_of
    from omgm.api import OMGM
    from omgm.identity import reported, used
    from omgm.parts import build_encoder, build_planner, build_proposer
    from retriever.identity import files_as_items

    profile, mode = profile_of(args), args.mode or MODES[args.dataset]
    policies = {**POLICIES, **BASELINES}
    golden = mode == "dynvqa-golden"
    if mode not in policies and not golden:
        raise ValueError(f"--mode must be one of {', '.join([*policies, 'dynvqa-golden'])}; got {mode!r}")
    queries = existing(args.queries, "--queries")
    images = None if args.query_images is None else query_images_of(args)
    read = read_tasks(args.dataset, queries, images, canary=args.canary or "", names=question_names(args))
    corpus = Corpus(args.out / "corpus", record=True) if args.corpus is None else Corpus(args.corpus)
    planner_profile = with_model(profile, args.planner_url, args.model)
    settings = agent_settings(args, profile.agents)
    with ExitStack() as stack:
        encoder = build_encoder(profile)
        omgm = stack.enter_context(OMGM.open(args.index, profile, encoder=encoder))
        planner = ChatPlanner(build_planner(planner_profile))
        propose = build_proposer(profile, encoder) if settings.propose_regions else None
        agent = stack.enter_context(Agent(omgm, planner, propose=propose, corpus=corpus, **access_of(settings)))
        models = {"planner": planner.name}
        depends_on = dict(used(profile, omgm.index, answers=False))
        if args.corpus is None:
            depends_on["planner's server"] = reported(planner_profile)
        else:
            recorded = sorted(args.corpus.glob("*/*.json"))
            files = ((path.relative_to(args.corpus).as_posix(), path) for path in recorded)
            depends_on["corpus"] = files_as_items(files, "result")
        verdict = None
        if args.judge_url or args.judge_model:
            judge_profile = with_model(planner_profile, args.judge_url, args.judge_model)
            judge = build_planner(judge_profile)
            if args.corpus is None:
                depends_on["judge's server"] = reported(judge_profile)
            models["judge"] = judge.model
            loop = BackgroundLoop()
            stack.callback(loop.close)
            stack.callback(lambda: loop.submit(judge.aclose()).result())
            verdict = partial(_verdict, judge, loop, corpus)
        metrics = evaluate_search(
            SearchRun(
                dataset=args.dataset,
                mode=mode,
                read=partial(_selected, read, args.only_split, args.limit),
                ask=partial(_ask, agent, None if golden else policies[mode], budget_of(settings)),
                steps=_steps(args.dataset, mode, queries, agent),
                verdict=verdict,
                header={
                    "profile": profile.name,
                    "models": models,
                    "settings": profile.model_dump(mode="json"),
                    "index": describe(omgm.index),
                },
                concurrency=args.concurrency or 1,
                depends_on=depends_on,
                recorded=(args.out / "corpus",),
            ),
            args.out,
            overwrite=args.overwrite,
        )
    if args.json:
        print_json(metrics)
    else:
        print(f"{_as_text(metrics)}\n\n{args.out / 'report.html'}")


def _selected(
    read: Callable[[bool], Iterator[SearchTask]], split: str | None, limit: int | None, images: bool
) -> Iterator[SearchTask]:
    tasks = (task for task in read(images) if split is None or task.question.data_split == split)
    return islice(tasks, limit)


def _ask(agent: Agent, make: Callable[[], Policy] | None, budget: Budget, task: SearchTask) -> dict[str, Any]:
    from agents.policies.baselines import GoldenBaseline

    question = task.question
    if make is None:
        if not question.golden_query:
            raise ValueError("the question has no golden query")
        policy: Policy = GoldenBaseline(question.golden_query)
    else:
        policy = make()
    return agent.run(policy, question.question, _loaded(task.images), budget=budget).as_dict()


def _steps(dataset: str, mode: str, queries: Path, agent: Agent) -> dict[str, SingleStep]:
    """Returns MMSearch's single-step tasks whose files exist."""
    from evaluation.search.run import SingleStep
    from evaluation.search.steps import read_rerank, read_summarization
    from evaluation.search.tasks import subset

    if dataset != "mmsearch" or mode != "mmsearch":
        return {}
    kinds = {"rerank": (read_rerank, _rerank), "summarization": (read_summarization, _summarize)}
    return {
        name: SingleStep(partial(read, file), partial(ask, agent))
        for name, (read, ask) in kinds.items()
        if (file := subset(queries, name)) is not None
    }


def _rerank(agent: Agent, task: StepTask) -> tuple[str, int | None]:
    from agents.policies.mmsearch import MMSearchRerank, chosen

    websites = [f"{site.title}\n{site.snippet}" for site in task.websites]
    shots = [image for site in task.websites for image in _loaded(site.screenshot)]
    policy = MMSearchRerank(websites, shots, _loaded(task.image_search))
    answer = agent.run(policy, task.question.question, _loaded(task.images))
    said = answer.answer or ""
    return said, chosen(said, len(websites))


def _summarize(agent: Agent, task: StepTask) -> tuple[str, int | None]:
    from agents.policies.mmsearch import MMSearchSummarize

    [site] = task.websites
    slices = [part for image in _loaded(site.screenshot) for part in _sliced(image)]
    policy = MMSearchSummarize(f"{site.title}\n{site.snippet}\n\n{site.text}", slices, _loaded(task.image_search))
    return agent.run(policy, task.question.question, _loaded(task.images)).answer or "", None


def _verdict(
    judge: ChatClient, loop: BackgroundLoop, corpus: Corpus, question: Question, answer: str
) -> tuple[bool | None, str]:
    from agents.corpus import decode_reply, encode_reply
    from agents.model import ChatPlanner
    from evaluation.search.verdicts import VERDICT, judge_messages, read_verdict

    messages = judge_messages(question.question, question.answers, answer)

    async def ask() -> str:
        make = partial(ChatPlanner(judge).reply, messages, 256, (), VERDICT)
        key = json.dumps([judge.model, messages], sort_keys=True)
        reply, _ = await corpus.get("judge", key, make, encode_reply, decode_reply)
        return reply.text

    reply = loop.submit(ask()).result()
    return read_verdict(reply), reply


def _loaded(images: RowImages) -> list[Image.Image]:
    """Returns the decoded images.

    Raises:
        ValueError: An image is unreadable.
    """
    from retriever.images import load_image

    return [load_image(image) for image in images.found]


def _sliced(page: Image.Image) -> list[Image.Image]:
    """Cuts a slimmed screenshot into slices, from the top."""
    tops = range(0, min(page.height, _SLICE * _SLICES), _SLICE)
    return [page.crop((0, top, page.width, min(top + _SLICE, page.height))) for top in tops]


def _as_text(metrics: dict[str, Any]) -> str:
    """Returns the main figures as lines of text, in percent."""
    from evaluation.counts import counts_line
    from evaluation.metrics import percent
    from evaluation.protocol import lines_of

    answer, paths = metrics["answer"], metrics["trajectories"]
    questions = counted(metrics["n_queries"], "question")
    lines = [f"{metrics['dataset']}, {metrics['mode']}: {questions}; figures in percent"]
    if counts := counts_line(metrics):
        lines.append(f"          {counts}")
    lines.append(f"answer    {answer['metric']} {percent(answer['accuracy'])}")
    if "note" in answer:
        lines.append(f"          {answer['note']}")
    if "mmsearch" in metrics:
        lines.append(
            "mmsearch  " + "  ".join(f"{name} {percent(value)}" for name, value in metrics["mmsearch"].items())
        )
    if "judge" in metrics:
        judge = metrics["judge"]
        lines.append(f"judge     agrees with string matching on {percent(judge['agreement'])} of {judge['n']} answers")
        if judge["unreadable"]:
            lines.append(f"          {judge['unreadable']:,} replies without a verdict count as wrong")
    lines += lines_of(metrics)
    calls = ", ".join(f"{tool} {n}" for tool, n in paths["calls"].items()) or "none"
    lines.append(f"calls     {calls}; P(image | zoom) {percent(paths['p_image_given_zoom'])}")
    lines.append(f"malformed {paths['malformed']} in {paths['malformed_trajectories']} of {paths['n']} trajectories")
    return "\n".join(lines)
