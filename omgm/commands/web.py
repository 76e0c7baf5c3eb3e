"""Freeze searches and pages of the web in a folder: `omgm web record`; a replay sends no request."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import add_action, add_json, existing, positive, print_json
from retriever.wording import counted

if TYPE_CHECKING:
    from omgm.settings import AgentSettings
    from omgm.web_access import WebSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `record` with its arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "Ask queries, open the first pages of each, and keep results, pages and screenshots."
    record = add_action(actions, "record", about)
    record.add_argument("--queries", type=Path, required=True, metavar="FILE", help="one query per line")
    record.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder; what it has is not asked")
    record.add_argument("--pages", type=positive, default=5, metavar="N", help="pages opened per query (%(default)s)")
    add_web(record)
    add_json(record)


def add_web(parser: argparse._ActionsContainer) -> None:
    """Adds the arguments that say what of the web may be used."""
    parser.add_argument("--searxng", default="", metavar="URL", help="search the web by this SearXNG server")
    parser.add_argument(
        "--search-engine",
        choices=["serpapi", "duckduckgo"],
        help="search by SerpAPI, with the key in SERPAPI_API_KEY, or by DuckDuckGo",
    )
    parser.add_argument("--search-price", type=float, default=0.0, metavar="MONEY", help="the price of one search")
    parser.add_argument(
        "--publish-images",
        nargs=2,
        metavar=("DIR", "URL"),
        help="search by image with SerpAPI: a folder that your web server serves at this address",
    )
    parser.add_argument(
        "--contact", default="", metavar="MAIL", help="open web pages, under a user agent that names you"
    )
    parser.add_argument("--screenshots", action="store_true", help="show web pages as images too; needs Chromium")
    parser.add_argument(
        "--allow-private",
        action="append",
        default=[],
        metavar="HOST",
        help="a host (name or name:port) of web pages that may be on a private network; may be repeated",
    )


def agent_settings(args: argparse.Namespace, settings: AgentSettings) -> AgentSettings:
    """Returns a profile's settings of agents, overridden by the arguments of `add_web`.

    Raises:
        ValueError: They contradict each other, or something is missing.
    """
    if args.searxng and args.search_engine:
        raise ValueError("--searxng and --search-engine are two engines; name one")
    if args.publish_images and args.search_engine != "serpapi":
        raise ValueError("--publish-images needs --search-engine serpapi")
    given: dict[str, Any] = {
        "searxng_url": args.searxng,
        "search_engine": args.search_engine or ("searxng" if args.searxng else ""),
        "contact": args.contact,
        "screenshots": args.screenshots,
        "allow_private": tuple(args.allow_private),
    }
    if args.search_engine:
        settings = settings.model_copy(update={"searxng_url": ""})
    if args.publish_images:
        given |= dict(zip(("publish_dir", "publish_url"), args.publish_images, strict=True))
    if args.search_price:
        given["prices"] = settings.prices | dict.fromkeys(("web_search", "web_image_search"), args.search_price)
    corpus: Path | None = getattr(args, "web_corpus", None)
    if corpus is not None:
        given["web_corpus"] = str(corpus)
    settings = settings.model_copy(update={name: value for name, value in given.items() if value})
    if args.screenshots and not settings.contact and not settings.web_corpus:
        raise ValueError("--screenshots needs --contact MAIL")
    return settings


def run(args: argparse.Namespace) -> None:
    """Records, and prints what there is and what failed."""
    lines = existing(args.queries, "--queries").read_text(encoding="utf-8").splitlines()
    queries = [line.strip() for line in lines if line.strip()]
    if not queries:
        raise ValueError(f"--queries: {args.queries} has no query")
    if not (args.searxng or args.search_engine):
        raise ValueError("name a search engine: --searxng URL, or --search-engine serpapi or duckduckgo")
    if not args.contact:
        raise ValueError("--contact MAIL is needed: hosts refuse software without a contact")

    from agents.corpus import Corpus
    from omgm.settings import AgentSettings
    from omgm.web_access import web_of

    settings = web_of(agent_settings(args, AgentSettings()), Corpus(args.out, record=True))
    report = asyncio.run(_record(settings, queries, args.pages))
    if args.json:
        print_json(report)
        return
    searches, pages = counted(report["search"], "search"), counted(report["page"], "page")
    print(f"{args.out}: {searches}, {pages}, {counted(report['screenshot'], 'screenshot')}")
    for name, reason in report["failed"].items():
        print(f"failed, asked again by the next run: {name}: {reason}")


async def _record(settings: WebSettings, queries: list[str], pages: int) -> dict[str, Any]:
    from agents.tools.frozen import record_web
    from omgm.web_access import WebAccess

    access = WebAccess(settings)
    try:
        assert access.search is not None and access.fetch is not None
        return await record_web(queries, access.search, access.fetch, access.screenshot, pages)
    finally:
        await access.aclose()
