"""Serve an index, or a knowledge base whose index is built first, over HTTP, with a page at /."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.commands.common import (
    add_max_bad,
    add_profile,
    add_reading,
    existing,
    images_of,
    port,
    positive,
    profile_of,
    reading_of,
)
from omgm.replicas import replica_range

if TYPE_CHECKING:
    from indexes.live.editor import Editor
    from indexes.store import Index
    from omgm.settings import Profile
    from retriever.image_cache import ImageCache
    from retriever.pipeline import Retriever
    from retriever.protocols import DualEncoder
    from serving.settings import ServingSettings

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument(
        "--index", type=Path, metavar="INDEX", help="the index that build-index wrote; with --kb, by default KB-index"
    )
    _add_kept_index(parser)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--port", type=port, default=8000, help="the port to listen on (%(default)s)")
    several = parser.add_mutually_exclusive_group()
    several.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="processes that share the port and the cores (1)"
    )
    several.add_argument(
        "--replicas",
        type=replica_range,
        metavar="N",
        help="processes on one or several machines, by Ray Serve, or a range such as 1-4 to follow the load",
    )
    parser.add_argument("--examples", type=Path, metavar="DIR", help="a folder of example images for the page")


def _add_kept_index(parser: argparse.ArgumentParser) -> None:
    """Adds `--kb` and how it is read."""
    parser.add_argument("--kb", type=Path, metavar="FILE", help="a knowledge base; its index is built if it is missing")
    parser.add_argument("--images", type=Path, metavar="DIR", help="its images; by default in it or beside it")
    add_reading(parser)
    add_max_bad(parser)


def kept_index(args: argparse.Namespace, profile: Profile) -> Path:
    """Returns the index to serve, which is built first if `--kb` names a knowledge base.

    Raises:
        ValueError: Neither is named, or the index cannot be built.
    """
    if args.kb is None:
        if args.index is None:
            raise ValueError("name an index with --index, or a knowledge base with --kb")
        return Path(args.index)
    kb, images = existing(args.kb, "--kb"), images_of(args)

    from omgm.kept_index import index_beside, keep_index

    index = args.index or index_beside(kb)
    keep_index(profile, kb, index, images, say=partial(print, flush=True), **reading_of(args))
    return Path(index)


def run(args: argparse.Namespace) -> None:
    """Runs the service until it is stopped."""
    profile = profile_of(args)
    if args.replicas is not None:
        _run_replicas(args, profile)
        return
    limit_threads(profile.serving.model_threads)
    if args.workers > 1:
        _run_workers(args, profile)
        return

    settings = profile.serving
    if args.examples is not None:
        settings = settings.model_copy(update={"examples_dir": args.examples})
    if settings.log_format == "json":
        from serving.logs import log_json

        log_json()  # before anything is logged
    index = kept_index(args, profile)  # before the imports that take seconds

    import uvicorn
    from PIL import Image

    from omgm.parts import build_encoder, build_generator
    from omgm.served_agents import agents_of
    from omgm.server import run_server, server_options
    from retriever.image_cache import ImageCache
    from retriever.types import Query
    from serving.app import create_app
    from serving.protocol import protocol_of
    from serving.tracing import tracer_of_environment

    cache = ImageCache(settings.cache_mib * 2**20)
    shared = cache if settings.cache_mib else None
    encoder = build_encoder(profile, shared)
    retriever, editor = open_service(profile, index, encoder, shared)
    agents, tracer = agents_of(profile, encoder), tracer_of_environment()
    app = create_app(retriever, build_generator(profile, apart=True), settings, editor, cache, agents, tracer)
    retriever.retrieve([Query(Image.new("RGB", (64, 64)), "warm up")])  # the first call is slow: it initializes lazily
    host = f"[{args.host}]" if ":" in args.host else args.host
    warn_if_open(args.host, settings)
    started = f"Serving {index} at http://{host}:{args.port}/ (Ctrl-C stops it)"
    try:
        config = uvicorn.Config(
            app,
            host=args.host,
            port=args.port,
            http=protocol_of(settings, app.state.overload),
            **server_options(settings, args.verbose),
        )
        run_server(config, partial(print, started, flush=True))
    finally:
        if not isinstance(editor, str):
            editor.close()


def _run_workers(args: argparse.Namespace, profile: Profile) -> None:
    """Runs several processes on one socket until they are stopped."""
    from omgm.workers import run_workers

    if args.examples is not None:
        serving = profile.serving.model_copy(update={"examples_dir": args.examples.absolute()})
        profile = profile.model_copy(update={"serving": serving})
    index = kept_index(args, profile)
    warn_if_open(args.host, profile.serving)
    started = f"Serving {index} at http://{args.host}:{args.port}/ with {args.workers} workers (Ctrl-C stops them)"
    announce = partial(print, started, flush=True)
    run_workers(profile, index, args.workers, args.host, args.port, announce, verbose=args.verbose)


def _run_replicas(args: argparse.Namespace, profile: Profile) -> None:
    """Runs several replicas until they are stopped."""
    from omgm.replicas import running_replicas

    if args.examples is not None:
        serving = profile.serving.model_copy(update={"examples_dir": args.examples.absolute()})
        profile = profile.model_copy(update={"serving": serving})
    index = kept_index(args, profile)
    warn_if_open(args.host, profile.serving)
    with running_replicas(profile, index, args.replicas, args.host, args.port):
        print(f"Serving {index} at http://{args.host}:{args.port}/ (Ctrl-C stops it)", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("Stopping the replicas", flush=True)


def open_service(
    profile: Profile, folder: Path, encoder: DualEncoder, cache: ImageCache | None = None
) -> tuple[Retriever[Index], Editor | str]:
    """Opens an index to answer from and to change; if another process changes it or it is read-only, says so instead.

    Args:
        profile: The profile.
        folder: The index's folder.
        encoder: The profile's model of step 1.
        cache: Where that of step 2 keeps what it computes of images.

    Raises:
        ValueError: As `omgm.opening.open_retriever`.
    """
    from indexes.lock import LockedError
    from omgm.opening import open_editor, open_retriever
    from omgm.parts import build_fusion

    fusion = build_fusion(profile, cache)
    try:
        editor = open_editor(profile, folder, encoder, fusion, "serves it")
    except (LockedError, OSError) as error:
        logger.warning("%s cannot be changed here; what another process changes is followed: %s", folder, error)
        # Clients are told this, so it names no path and no process; the log has both.
        why = "another process changes it" if isinstance(error, LockedError) else "its files cannot be written"
        return open_retriever(profile, folder, encoder=encoder, fusion=fusion, live=True), why
    retriever = open_retriever(profile, folder, encoder=encoder, fusion=fusion, index=editor.index)
    editor.models, editor.compact_after = retriever.models, profile.serving.compact_after
    return retriever, editor


def warn_if_open(host: str, settings: ServingSettings) -> None:
    """Says on standard error that anybody may ask, where others can reach the address and no key is set."""
    if host not in ("127.0.0.1", "::1", "localhost") and not settings.read_keys:
        print("Anybody who reaches this address may ask: there are no serving.read_keys (omgm key)", file=sys.stderr)


def limit_threads(count: int | None) -> None:
    """Limits the threads of PyTorch, FAISS and tokenizers; OMP_NUM_THREADS in the environment takes precedence.

    OpenMP reads the variable while they are imported, so this has to come before.
    """
    if count is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(count))
    if count == 1:  # a batch's short texts take longer to hand to other threads than to tokenize
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
