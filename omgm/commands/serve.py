"""Serve an index over HTTP, with a page at /; with --kb, build the index first."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.addresses import check_address
from omgm.commands.common import (
    add_max_bad,
    add_profile,
    add_reading,
    existing,
    images_of,
    profile_of,
    reading_of,
    report,
)
from omgm.commands.numbers import port, positive, replica_range
from omgm.hangups import exit_if_hung_up, outlive_hangups

if TYPE_CHECKING:
    from omgm.settings import Profile
    from serving.settings import ServingSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    parser.add_argument(
        "--index",
        type=Path,
        metavar="INDEX",
        help="the index that build-index wrote, a part, a copy in an object store (s3://…), or the addresses of parts; "
        "with --kb, by default KB-index",
    )
    _add_kept_index(parser)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--port", type=port, default=8000, help="the port to listen on (%(default)s)")
    several = parser.add_mutually_exclusive_group()
    several.add_argument(
        "--workers", type=positive, metavar="N", help="processes that run the models (by default, serving.processes)"
    )
    several.add_argument(
        "--replicas",
        type=replica_range,
        metavar="N",
        help="Ray Serve replicas on one or several machines, or a range such as 1-4 to scale with the load",
    )
    parser.add_argument("--new-key", action="store_true", help="print a random API key and its digest, and stop")
    parser.add_argument("--json", action="store_true", help="print the key as JSON")


def _add_kept_index(parser: argparse.ArgumentParser) -> None:
    """Adds `--kb` and the options for reading it."""
    parser.add_argument("--kb", type=Path, metavar="FILE", help="a knowledge base; its index is built if it is missing")
    parser.add_argument("--images", type=Path, metavar="DIR", help="its images; by default in or next to it")
    add_reading(parser)
    add_max_bad(parser)


def kept_index(args: argparse.Namespace, profile: Profile) -> Path:
    """Returns the index to serve; builds it first if `--kb` is given.

    Raises:
        ValueError: Neither `--index` nor `--kb` is given, or the index cannot be built.
    """
    if args.kb is None:
        if args.index is None:
            raise ValueError("name an index with --index, or a knowledge base with --kb")
        return Path(args.index)
    kb, images = existing(args.kb, "--kb"), images_of(args)

    from omgm.indexing import Build
    from omgm.kept_index import index_beside, keep_index

    index = args.index or index_beside(kb)
    order = Build(kb=kb, out=Path(index), images=images, **reading_of(args))
    keep_index(profile, order, say=partial(print, flush=True))
    return Path(index)


def _here(index: Path) -> Path:
    """Returns the folder of an index; one in an object store is fetched into the user's cache, unless it is there."""
    if ":" not in index.parts[0] or index.exists():
        return index
    from indexes.parts.buckets import bucket_of, fetch_copy
    from omgm.kinds import in_parts  # imports PyTorch: see `limit_threads`
    from retriever.files import cache_folder

    url = None if in_parts(index) else bucket_of(index)
    return index if url is None else fetch_copy(url, cache_folder() / "indexes")


def run(args: argparse.Namespace) -> None:
    """Runs the service until it is stopped."""
    if args.new_key:
        _print_key(args)
        return
    if args.json:
        raise ValueError("--json prints a new key; add --new-key")
    profile = _with_workers(profile_of(args), args.workers)
    outlive_hangups()  # already while the models are loaded
    if profile.serving.log_format == "json":
        from serving.logs import log_json

        log_json()  # before anything is logged
    if args.replicas is None:
        limit_threads(profile.serving.model_threads)
    if args.replicas is None:  # with replicas, Ray does the listening
        check_address(args.host, args.port)
    index = _here(kept_index(args, profile))  # before the imports that take seconds
    if (index / "part.json").is_file():
        _run_part(args, profile, index)
        return
    warn_if_open(args.host, profile.serving)
    announce = partial(print, f"Serving {index} at {_address(args)} (Ctrl-C stops it)", flush=True)
    if args.replicas is not None:
        _run_replicas(args, profile, index, announce)
    else:
        _run_alone(args, profile, index, announce)


def _address(args: argparse.Namespace) -> str:
    host = f"[{args.host}]" if ":" in args.host else args.host
    return f"http://{host}:{args.port}/"


def _with_workers(profile: Profile, workers: int | None) -> Profile:
    """Returns a profile whose models run in so many processes.

    Raises:
        ValueError: They run on a GPU, where several processes would not be faster than one.
    """
    if workers is None:
        return profile
    from omgm.profile import device_of

    if device_of(profile) != "cpu":
        raise ValueError(
            f"--workers shares the cores of a CPU, but with device = {profile.device!r} the models run on the GPU; "
            "use --replicas, or --set device=cpu"
        )
    return profile.model_copy(update={"serving": profile.serving.model_copy(update={"processes": workers})})


def _print_key(args: argparse.Namespace) -> None:
    """Prints a new key and its digest; neither is stored."""
    from serving.keys import digest_of, new_key

    key = new_key()
    advice = "Give the key to its user, and the digest to the service: serving.read_keys or serving.write_keys."
    report(args, {"key": key, "sha256": digest_of(key)}, f"key     {key}\nsha256  {digest_of(key)}\n{advice}")


def _run_alone(args: argparse.Namespace, profile: Profile, index: Path, announce: Callable[[], None]) -> None:
    """Runs the service in this process until it is stopped."""
    import uvicorn

    from omgm.kinds import in_parts
    from omgm.served_app import build_app
    from omgm.server import run_server, server_options
    from serving.protocol import protocol_of

    settings = profile.serving
    if args.workers and in_parts(index):
        raise ValueError("--workers does not apply to an index in parts: the models run in the front's own process")
    app, editor = build_app(profile, index, read_only=False)
    protocol, options = protocol_of(settings, app.state.overload), server_options(settings, args.verbose)
    try:
        run_server(uvicorn.Config(app, host=args.host, port=args.port, http=protocol, **options), announce)
    finally:
        if not isinstance(editor, str):
            editor.close()


def _run_part(args: argparse.Namespace, profile: Profile, folder: Path) -> None:
    """Serves a part of an index to fronts until it is stopped."""
    import uvicorn

    from omgm.part_server import part_app
    from omgm.server import run_server, server_options

    announce = partial(print, f"Serving {folder} to fronts at {_address(args)} (Ctrl-C stops it)", flush=True)
    options = server_options(profile.serving, args.verbose)
    app = part_app(folder, profile.serving.compact_after)
    run_server(uvicorn.Config(app, host=args.host, port=args.port, **options), announce)


def _run_replicas(args: argparse.Namespace, profile: Profile, index: Path, announce: Callable[[], None]) -> None:
    """Runs several replicas until they are stopped."""
    from omgm.replicas import running_replicas

    with running_replicas(profile, index, args.replicas, args.host, args.port):
        announce()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("Stopping the replicas", flush=True)
    exit_if_hung_up()


def warn_if_open(host: str, settings: ServingSettings) -> None:
    """Warns on standard error if the address may be reachable from other machines and there are no keys."""
    if host not in ("127.0.0.1", "::1", "localhost") and not settings.read_keys:
        print(
            "Anybody who can reach this address may ask: serving.read_keys is not set (omgm serve --new-key)",
            file=sys.stderr,
        )


def limit_threads(count: int | None) -> None:
    """Limits the threads of PyTorch, FAISS and tokenizers; OMP_NUM_THREADS in the environment takes precedence.

    OpenMP reads the variable when these libraries are imported, so call this before.
    """
    if count is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(count))
    if count == 1:  # handing a batch's short texts to other threads takes longer than tokenizing them
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
