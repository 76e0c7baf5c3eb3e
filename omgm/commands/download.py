"""Download the weights of a profile, the published prompts of agents, or web pages to replay."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import add_json, add_profile, existing, print_json, profile_of
from omgm.commands.numbers import positive
from retriever.wording import counted, gigabytes

if TYPE_CHECKING:
    from omgm.downloads.weights import Plan
    from retriever.base_models import Base
import asyncio
from typing import TYPE_CHECKING

from omgm.commands.common import report

if TYPE_CHECKING:
    from omgm.web_access import WebSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be downloaded, and stop")
    parser.add_argument(
        "--prompts",
        choices=("mmsearch", "omnisearch", "vsa", "mmsearch-plus"),
        help="download the published prompts of this agent instead (docs/evaluation.md)",
    )
    parser.add_argument(
        "--prompts-from", type=Path, metavar="PATH", help="take them from a clone of the repository or a text file"
    )
    web = parser.add_argument_group("web", "searches and pages that agents replay (agents.web_corpus)")
    web.add_argument("--queries", type=Path, metavar="FILE", help="record these queries, one per line, and their pages")
    web.add_argument("--out", type=Path, metavar="DIR", help="where; results already there are not requested again")
    web.add_argument("--pages", type=positive, default=5, metavar="N", help="pages opened per query (%(default)s)")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the download size, downloads and verifies the models, and pins those that are not pinned.

    Raises:
        ValueError: Some models are not available; raised after the others have been fetched.
    """
    if args.queries is not None:
        record(args)
        return
    if args.prompts is not None or args.prompts_from is not None:
        _prompts(args)
        return
    profile = profile_of(args)

    from omgm.downloads.hub import base_models
    from omgm.downloads.weights import ModelUnavailable, check_disk, fetch, make_plan, models_of
    from retriever.base_models import base_model

    def say(text: str) -> None:
        print(text, file=sys.stderr if args.json else sys.stdout, flush=True)

    based = base_models(profile)
    for base in based:
        here = (
            f"here: {base.folder}" if base.folder.is_dir() else f"in {base.package}" if base.carrier else "to download"
        )
        say(f"base model {base.name}: {base.pinned}: {gigabytes(base.bytes)}, {base.license}, {here}")
        if not args.dry_run:
            say(f"{base_model(base.name)}: sizes and hashes match")
    plans: list[Plan] = []
    unavailable: dict[str, list[str]] = {}  # reason -> settings; several may name the same model
    for model in models_of(profile):
        try:
            plans.append(make_plan(model))
        except ModelUnavailable as error:
            unavailable.setdefault(str(error).removeprefix(f"{model.key}: "), []).append(model.key)
    problems = [f"{', '.join(keys)}: {reason}" for reason, keys in unavailable.items()]
    for plan in plans:
        here = gigabytes(plan.bytes - plan.bytes_to_fetch)
        files = counted(len(plan.files), "file")
        say(f"{plan.model.key}: {plan.pinned}: {files}, {gigabytes(plan.bytes)}, here {here}")
    for problem in problems:
        say(f"not available: {problem}")
    to_fetch = sum(plan.bytes_to_fetch for plan in plans)
    free = check_disk(plans)
    if plans:
        total = sum(plan.bytes for plan in plans)
        say(f"to download: {gigabytes(to_fetch)} of {gigabytes(total)}; free: {gigabytes(free)}")
    elif not problems:
        say(f"profile {profile.name} needs nothing {'else ' if based else ''}from the hub")
    folders: dict[str, str] = {}
    if not args.dry_run:
        for plan in plans:
            folders[plan.model.key] = str(fetch(plan))
            say(f"{plan.pinned}: sizes and hashes match")
    loose = [plan for plan in plans if plan.model.revision != plan.commit]
    if loose:
        say("to pin what is not pinned, write into the profile:")
        for plan in loose:
            section, _, key = plan.model.key.partition(".")
            say(f'  [{section}] {key} = "{plan.pinned}"')
    if args.json:
        report = _report(plans, folders, to_fetch, free)
        report["base_models"] = [_base_row(base) for base in based]
        print_json(report | {"unavailable": {key: reason for reason, keys in unavailable.items() for key in keys}})
    if problems:
        others = "; the other models are here" if folders else ""
        raise ValueError(f"{'; '.join(problems)}{others}")


