"""Serve an index to language models: an MCP server over stdio, or over HTTP."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from omgm.addresses import check_address
from omgm.commands.common import add_index, add_profile, existing, profile_of
from omgm.commands.numbers import port
from omgm.commands.serve import limit_threads, warn_if_open


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_index(parser)
    parser.add_argument("--http", action="store_true", help="serve streamable HTTP at /mcp instead of stdio")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on with --http (%(default)s)")
    parser.add_argument("--port", type=port, default=8765, help="the port to listen on with --http (%(default)s)")


def run(args: argparse.Namespace) -> None:
    """Runs the server until its client disconnects, or with `--http` until it is stopped.

    Raises:
        ValueError: The index does not exist or does not match the profile, or the extra is not installed.
    """
    profile = profile_of(args)
    if args.http:
        check_address(args.host, args.port)
    limit_threads(profile.serving.model_threads)
    if not args.index.exists():
        from omgm.kinds import in_parts

        if not in_parts(args.index):
            existing(args.index, "--index")
    try:
        from omgm.mcp_http import http_app
        from omgm.mcp_server import build_server
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        raise ValueError('omgm mcp needs the extra mcp: pip install "omgm[mcp]"') from error

    from omgm.agent import Agent, access_of
    from omgm.api import OMGM
    from omgm.kinds.chat import build_planner
    from omgm.parts import build_encoder
    from omgm.regions import build_proposer
    from search_agents.model import ChatPlanner

    settings = profile.serving
    chat = profile.generator.base_url and profile.generator.model
    planner = ChatPlanner(build_planner(profile)) if chat else None
    encoder = build_encoder(profile)
    propose = build_proposer(profile, encoder) if planner and profile.agents.propose_regions else None
    with (
        OMGM.open(args.index, profile, encoder=encoder) as omgm,
        Agent(omgm, planner, propose=propose, **access_of(profile.agents)) as agent,
    ):
        server = build_server(omgm, settings, paths=not args.http, agent=agent, limits=profile.agents)
        if not args.http:
            server.run("stdio")
            return
        import uvicorn

        from omgm.server import run_server
        from serving.protocol import protocol_of

        warn_if_open(args.host, settings)
        host = f"[{args.host}]" if ":" in args.host else args.host
        started = f"Serving {args.index} at http://{host}:{args.port}/mcp (Ctrl-C stops it)"
        level = "info" if args.verbose else "warning"
        app, http = http_app(server, settings, args.host), protocol_of(settings)
        config = uvicorn.Config(
            app, host=args.host, port=args.port, http=http, ws="none", log_level=level, access_log=False
        )
        run_server(config, partial(print, started, file=sys.stderr, flush=True))
