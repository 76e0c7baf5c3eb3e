"""An evaluation over a knowledge base of three colors, with steps that can be checked by hand."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from evaluation.datasets import Question
from evaluation.run import evaluate
from retriever.fusion import fuse
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

COLORS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
ENTITIES = [
    Entity(
        id=f"https://kb/{name}",
        title=name.capitalize(),
        sections=(
            Section(name.capitalize(), f"{name} is a color", 0),
            Section("Wave", f"the wave length of {name} is {length} nm", 2),
        ),
    )
    for name, length in [("red", 700), ("green", 530), ("blue", 470)]
]


class ColorIndex:
    """An index of ENTITIES, searched by mean color."""

    name = "colors"

    def __len__(self) -> int:
        return len(ENTITIES)

    def search(self, vectors: torch.Tensor, k: int) -> tuple[FloatArray, IntArray]:
        scores: FloatArray = (vectors.numpy() @ (np.array(list(COLORS.values())) / 255).T).astype(np.float32)
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, rows, axis=1), rows

    def entity(self, row: int) -> Entity:
        return ENTITIES[row]

    def row_of(self, entity_id: str) -> int | None:
        return next((row for row, entity in enumerate(ENTITIES) if entity.id == entity_id), None)

    def image_path(self, row: int) -> Path | None:
        return None

    def section_rows(self, row: int) -> range:
        return range(2 * row, 2 * row + 2)

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        raise AssertionError("these steps have no tokens")


def overlap(question: str, text: str) -> float:
    words = set(re.findall(r"\w+", question.lower()))
    return len(words & set(text.lower().split())) / len(words)


class Steps:
    """A retriever: step 1 by mean color, steps 2 and 3 by shared words; fails on the word `stumble`."""

    def __init__(self) -> None:
        self.index = ColorIndex()
        self.asked: list[str] = []
        self.stop_after: int | None = None

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        if any("stumble" in query.question for query in queries):
            raise RuntimeError("stumbled")
        self.asked += [query.id for query in queries]
        return [self._one(query) for query in queries]

    def _one(self, query: Query) -> RetrievalResult:
        mean = np.asarray(query.image, np.float64).mean(axis=(0, 1))[None].astype(np.float32) / 255
        scores, rows = self.index.search(torch.from_numpy(mean), 2)
        candidates = [Candidate(int(r), sim_c=s, score=s) for s, r in zip(scores[0], rows[0], strict=True)]
        rankings = {"step1": [(c.row, c.score) for c in candidates]}
        for c in candidates:
            texts = [section.text for section in ENTITIES[c.row].sections]
            c.sections = [ScoredSection(i, sim_m=overlap(query.question, text)) for i, text in enumerate(texts)]
            c.sim_m = max(s.sim_m or 0.0 for s in c.sections)
        for c, score in zip(
            candidates, fuse([c.sim_c for c in candidates], [c.sim_m for c in candidates], 0.9), strict=True
        ):
            c.score = score
        candidates.sort(key=lambda c: -c.score)
        rankings["step2"] = [(c.row, c.score) for c in candidates]
        for s in candidates[0].sections:
            s.sim_t = s.sim_m
            s.score = s.sim_m
        candidates[0].sections.sort(key=lambda s: -(s.score or 0.0))
        rankings["step3"] = rankings["step2"]
        return RetrievalResult(query.id, candidates, {"step1": 1.0, "step2": 2.0, "step3": 3.0}, rankings)


class LastNumber:
    """A generator: answers with the evidence's last number, abstains without one, fails on the word `break`."""

    name = "last number"

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [self._one(request) for request in requests]

    def _one(self, request: GenerationRequest) -> Generation:
        if "break" in request.question:
            raise ConnectionError("server gone")
        assert request.evidence is not None
        numbers = list(re.finditer(r"\d+", request.evidence.text))
        return Generation(numbers[-1][0], 0.5, numbers[-1].span()) if numbers else Generation(None)

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        yield self._one(request)


def ask(number: int, color: str, question: str, answer: str = "1", **changes: Any) -> Question:
    fields: dict[str, Any] = {
        "question_type": "templated",
        "data_split": "val",
        "category": "colors",
        "section_index": 2,
    } | changes
    return Question(f"q{number}", question, color, (answer,), (f"https://kb/{color}",), **fields)


WAVE = "What is the wave length <b>here</b>?"
QUESTIONS = [
    ask(0, "red", WAVE, "700"),
    ask(1, "green", WAVE, "530"),
    ask(2, "blue", WAVE, "999"),  # wrong answer
    ask(3, "absent", WAVE),  # no image
    ask(4, "red", "Make it stumble"),  # retrieval fails
    ask(5, "green", "What wave length would break it?", "530"),  # the generator fails
    ask(6, "blue", "Is this a color?", section_index=0),  # abstains
    ask(7, "broken", WAVE),  # unreadable image
    ask(8, "red", WAVE, "700", section_index=None, category="other"),
    Question("q9", WAVE, "green", ("530",), ("https://kb/black",), 2, "automatic", "val", "colors"),  # not in the index
]


def write_images(folder: Path) -> Path:
    folder.mkdir()
    for name, color in COLORS.items():
        Image.new("RGB", (400, 300), color).save(folder / f"{name}.png")
    (folder / "broken.jpg").write_bytes(b"not an image")
    return folder


def run(
    steps: Steps, images: Path, out: Path, questions: Sequence[Question] = QUESTIONS, **changes: Any
) -> dict[str, Any]:
    options: dict[str, Any] = {"batch_size": 4, "generator": LastNumber(), "settings": {"alpha": 0.9}} | changes
    return evaluate(
        steps,
        options.pop("generator"),
        questions,
        images,
        out,
        dataset="evqa",
        profile_name="colors",
        index_info={"entities": 3},
        progress=False,
        **options,
    )


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
