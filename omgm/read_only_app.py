"""The service as one of several processes that serve the same index: it reads the index and follows its changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from omgm.settings import Profile

READ_ONLY = "several processes serve it; change it with `omgm index add`, which they follow"
"""Why `PUT` and `DELETE` are refused: one process may write, and a request reaches any of them."""


def build_read_only_app(profile: Profile, index: Path) -> FastAPI:
    """Returns the service over an index that it only reads, after a first query."""
    from PIL import Image

    from omgm.opening import open_retriever
    from omgm.parts import build_encoder, build_fusion, build_generator
    from omgm.served_agents import agents_of
    from omgm.server import freeze_objects
    from retriever.image_cache import ImageCache
    from retriever.types import Query
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
    retriever.retrieve([Query(Image.new("RGB", (64, 64)), "warm up")])  # the first call is slow: it initializes lazily
    freeze_objects()
    return app
