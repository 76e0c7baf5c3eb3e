"""Answer a question about an image, or about what it names, by retrieval or with a search agent."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.agents import add_agent, refuse_without_mode
from omgm.commands.common import add_index, add_json, add_profile, existing, print_json, profile_of
from omgm.modes import mode_names

if TYPE_CHECKING:
    from omgm.results import Answer
    from omgm.settings import Profile
    from serving.modes import ModeAnswer

_MAX_DOWNLOAD = 50_000_000
"""Size limit for downloading an image, in bytes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_index(parser)
    about = "the image, if any: a file or an http(s) URL; several are both sides of a thing, or things to compare"
    parser.add_argument("images", metavar="IMAGE", nargs="*", help=about)
    parser.add_argument("question", metavar="QUESTION", help="the question")
    parser.add_argument("--thoughts", action="store_true", help="show what a reasoning model thought, too")
    about = "only find entities whose FIELD is VALUE; may be repeated, for one of several values or more fields"
    parser.add_argument("--filter", action="append", default=[], metavar="FIELD=VALUE", help=about)
    *modes, last = mode_names()
    agent = add_agent(parser, f"{', '.join(modes)} or {last}", "replay searches, pages and replies recorded here")
    agent.add_argument("--region", action="append", default=[], metavar="X1,Y1,X2,Y2", help="a region; may be repeated")
    agent.add_argument("--record", action="store_true", help="record results that the corpus lacks")
    agent.add_argument("--trail", type=Path, metavar="FILE", help="write the trail of the answer: .json or .svg")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the answer with its entity and its evidence."""
    profile = profile_of(args)
    if not args.question.strip():
        raise ValueError("QUESTION is empty")
    images = [_image(source) for source in args.images]
    if not images and Path(args.question).is_file():
        raise ValueError(f"QUESTION is missing after the IMAGE {args.question}")
    if args.mode is not None:
        if len(images) != 1:
            problem = "there are several IMAGEs" if images else "IMAGE is missing"
            raise ValueError(
                f"{problem}: an agent looks at one; remove --mode to ask {'about' if images else 'without'}"
            )
        if args.thoughts:
            raise ValueError("--thoughts does not apply to agents, which print their thoughts by round; remove it")
        _ask_mode(args, profile, images[0])
        return
    refuse_without_mode(args, ("corpus", "region", "record", "trail"))

    from omgm.api import OMGM

    with OMGM.open(args.index, profile) as omgm:
        answer = omgm.ask(images or None, args.question, filter=_filter(args.filter))
    if args.json:
        print_json(_as_dict(answer) | ({"thoughts": answer.thoughts} if args.thoughts else {}))
        return
    if args.thoughts:
        print(f"thoughts: {answer.thoughts or '(none)'}\n")
    print(answer.answer if answer.answer is not None else f"(no answer: {answer.reason})")
    for number, (name, shown) in enumerate(zip(args.images, answer.photographs, strict=False), start=1):
        sure = "" if shown.recognized is None else f" (recognized: {shown.recognized:.0%})"
        print(f"{'' if number > 1 else chr(10)}image {number}, {name}: {shown.entity_title or 'nothing found'}{sure}")
    if images and answer.searched:
        print("\nnot about the image, which was not recognized, but about what the question names")
    if answer.turned:
        print(f"\nrecognized when turned by {answer.turned}°")
    if answer.text:
        lines = ", ".join(line.text for line in answer.text)
        print(f"\n{'recognized by its label' if answer.by_text else 'read on the image'}: {lines}")
    for one in answer.passages or filter(None, [answer.evidence]):
        print(f"\n{one.entity_title}, section {one.section_title!r}:\n{one.text}")
        for number, picture in enumerate(() if answer.passages else one.images, 1):
            print(f"Picture {number}: {picture.caption or picture.url}")
    if answer.parts and answer.parts[0] < answer.parts[1]:
        print(f"\nfrom {answer.parts[0]} of {answer.parts[1]} parts of the index: the others do not answer")
    print("\n" + "  ".join(f"{step} {ms:.1f} ms" for step, ms in answer.timings_ms.items()))


def _ask_mode(args: argparse.Namespace, profile: Profile, image: Path | bytes) -> None:
    import asyncio

    if args.mode not in mode_names():
        raise ValueError(f"--mode must be one of {', '.join(mode_names())}; got {args.mode!r}")
    if args.trail is not None and args.trail.suffix not in (".json", ".svg"):
        raise ValueError(f"--trail: {args.trail} must end in .json or .svg")
    if args.record and args.corpus is None:
        raise ValueError("--record needs --corpus DIR")
    answer = asyncio.run(_run_mode(args, profile, image))
    if args.trail is not None:
        _write_trail(args, answer)
    trail = answer.trail.model_dump(mode="json")
    if args.json:
        print_json(trail)
    else:
        _print_trail(trail)
    if trail["abstained"] and trail["failure"]:
        raise ValueError(f"{trail['stopped']}: {trail['failure']}")


def _filter(pairs: Sequence[str]) -> dict[str, list[str]]:
    values = dict[str, list[str]]()
    for name, equals, value in (pair.partition("=") for pair in pairs):
        if not equals:
            raise ValueError(f"--filter must be FIELD=VALUE, such as category=bird, got {name!r}")
        values.setdefault(name.strip(), []).append(value)
    return values


async def _run_mode(args: argparse.Namespace, profile: Profile, image: Path | bytes) -> ModeAnswer:
    from omgm.api import OMGM
    from omgm.modes import ModeContext, open_mode
    from omgm.parts import build_encoder
    from retriever.filters import check, filter_of, within
    from retriever.images import load_image
    from serving.modes import ModeRequest
    from serving.schemas import AgentBudget

    boxes = [_corners(text) for text in args.region]
    encoder = build_encoder(profile)
    async with AsyncExitStack() as closing:
        omgm = closing.enter_context(OMGM.open(args.index, profile, encoder=encoder))
        context = ModeContext(profile, omgm, encoder, closing, args.corpus, args.record, may_propose=not boxes)
        mode = open_mode(args.mode, context)
        request = ModeRequest(args.question.strip(), load_image(image), AgentBudget(), boxes)
        filter = filter_of(_filter(args.filter))
        check(omgm.index, filter)
        with within(filter):
            return await mode.begin(request)(None)


def _write_trail(args: argparse.Namespace, answer: ModeAnswer) -> None:
    """Writes the trail of an answer as JSON, or as an image if its mode draws one.

    Raises:
        ValueError: The mode draws none.
    """
    from omgm.modes import WrittenAnswer
    from retriever.files import write_json

    if isinstance(answer, WrittenAnswer):
        answer.write(args.trail)
    elif args.trail.suffix == ".json":
        write_json(args.trail, answer.trail.model_dump(mode="json"))
    else:
        raise ValueError(f"--trail: the mode {args.mode} draws no image of its trail; name a file that ends in .json")


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


def _image(source: str) -> Path | bytes:
    return _download(source) if source.startswith(("http://", "https://")) else existing(Path(source), "IMAGE")


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
    from retriever.results import values_of
    from retriever.types import AnswerFields, RetrievalFields

    return {
        **values_of(AnswerFields, answer),
        **values_of(RetrievalFields, answer),
        "text": answer.text and [asdict(line) for line in answer.text],
        "passages": [asdict(passage) for passage in answer.passages],
        "photographs": [asdict(photograph) for photograph in answer.photographs],
        "quote": answer.quote and [asdict(line) for line in answer.quote],
        "grounded": answer.grounded,
        "span": answer.span,
        "truncated": answer.truncated,
        "abstained": answer.abstained,
        "reason": answer.reason,
        "evidence": None if answer.evidence is None else asdict(answer.evidence),
        "candidates": [
            {"entity": c.entity, "title": c.title, "sim_c": c.sim_c, "sim_m": c.sim_m, "fused": c.fused}
            | ({"photograph": c.photograph} if answer.photographs else {})
            for c in answer.candidates
        ],
        "timings_ms": answer.timings_ms,
    }