def _prompts(args: argparse.Namespace) -> None:
    from omgm.downloads.prompts import SOURCES, download
    from search_agents.wordings import folder

    if args.prompts is None:
        raise ValueError("--prompts-from says where prompts come from; name them with --prompts")
    source, given = SOURCES[args.prompts], args.prompts_from
    if args.dry_run:
        files = ", ".join(source.files or ["(only in the paper)"])
        print(
            f"{args.prompts}: {source.repo}@{source.commit}: {files}" if given is None else f"{args.prompts}: {given}"
        )
        return
    stored = download(args.prompts, None if given is None else existing(given, "--prompts-from"))
    if args.json:
        print_json(stored)
        return
    known = "hashes match" if stored["pinned"] else "not the pinned files; their hashes are recorded"
    print(f"{args.prompts}: {counted(len(stored['prompts']), 'prompt')} from {stored['source']}, {known}")
    print(f"stored in {folder() / args.prompts}.json")


def _report(plans: Sequence[Plan], folders: dict[str, str], to_fetch: int, free: int) -> dict[str, Any]:
    models = [
        {
            "key": plan.model.key,
            "model": plan.model.name,
            "pinned": plan.pinned,
            "bytes": plan.bytes,
            "bytes_to_fetch": plan.bytes_to_fetch,
            "files": [file.name for file in plan.files],
            "verified": plan.model.key in folders,
            "folder": folders.get(plan.model.key),
        }
        for plan in plans
    ]
    return {"models": models, "bytes_to_fetch": to_fetch, "bytes_free": free}


def _base_row(base: Base) -> dict[str, Any]:
    folder = str(base.folder) if base.folder.is_dir() else None
    return {"name": base.name, "pinned": base.pinned, "bytes": base.bytes, "license": base.license, "folder": folder}


def record(args: argparse.Namespace) -> None:
    """Asks queries, opens the first pages of each and keeps all; prints what was recorded and what failed."""
    if args.out is None:
        raise ValueError("--queries needs --out DIR, the folder for what is recorded")
    lines = existing(args.queries, "--queries").read_text(encoding="utf-8").splitlines()
    queries = [line.strip() for line in lines if line.strip()]
    if not queries:
        raise ValueError(f"--queries: {args.queries} has no query")
    agents = profile_of(args).agents
    if not (agents.searxng_url or agents.search_engine):
        raise ValueError("name a search engine: agents.searxng_url, or agents.search_engine (serpapi or duckduckgo)")
    if not agents.contact:
        raise ValueError("agents.contact is needed: hosts refuse software without a contact")

    from omgm.web_access import web_of
    from search_agents.corpus import Corpus

    found = asyncio.run(_record(web_of(agents, Corpus(args.out, record=True)), queries, args.pages))
    kinds = ", ".join(counted(found[kind], kind) for kind in ("search", "page", "screenshot"))
    failed = [f"failed, to be retried by the next run: {name}: {reason}" for name, reason in found["failed"].items()]
    report(args, found, "\n".join([f"{args.out}: {kinds}", *failed]))


async def _record(settings: WebSettings, queries: list[str], pages: int) -> dict[str, Any]:
    from omgm.web_access import WebAccess
    from search_agents.tools.frozen import record_web

    access = WebAccess(settings)
    try:
        assert access.search is not None and access.fetch is not None
        return await record_web(queries, access.search, access.fetch, access.screenshot, pages)
    finally:
        await access.aclose()
