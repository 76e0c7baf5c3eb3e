"""A world of three lands distinguished by the color of their flags: an index, a retriever and a generator for it.

Every score can be worked out by hand: an image's similarity to a land is 1 or 0, a section's is the share of the
question's words that it contains.
"""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from retriever.fusion import fuse
from retriever.types import (
    Candidate,
    Entity,
    Filter,
    FloatArray,
    Generation,
    GenerationRequest,
    IntArray,
    Query,
    RetrievalResult,
    ScoredSection,
    Section,
    StoredTokens,
    TextLine,
)
from tests.fakes.models import FakeEncoder

COLORS = ("red", "green", "blue")
ALPHA = 0.9
HISTORY = (
    "{} was a kingdom for a long time. It became a republic in 1848 — after the Café treaty — and joined the league."
)


def land(color: str, wave_length: int, image: str | None) -> Entity:
    """Returns an article of four sections; its second published section was dropped."""
    title = f"{color.capitalize()}land"
    sections = (
        Section(title, f"{color} is a color", 0),
        Section("Wave", f"the wave length of {color} is {wave_length} nm", 2),
        Section("History", HISTORY.format(title), 3),
        Section("Flag", f"The flag of {title} is of one color.", 4),
    )
    return Entity(f"https://kb/{color}", title, sections, image, f"https://kb.example/{title}")


LANDS = (land("red", 700, "red.png"), land("green", 530, "green.png"), land("blue", 470, None))


def write_images(folder: Path) -> Path:
    """Writes an image of each color, and `broken.jpg`, which is not an image; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for color in COLORS:
        Image.new("RGB", (400, 300), color).save(folder / f"{color}.png")
    (folder / "broken.jpg").write_bytes(b"not an image")
    return folder


class FakeIndex:
    """The three lands, the last without an image.

    Args:
        images: Folder written by `write_images`; without it, there are no thumbnails.
    """

    name = "three lands"

    def __init__(self, images: Path | None = None) -> None:
        self._images = images
        self._vectors = FakeEncoder().encode_texts(COLORS).numpy()

    def __len__(self) -> int:
        return len(LANDS)

    def search(self, vectors: torch.Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        scores = vectors.numpy() @ self._vectors.T
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, rows, axis=1), rows

    def entity(self, row: int) -> Entity:
        return LANDS[row]

    def row_of(self, entity_id: str) -> int | None:
        return next((row for row, entity in enumerate(LANDS) if entity.id == entity_id), None)

    def image_path(self, row: int) -> Path | None:
        image = LANDS[row].image if 0 <= row < len(LANDS) else None
        return self._images / image if self._images and image else None

    def thumbnails(self, row: int) -> dict[str, bytes]:
        path = self.image_path(row)
        return {} if path is None or not path.is_file() else {path.name: path.read_bytes()}

    def section_rows(self, row: int) -> range:
        return range(4 * row, 4 * row + 4) if LANDS[row].image else range(0)

    token_rows = section_rows

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        return StoredTokens(torch.zeros(8, 32, 4), None, np.array([span.start for span in spans]))


class FakeRetriever:
    """Finds lands by color and ranks the section that shares most words with the question first.

    A question with `poison` raises; one with `fatal` ends the retrieval thread.

    Attributes:
        asked: Ids of the answered queries.
        batches: The questions of every batch, answered or not.
        gate: Holds every batch while cleared.
        stop_after: Number of queries after which the process is interrupted.
    """

    def __init__(self, index: FakeIndex | None = None, k: int = 2) -> None:
        self.index = index or FakeIndex()
        self.k = k
        self.asked: list[str] = []
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.stop_after: int | None = None

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.batches.append([query.question for query in queries])
        assert self.gate.wait(20)
        for query in queries:
            if "fatal" in query.question:
                raise SystemExit("out of memory")
            if "poison" in query.question:
                raise RuntimeError("secret internals")
        self.asked += [query.id for query in queries]
        return [self._retrieve(query) for query in queries]

    def _retrieve(self, query: Query) -> RetrievalResult:
        if not query.image.width:
            return RetrievalResult(query.id, self._named(query.question), {"step1": 1.5, "step3": 3.0})
        scores, rows = self.index.search(FakeEncoder().encode_images([query.image]), query.options.k or self.k)
        candidates = [
            Candidate(int(r), sim_c=float(s), score=float(s)) for s, r in zip(scores[0], rows[0], strict=True)
        ]
        rankings = {"step1": [(c.row, c.score) for c in candidates]}
        for c in candidates:
            shared = [share_of_words(query.question, section) for section in LANDS[c.row].sections]
            with_tokens = len(self.index.section_rows(c.row)) > 0
            c.sim_m = max(shared) if with_tokens else None
            c.sections = [ScoredSection(i, s if with_tokens else None, s, s) for i, s in enumerate(shared)]
            c.sections.sort(key=lambda section: -(section.score or 0))
        fused = fuse([c.sim_c for c in candidates], [c.sim_m for c in candidates], ALPHA)
        for c, score in zip(candidates, fused, strict=True):
            c.score = score
        candidates.sort(key=lambda c: -c.score)
        rankings["step2"] = rankings["step3"] = [(c.row, c.score) for c in candidates]
        return RetrievalResult(query.id, candidates, {"step1": 1.5, "step2": 2.25, "step3": 3.0}, rankings)

    def _named(self, question: str) -> list[Candidate]:
        """Returns the lands that a question names, with their sections."""
        candidates = [Candidate(row, score=1.0) for row, land in enumerate(LANDS) if land.title in question]
        for c in candidates:
            shared = [share_of_words(question, section) for section in LANDS[c.row].sections]
            c.sections = [ScoredSection(i, None, s, s) for i, s in enumerate(shared)]
            c.sections.sort(key=lambda section: -(section.score or 0))
        return candidates


def share_of_words(question: str, section: Section) -> float:
    """Returns the share of the question's distinct words that the section contains."""
    words = set(re.findall(r"\w+", question.lower()))
    return len(words & set(re.findall(r"\w+", f"{section.title} {section.text}".lower()))) / (len(words) or 1)


class FakeGenerator:
    """Answers with the last number of the evidence, abstains without one, and fails on a question with `break`."""

    name = "last number"

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [self._generate(request) for request in requests]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        if "break" in request.question:
            yield "18"
        generation = self._generate(request)
        for character in generation.answer or "":
            yield character
        yield generation

    def _generate(self, request: GenerationRequest) -> Generation:
        if "break" in request.question:
            raise ConnectionError("secret address of the server")
        numbers = list(re.finditer(r"\d+", request.evidence.text)) if request.evidence else []
        return Generation(numbers[-1][0], 0.75, numbers[-1].span()) if numbers else Generation(None, 0.125)


class FakeQuoter(FakeGenerator):
    """Answers every question with two lines on an image that is not recognized."""

    LINES = (TextLine("SALE", 0.9, (0.25, 0.25, 0.75, 0.5)), TextLine("today", 0.8, (0.25, 0.5, 0.5, 0.75)))

    def _generate(self, request: GenerationRequest) -> Generation:
        return Generation("SALE\ntoday", 0.85, declined=True, quote=self.LINES)
