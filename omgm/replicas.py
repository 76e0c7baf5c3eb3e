"""Several replicas of the service behind one address, by Ray Serve (extra `ray`): `omgm serve --replicas`.

Each replica is a process with its own models, index and admission. Ray sends a request to one of them, restarts those
that die, and with a range of replicas adds some while requests wait.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexes.ray_address import connect

if TYPE_CHECKING:
    from fastapi import FastAPI

    from omgm.settings import Profile

READ_ONLY = "several replicas serve it; change it with `omgm index add`, which they follow"
"""Why `PUT` and `DELETE` are refused: one process may write, and a request reaches any replica."""


def replica_range(text: str) -> tuple[int, int]:
    """Parses a number of replicas, such as "2", or a range, such as "1-4".

    Raises:
        argparse.ArgumentTypeError: It is neither.
    """
    least, dash, most = text.partition("-")
    try:
        numbers = int(least), int(most if dash else least)
    except ValueError:
        numbers = 0, 0
    if not 1 <= numbers[0] <= numbers[1]:
        raise argparse.ArgumentTypeError(f"expected a number of replicas or a range such as 1-4, got {text!r}")
    return numbers


def start_replicas(profile: Profile, index: Path, replicas: tuple[int, int], host: str, port: int) -> None:
    """Starts the replicas, on the Ray cluster that RAY_ADDRESS names or on this machine; returns once they serve.

    Raises:
        ValueError: The extra `ray` is not installed, or there is no such cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
    try:
        import ray
        from ray import serve
    except ImportError as error:
        raise ValueError('--replicas needs the extra ray: pip install "omgm[ray]"') from error
    settings = profile.serving
    address = os.environ.get("RAY_ADDRESS") or "local"
    if address != "local":
        connect(address, "RAY_ADDRESS")
    elif not ray.is_initialized():
        ray.init(address, include_dashboard=False, log_to_driver=False)
    # A replica refuses for itself, by the time that a request would wait; Ray's own queue stays short.
    options: dict[str, Any] = {
        "max_ongoing_requests": settings.max_queue + 2 * settings.max_batch,
        "graceful_shutdown_timeout_s": settings.timeout_s,
        "ray_actor_options": {"num_cpus": settings.model_threads or 1, "num_gpus": int("cuda" in profile.device)},
    }
    if replicas[0] == replicas[1]:
        options["num_replicas"] = replicas[0]
    else:
        scaling = {"min_replicas": replicas[0], "max_replicas": replicas[1]}
        options["autoscaling_config"] = scaling | {"target_ongoing_requests": settings.max_batch}
    seconds = settings.upload_timeout_s + settings.timeout_s
    serve.start(http_options={"host": host, "port": port, "request_timeout_s": seconds + 10})
    folder = index.absolute()

    def build() -> FastAPI:  # Ray takes nothing but a function
        return build_app(profile, folder)

    replica: Any = serve.deployment(name="replica", **options)(serve.ingress(build)(Replica))
    serve.run(replica.bind(), name="omgm")


class Replica:
    """One process of the service; Ray gives it the application."""


def build_app(profile: Profile, index: Path) -> FastAPI:
    """Returns the service over an index that it only reads; runs in a replica."""
    from omgm.parts import build_encoder, build_fusion, build_generator, open_retriever
    from omgm.served_agents import agents_of
    from omgm.server import freeze_objects
    from retriever.image_cache import ImageCache
    from serving.app import create_app
    from serving.logs import log_json
    from serving.tracing import tracer_of_environment

    if profile.serving.log_format == "json":
        log_json()
    cache = ImageCache(profile.serving.cache_mib * 2**20)
    shared = cache if profile.serving.cache_mib else None
    encoder, fusion = build_encoder(profile, shared), build_fusion(profile, shared)
    retriever = open_retriever(profile, index, encoder=encoder, fusion=fusion, live=True)
    agents, tracer = agents_of(profile, encoder), tracer_of_environment()
    generator = build_generator(profile, apart=True)
    app = create_app(retriever, generator, profile.serving, READ_ONLY, cache, agents, tracer)
    freeze_objects()
    return app


def stop_replicas() -> None:
    """Stops the replicas, and Ray where it was started for them."""
    import ray
    from ray import serve

    serve.shutdown()
    ray.shutdown()
