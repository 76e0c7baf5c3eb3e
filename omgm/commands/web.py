"""Record web searches and pages in a folder: `omgm web record`. A replay sends no request."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.agents import add_web, agent_settings
from omgm.commands.common import add_action, add_json, existing, print_json
from omgm.commands.numbers import positive
from retriever.wording import counted

if TYPE_CHECKING:
    from omgm.web_access import WebSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `record` with its arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "Ask queries, open the first pages of each, and keep results, pages and screenshots."
    record = add_action(actions, "record", about)
    record.add_argument("--queries", type=Path, required=True, metavar="FILE", help="one query per line")
    record.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="output folder; results already in it are not requested again",
    )
    record.add_argument("--pages", type=positive, default=5, metavar="N", help="pages opened per query (%(default)s)")
    add_web(record)
    add_json(record)


def run(args: argparse.Namespace) -> None:
    """Records searches and pages, and prints what was recorded and what failed."""
    lines = existing(args.queries, "--queries").read_text(encoding="utf-8").splitlines()
    queries = [line.strip() for line in lines if line.strip()]
    if not queries:
        raise ValueError(f"--queries: {args.queries} has no query")
    if not (args.searxng or args.search_engine):
        raise ValueError("name a search engine: --searxng URL, or --search-engine serpapi or duckduckgo")
    if not args.contact:
        raise ValueError("--contact MAIL is needed: hosts refuse software without a contact")

    from omgm.settings import AgentSettings
    from omgm.web_access import web_of
    from search_agents.corpus import Corpus

    settings = web_of(agent_settings(args, AgentSettings()), Corpus(args.out, record=True))
    report = asyncio.run(_record(settings, queries, args.pages))
    if args.json:
        print_json(report)
        return
    searches, pages = counted(report["search"], "search"), counted(report["page"], "page")
    print(f"{args.out}: {searches}, {pages}, {counted(report['screenshot'], 'screenshot')}")
    for name, reason in report["failed"].items():
        print(f"failed, to be retried by the next run: {name}: {reason}")


async def _record(settings: WebSettings, queries: list[str], pages: int) -> dict[str, Any]:
    from omgm.web_access import WebAccess
    from search_agents.tools.frozen import record_web

    access = WebAccess(settings)
    try:
        assert access.search is not None and access.fetch is not None
        return await record_web(queries, access.search, access.fetch, access.screenshot, pages)
    finally:
        await access.aclose()
