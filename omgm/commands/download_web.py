"""Records web searches and pages, to replay them without a request: `omgm download --queries`."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from omgm.commands.common import existing, profile_of, report
from retriever.wording import counted

if TYPE_CHECKING:
    from omgm.web_access import WebSettings


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
