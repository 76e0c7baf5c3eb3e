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

    from chat_models.background import BackgroundLoop
    from chat_models.chat import ChatClient
    from evaluation.datasets import Question
    from evaluation.search.rows import RowImages
    from evaluation.search.run import SingleStep
    from evaluation.search.steps import StepTask
    from evaluation.search.tasks import SearchTask
    from omgm.agent import Agent
    from omgm.conduct import Conduct
    from search_agents.budget import Budget
    from search_agents.corpus import Corpus

MODES = {"mmsearch": "mmsearch", "mmsearch-plus": "mmsearch-plus"}
"""The default policies of the data sets that only agents can be evaluated on."""
ALL_OPTIONS = (
    *OPTIONS, "judge_url", "judge_model", "canary", "concurrency", "prompts", "official", "tolerant",
    "own_image_search", "regions",
)  # fmt: skip
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
    agent.add_argument(
        "--prompts",
        choices=("paper", "own"),
        help="the published prompts (omgm download --prompts) or ours (agents.prompts)",
    )
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
    from chat_models.background import BackgroundLoop
    from evaluation.search.run import SearchRun, evaluate_search
    from evaluation.search.tasks import read_tasks
    from omgm.agent import Agent, access_of, budget_of, wordings_of
    from omgm.api import OMGM
    from omgm.conduct import Conduct
    from omgm.identity import reported, used
    from omgm.parts import build_encoder, build_planner, build_proposer, can_propose, model_folder
    from retriever.identity import files_as_items
    from retriever.models.folder import folder_fingerprint
    from search_agents.corpus import Corpus
    from search_agents.model import ChatPlanner
    from search_agents.policies import BASELINES, POLICIES

    profile, mode = profile_of(args), args.mode or MODES[args.dataset]
    modes = [*POLICIES, *BASELINES, "dynvqa-golden"]
    if mode not in modes:
        raise ValueError(f"--mode must be one of {', '.join(modes)}; got {mode!r}")
    queries = existing(args.queries, "--queries")
    images = None if args.query_images is None else query_images_of(args)
    read = read_tasks(args.dataset, queries, images, canary=args.canary or "", names=question_names(args))
    corpus = Corpus(args.out / "corpus", record=True) if args.corpus is None else Corpus(args.corpus)
    planner_profile = with_model(profile, args.planner_url, args.model)
    settings = agent_settings(args, profile.agents)
    wordings = wordings_of(mode, args.prompts or settings.prompts, evaluation=True)
    conduct = Conduct(mode, wordings, not args.tolerant, args.own_image_search, _regions(args.regions))
    with ExitStack() as stack:
        encoder = build_encoder(profile)
        omgm = stack.enter_context(OMGM.open(args.index, profile, encoder=encoder))
        planner = ChatPlanner(build_planner(planner_profile))
        by_default = mode == "vsa" and not conduct.regions and can_propose(profile, encoder)
        proposes = settings.propose_regions or by_default
        propose = build_proposer(profile, encoder) if proposes else None
        agent = stack.enter_context(Agent(omgm, planner, propose=propose, corpus=corpus, **access_of(settings)))
        models = {"planner": planner.name}
        depends_on = {**used(profile, omgm.index, answers=False), **conduct.identity()}
        if proposes and profile.regions.model:  # otherwise they come from step 1's model
            depends_on["regions.model"] = folder_fingerprint(model_folder(profile, "regions"))
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
                ask=partial(_ask, agent, conduct, budget_of(settings)),
                steps=_steps(args.dataset, queries, agent, conduct),
                verdict=verdict,
                header={
                    "profile": profile.name,
                    "models": models,
                    "settings": profile.model_dump(mode="json") | {"agents": settings.model_dump(mode="json")},
                    "index": describe(omgm.index),
                },
                concurrency=args.concurrency or 1,
                depends_on=depends_on,
                deviations=conduct.deviations(proposes=proposes),
                known=lambda entity: omgm.index.row_of(entity) is not None,
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


