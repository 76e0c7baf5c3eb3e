"""Serve an index over HTTP, with a page at /."""

from __future__ import annotations

import argparse
from pathlib import Path

from omgm.commands.common import add_profile, profile_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument("--index", type=Path, required=True, metavar="INDEX", help="what build-index wrote")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="the port to listen at (%(default)s)")
    parser.add_argument("--examples", type=Path, metavar="DIR", help="a folder of example pictures for the page")


def run(args: argparse.Namespace) -> None:
    """Serves until it is stopped."""
    profile = profile_of(args)

    import uvicorn
    from PIL import Image

    from omgm.parts import build_generator, open_retriever
    from retriever.types import Query
    from serving.app import create_app

    settings = profile.serving
    if args.examples is not None:
        settings = settings.model_copy(update={"examples_dir": args.examples})
    retriever = open_retriever(profile, args.index)
    index = retriever.index
    app = create_app(retriever, index, build_generator(profile), settings)
    retriever.retrieve([Query(Image.new("RGB", (64, 64)), "warm up")])  # a first call pays for lazy set-up
    uvicorn.run(app, host=args.host, port=args.port, log_level="info" if args.verbose else "warning")
