"""A whole small service for tests: flags told apart by color, their articles, a reader of years, a server."""

from __future__ import annotations

import base64
import io
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI
from PIL import Image

from retriever.protocols import Generator
from retriever.types import (
    Candidate,
    Entity,
    FloatArray,
    Generation,
    GenerationRequest,
    IntArray,
    Query,
    RetrievalResult,
    ScoredSection,
    Section,
    StoredTokens,
)
from serving.app import create_app
from serving.settings import ServingSettings

COLORS = {"Redland": (200, 30, 40), "Greenland": (30, 140, 60), "Blueland": (30, 60, 180)}
HISTORY = (
    "{} was a kingdom for a long time. It became a republic in 1848 — after the Café treaty — and joined the league."
)


def picture(color: tuple[int, ...], size: tuple[int, int] = (60, 40), format: str = "PNG", **options: Any) -> bytes:
    """Returns an image file of one color."""
    buffer = io.BytesIO()
    Image.new("RGB" if len(color) == 3 else "RGBA", size, color).save(buffer, format, **options)
    return buffer.getvalue()


def data_uri(data: bytes) -> str:
    """Returns `data` as a data URI of a PNG."""
    return "data:image/png;base64," + base64.b64encode(data).decode()


class FlagIndex:
    """Three entities; the last has no picture."""

    def __init__(self, folder: Path) -> None:
        self.name = "three flags"
        self.entities = []
        for name, color in COLORS.items():
            (folder / f"{name}.png").write_bytes(picture(color))
            sections = (
                Section("History", HISTORY.format(name), 1),
                Section("Flag", f"The flag of {name} is of one color.", 3),
            )
            self.entities.append(Entity(f"kb/{name}", name, sections, f"{name}.png", f"https://kb.example/{name}"))
        (folder / "Blueland.png").unlink()
        self.folder = folder

    def __len__(self) -> int:
        return len(self.entities)

    def row_of(self, entity_id: str) -> int | None:
        return next((row for row in range(len(self)) if self.entity(row).id == entity_id), None)

    def entity(self, row: int) -> Entity:
        return self.entities[row]

    def image_path(self, row: int) -> Path | None:
        path = self.folder / str(self.entities[row].image)
        return path if path.is_file() else None

    def search(self, vectors: torch.Tensor, k: int) -> tuple[FloatArray, IntArray]:
        colors = np.array(list(COLORS.values()), np.float32)
        scores = 1 - np.linalg.norm(vectors.numpy()[:, None] - colors, axis=-1) / 255
        rows = np.argsort(-scores, axis=1)[:, :k]
        return np.take_along_axis(scores, rows, axis=1), rows

    def section_rows(self, row: int) -> range:
        return range(2 * row, 2 * row + 2)

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        return StoredTokens(torch.zeros(6, 32, 4), None, np.array([span.start for span in spans]))


class ColorRetriever:
    """Retrieves by mean color; ranks the section that shares most words with the question first.

    A question with `poison` raises, one with `fatal` ends the worker; `gate`, when cleared, holds every batch.
    """

    def __init__(self, index: FlagIndex) -> None:
        self.index = index
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[list[str]] = []

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        self.batches.append([query.question for query in queries])
        assert self.gate.wait(20)
        questions = " ".join(query.question for query in queries)
        if "fatal" in questions:
            raise SystemExit("out of memory")
        if "poison" in questions:
            raise RuntimeError("secret internals")
        return [self._one(query) for query in queries]

    def _one(self, query: Query) -> RetrievalResult:
        vector = np.asarray(query.image, np.float32).reshape(-1, 3).mean(0, keepdims=True)
        scores, rows = self.index.search(torch.from_numpy(vector), query.options.k or 20)
        candidates = []
        for score, row in zip(scores[0].tolist(), rows[0].tolist(), strict=True):
            sections = [
                ScoredSection(position, sim_m=score / 2, sim_t=sim_t, score=sim_t)
                for position, section in enumerate(self.index.entity(row).sections)
                for sim_t in [_overlap(query.question, section)]
            ]
            sections.sort(key=lambda section: -(section.score or 0))
            has_picture = self.index.image_path(row) is not None
            candidates.append(Candidate(row, score, score / 2 if has_picture else None, score, sections))
        return RetrievalResult(query.id, candidates, {"search": 1.5, "rerank": 2.25})


def _overlap(question: str, section: Section) -> float:
    words = set(re.findall(r"\w+", question.lower()))
    return len(words & set(re.findall(r"\w+", f"{section.title} {section.text}".lower()))) / (len(words) or 1)


class YearReader:
    """A generator that answers with the first year of the evidence."""

    name = "year reader"

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [_year(request) for request in requests]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        if "choke" in request.question:
            yield "18"
            raise RuntimeError("secret internals")
        for digit in _year(request).answer or "":
            yield digit
        yield _year(request)


def _year(request: GenerationRequest) -> Generation:
    found = re.search(r"\b\d{4}\b", request.evidence.text) if request.evidence else None
    return Generation(found[0], 0.75, found.span()) if found else Generation(None, 0.125)


class World:
    """One service with all its parts, and the address it listens at."""

    def __init__(
        self, folder: Path, settings: ServingSettings | None = None, generator: Generator | None = None
    ) -> None:
        self.index = FlagIndex(folder)
        self.retriever = ColorRetriever(self.index)
        self.app = create_app(self.retriever, generator or YearReader(), settings or ServingSettings())
        self.url = ""


@contextmanager
def served(
    folder: Path, settings: ServingSettings | None = None, generator: Generator | None = None
) -> Iterator[World]:
    """Yields a service that listens on a free loopback port."""
    world = World(folder, settings, generator)
    with listening(world.app) as world.url:
        yield world
        world.retriever.gate.set()


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """Yields the address of a real server for `app`, which runs in a thread."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(15)