def _ask(agent: Agent, conduct: Conduct, budget: Budget, task: SearchTask) -> dict[str, Any]:
    policy = conduct.policy(task.question, _loaded(task.image_search))
    boxes = conduct.regions.get(task.question.id, ())
    images = _loaded(task.images)
    return agent.run(policy, task.question.question, images, boxes=boxes, budget=budget).as_dict()


def _steps(dataset: str, queries: Path, agent: Agent, conduct: Conduct) -> dict[str, SingleStep]:
    """Returns MMSearch's single-step tasks whose files exist."""
    from evaluation.search.run import SingleStep
    from evaluation.search.steps import read_rerank, read_summarization
    from evaluation.search.tasks import subset

    if dataset != "mmsearch" or conduct.mode != "mmsearch":
        return {}
    kinds = {"rerank": (read_rerank, _rerank), "summarization": (read_summarization, _summarize)}
    return {
        name: SingleStep(partial(read, file), partial(ask, agent, conduct))
        for name, (read, ask) in kinds.items()
        if (file := subset(queries, name)) is not None
    }


def _rerank(agent: Agent, conduct: Conduct, task: StepTask) -> tuple[str, int | None]:
    from search_agents.policies.mmsearch import MMSearchRerank
    from search_agents.policies.mmsearch_stages import SeenWebsite, Stages

    sites = [SeenWebsite(site.title, site.snippet, "", tuple(_loaded(site.screenshot))) for site in task.websites]
    policy = MMSearchRerank(sites, _loaded(task.image_search), Stages(conduct.wordings, conduct.official))
    answer = agent.run(policy, task.question.question, _loaded(task.images))
    return answer.answer or "", policy.choice


def _summarize(agent: Agent, conduct: Conduct, task: StepTask) -> tuple[str, int | None]:
    from search_agents.policies.mmsearch import MMSearchSummarize
    from search_agents.policies.mmsearch_stages import SeenWebsite, Stages

    [site] = task.websites
    slices = tuple(part for image in _loaded(site.screenshot) for part in _sliced(image))
    seen = SeenWebsite(site.title, site.snippet, site.text, slices)
    policy = MMSearchSummarize(seen, _loaded(task.image_search), Stages(conduct.wordings, conduct.official))
    return agent.run(policy, task.question.question, _loaded(task.images)).answer or "", None


def _regions(path: Path | None) -> dict[str, list[list[float]]]:
    """Returns the boxes of each question's image: x1, y1, x2, y2 in its pixels.

    Raises:
        ValueError: A line has not the fields `id` and `boxes`.
    """
    from evaluation.datasets.rows import json_lines

    regions: dict[str, list[list[float]]] = {}
    for where, row in [] if path is None else json_lines(existing(path, "--regions")):
        if isinstance(row, ValueError):
            raise row
        boxes = row.get("boxes")
        if not isinstance(row.get("id"), str | int) or not isinstance(boxes, list):
            raise ValueError(f'{where}: --regions needs lines such as {{"id": "q1", "boxes": [[x1, y1, x2, y2]]}}')
        regions[str(row["id"])] = boxes
    return regions


def _verdict(
    judge: ChatClient, loop: BackgroundLoop, corpus: Corpus, question: Question, answer: str
) -> tuple[bool | None, str]:
    from evaluation.search.verdicts import VERDICT, judge_messages, read_verdict
    from search_agents.corpus import decode_reply, encode_reply
    from search_agents.model import ChatPlanner

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
    from evaluation.summary import with_image

    answer, paths = metrics["answer"], metrics["trajectories"]
    questions = counted(metrics["n_queries"], "question")
    lines = [f"{metrics['dataset']}, {metrics['mode']}: {questions}; figures in percent"]
    if counts := counts_line(metrics):
        lines.append(f"          {counts}")
    lines.append(f"answer    {answer['metric']} {percent(answer['accuracy'])}")
    lines += with_image(answer)
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
