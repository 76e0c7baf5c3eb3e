"""Arguments of the commands that run agents."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import add_allow_private

if TYPE_CHECKING:
    from omgm.settings import AgentSettings, Profile

OPTIONS = (
    "planner_url", "model", "searxng", "search_engine", "search_price", "publish_images", "contact", "screenshots",
    "allow_private", "web_corpus", "corpus",
)  # fmt: skip
"""Options of every command with `--mode` that apply only to agents."""


def add_agent(parser: argparse.ArgumentParser, modes: str, corpus: str) -> argparse._ArgumentGroup:
    """Adds `--mode` and `OPTIONS` as a group of arguments and returns the group.

    Args:
        parser: The command's parser.
        modes: The help of `--mode`.
        corpus: The help of `--corpus`.
    """
    agent = parser.add_argument_group("agents", "a chat model plans and calls tools; docs/agents.md")
    agent.add_argument("--mode", metavar="MODE", help=modes)
    agent.add_argument("--planner-url", metavar="URL", help="the chat model's server (generator.base_url)")
    agent.add_argument("--model", metavar="NAME", help="the chat model's name (generator.model)")
    add_web(agent)
    agent.add_argument("--web-corpus", type=Path, metavar="DIR", help="replay web results that omgm web recorded")
    agent.add_argument("--corpus", type=Path, metavar="DIR", help=corpus)
    return agent


def refuse_without_mode(args: argparse.Namespace, options: Iterable[str]) -> None:
    """Rejects options for agents on a command line without `--mode`.

    Raises:
        ValueError: One of the options was given.
    """
    for option in options:
        if getattr(args, option):
            raise ValueError(f"--{option.replace('_', '-')} needs --mode")


def add_web(parser: argparse._ActionsContainer) -> None:
    """Adds the arguments that say what of the web may be used."""
    parser.add_argument("--searxng", default="", metavar="URL", help="search the web with this SearXNG server")
    parser.add_argument(
        "--search-engine",
        choices=["serpapi", "duckduckgo"],
        help="search the web with SerpAPI (key in SERPAPI_API_KEY) or DuckDuckGo",
    )
    parser.add_argument("--search-price", type=float, default=0.0, metavar="MONEY", help="the price of one search")
    parser.add_argument(
        "--publish-images",
        nargs=2,
        metavar=("DIR", "URL"),
        help="reverse image search with SerpAPI: a folder that your web server publishes at this URL",
    )
    parser.add_argument(
        "--contact", default="", metavar="MAIL", help="open web pages; the address goes into the user agent"
    )
    parser.add_argument("--screenshots", action="store_true", help="take screenshots of web pages too; needs Chromium")
    add_allow_private(parser, "web pages")


def agent_settings(args: argparse.Namespace, settings: AgentSettings) -> AgentSettings:
    """Returns a profile's agent settings, overridden by the arguments of `add_web`.

    Raises:
        ValueError: The arguments contradict each other, or one is missing.
    """
    if args.searxng and args.search_engine:
        raise ValueError("--searxng and --search-engine select two engines; use only one of them")
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


def with_model(profile: Profile, url: str | None, model: str | None) -> Profile:
    """Returns a profile with another chat model."""
    given = {key: value for key, value in (("base_url", url), ("model", model)) if value}
    return profile.model_copy(update={"generator": profile.generator.model_copy(update=given)})
