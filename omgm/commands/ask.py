"""Answer a question about an image, by retrieval or with a search agent."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.agents import add_agent, refuse_without_mode
from omgm.commands.common import add_index, add_json, add_profile, existing, print_json, profile_of
from search_agents.policies import policy_kind, policy_names

if TYPE_CHECKING:
    from omgm.results import Answer
    from omgm.settings import Profile

_MAX_DOWNLOAD = 50_000_000
"""Size limit for downloading an image, in bytes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_index(parser)
    parser.add_argument("image", metavar="IMAGE", help="the image: a file or an http(s) URL")
    parser.add_argument("question", metavar="QUESTION", help="the question about it")
    parser.add_argument("--thoughts", action="store_true", help="show what a reasoning model thought, too")
    *others, last = policy_names()
    modes = f"{', '.join(others)} or {last}"
    agent = add_agent(parser, modes, "replay searches, pages and replies recorded here")
    agent.add_argument("--region", action="append", default=[], metavar="X1,Y1,X2,Y2", help="a region; may be repeated")
    agent.add_argument("--record", action="store_true", help="record results that the corpus lacks")
    agent.add_argument("--trail", type=Path, metavar="FILE", help="write the trail of the answer: .json or .svg")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the answer with its entity and its evidence."""
    profile = profile_of(args)
    if not args.question.strip():
        raise ValueError("QUESTION is empty")
    image = (
        _download(args.image) if args.image.startswith(("http://", "https://")) else existing(Path(args.image), "IMAGE")
    )

    if args.mode is not None:
        if args.thoughts:
            raise ValueError("--thoughts does not apply to agents, which print their thoughts by round; remove it")
        _ask_agent(args, profile, image)
        return
    refuse_without_mode(args, ("corpus", "region", "record", "trail"))

    from omgm.api import OMGM

    with OMGM.open(args.index, profile) as omgm:
        answer = omgm.ask(image, args.question)
    if args.json:
        print_json(_as_dict(answer) | ({"thoughts": answer.thoughts} if args.thoughts else {}))
        return
    if args.thoughts:
        print(f"thoughts: {answer.thoughts or '(none)'}\n")
    print(answer.answer if answer.answer is not None else f"(no answer: {answer.reason})")
    if answer.evidence is not None:
        print(f"\n{answer.evidence.entity_title}, section {answer.evidence.section_title!r}:\n{answer.evidence.text}")
    print("\n" + "  ".join(f"{step} {ms:.1f} ms" for step, ms in answer.timings_ms.items()))


def _ask_agent(args: argparse.Namespace, profile: Profile, image: Path | bytes) -> None:
    from omgm.agent import Agent, access_of, budget_of
    from omgm.api import OMGM
    from omgm.kinds.chat import build_planner
    from omgm.parts import build_encoder
    from omgm.regions import build_proposer, can_propose
    from search_agents.corpus import Corpus
    from search_agents.model import ChatPlanner

    if args.mode not in policy_names():
        raise ValueError(f"--mode must be one of {', '.join(policy_names())}; got {args.mode!r}")
    if args.trail is not None and args.trail.suffix not in (".json", ".svg"):
        raise ValueError(f"--trail: {args.trail} must end in .json or .svg")
    if args.record and args.corpus is None:
        raise ValueError("--record needs --corpus DIR")
    planner, settings = ChatPlanner(build_planner(profile)), profile.agents
    corpus = None if args.corpus is None else Corpus(args.corpus, record=args.record)
    encoder = build_encoder(profile)
    boxes = [_corners(text) for text in args.region]
    proposes = settings.propose_regions
    if policy_kind(args.mode).needs_regions and not boxes:
        proposes = proposes or can_propose(profile, encoder)
    propose = build_proposer(profile, encoder) if proposes else None
    with (
        OMGM.open(args.index, profile, encoder=encoder) as omgm,
        Agent(omgm, planner, propose=propose, corpus=corpus, prompts=settings.prompts, **access_of(settings)) as agent,
    ):
        answer = agent.ask(image, args.question, args.mode, boxes=boxes, budget=budget_of(settings))
    if args.trail is not None:
        answer.write(args.trail)
    trail = answer.as_dict()
    if args.json:
        print_json(trail)
    else:
        _print_trail(trail)
    if trail["abstained"] and trail["failure"]:
        raise ValueError(f"{trail['stopped']}: {trail['failure']}")


def _print_trail(trail: dict[str, Any]) -> None:
    """Prints a trail, in the format of the service's `trail`."""
    print(f"(no answer: {trail['stopped'] or 'nothing found fits'})" if trail["abstained"] else trail["answer"])
    cited = {number for claim in trail["claims"] for number in claim["sources"]}
    for source in trail["sources"]:
        if source["number"] in cited:
            section = f", {source['section']}" if source["section"] else ""
            print(f"\n[{source['number']}] {source['title']}{section} ({source['url']}):\n{source['text']}")
    for one in trail["rounds"]:
        tokens = sum(request["prompt_tokens"] + request["completion_tokens"] for request in one["requests"])
        print(f"\nRound {one['number']} ({tokens} tokens, {one['ms']:.0f} ms): {one['thought']}".rstrip(": "))
        for call in one["calls"]:
            found = ", ".join([f"[{number}]" for number in call["sources"]] + call["images"])
            print(f"  {call['tool']} {_arguments(call)} -> {call['error'] or found or call['text'] or 'nothing found'}")
        if one["problem"]:
            print(f"  malformed: {one['problem']}")
    spent = trail["spent"]
    money = f"  costs {spent['money']:g}" if spent["money"] else ""
    print(f"\n{spent['tokens']} tokens  {spent['ms']:.0f} ms{money}")
    if trail.get("without"):
        print(f"asked without: {', '.join(trail['without'])}")
    if trail["stopped"] and not trail["abstained"]:
        print("stopped: " + ": ".join(part for part in (trail["stopped"], trail["failure"]) if part))


def _arguments(call: dict[str, Any]) -> str:
    arguments = call["arguments"]
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _corners(text: str) -> list[float]:
    try:
        left, top, right, bottom = map(float, text.split(","))
    except ValueError as error:
        raise ValueError(f"--region must be X1,Y1,X2,Y2 in pixels, got {text!r}") from error
    return [left, top, right, bottom]


def _download(url: str) -> bytes:
    import httpx

    from chat_models.proxies import sync_http_client, through_proxy

    try:
        with (
            sync_http_client(url, follow_redirects=True, timeout=30) as client,
            client.stream("GET", url) as response,
        ):
            response.raise_for_status()
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > _MAX_DOWNLOAD:
                    raise ValueError(f"IMAGE: {url} is larger than {_MAX_DOWNLOAD // 1_000_000} MB")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ValueError(f"IMAGE: {url} cannot be downloaded: {error}{through_proxy(url)}") from error
    return bytes(data)


def _as_dict(answer: Answer) -> dict[str, Any]:
    return {
        "answer": answer.answer,
        "confidence": answer.confidence,
        "grounded": answer.grounded,
        "span": answer.span,
        "truncated": answer.truncated,
        "abstained": answer.abstained,
        "recognized": answer.recognized,
        "crop": answer.crop,
        "declined": answer.declined,
        "reason": answer.reason,
        "evidence": None if answer.evidence is None else asdict(answer.evidence),
        "candidates": [
            {"entity": c.entity, "title": c.title, "sim_c": c.sim_c, "sim_m": c.sim_m, "fused": c.fused}
            for c in answer.candidates
        ],
        "timings_ms": answer.timings_ms,
    }
