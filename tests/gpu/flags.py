"""A small index of flags built with the embedded models, and questions about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from indexes.builder.summarizers import ExtractiveSummarizer
from indexes.store.index import Index
from omgm.demo import ARCHIVE
from retriever.images import load_image
from retriever.models.bm25 import BM25
from retriever.models.encoder import ClipEncoder
from retriever.models.qformer import QFormerFusion
from retriever.pipeline import Retriever
from retriever.protocols import Step, TextReranker
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.types import Query
from tests.fakes.plans import build_index
from tests.paths import ROOT

COUNTRIES = ("br", "ca", "fr", "jp", "ke", "np", "gb", "za")
WEIGHTS = ROOT / "weights" / "embedded"


@dataclass(frozen=True)
class Models:
    """The embedded models on a device, in float32, in which they must give what they give on a CPU.

    Attributes:
        device: "cpu" or "cuda".
    """

    device: str

    @cached_property
    def encoder(self) -> ClipEncoder:
        """Step 1's model."""
        return ClipEncoder.load(WEIGHTS / "encoder", self.device, torch.float32, fused=True)

    @cached_property
    def fusion(self) -> QFormerFusion:
        """Step 2's model."""
        return QFormerFusion.load(WEIGHTS / "fusion", self.device, torch.float32, fused=True)


def write_flags(folder: Path) -> None:
    """Writes a knowledge base of eight flags: `kb.json` and `images/flag/<code>.png`."""
    images = [f"images/flag/{code}.png" for code in COUNTRIES]
    with ZipFile(ARCHIVE) as demo:
        demo.extractall(folder, images)
        articles = json.loads(demo.read("kb_wiki.json"))
    entries = {url: entry for url, entry in articles.items() if entry["image_urls"][0].endswith(tuple(images))}
    (folder / "kb.json").write_text(json.dumps(entries), encoding="utf-8")


def build_flags(folder: Path, models: Models, out: Path, **changes: Any) -> Index:
    """Builds an index of the knowledge base in `folder`."""
    options: dict[str, Any] = {"candidates": "combined", "image_keys": 2, "tokens": "float16"}
    return build_index(
        folder / "kb.json",
        folder / "images",
        out,
        encoder=models.encoder,
        fusion=models.fusion,
        summarizer=ExtractiveSummarizer(),
        **options | changes,
    )


def flag_queries(count: int) -> list[Query]:
    """Returns questions about photographs of the flags."""
    asked = ("What is the capital of this country?", "Which languages are spoken here?", "How many people live there?")
    with ZipFile(ARCHIVE) as demo:
        photographs = [load_image(demo.read(f"queries/{code}_0.jpg")) for code in COUNTRIES]
    shown = [(photographs[number % len(photographs)], asked[number % len(asked)]) for number in range(count)]
    return [Query(image, question, str(number)) for number, (image, question) in enumerate(shown)]


def retriever_of(index: Any, models: Models, reranker: TextReranker | None = None) -> Retriever[Any]:
    """Returns a pipeline of three steps; step 3 is BM25 unless another reranker is given."""
    steps: list[Step] = [
        EntitySearch(models.encoder, index, k=5),
        FusionRerank(models.fusion, index, alpha=0.75),
        SectionRerank(reranker or BM25(), index, beta=0.2),
    ]
    return Retriever(steps, index, device=index.device)


def rankings(retriever: Retriever[Any], queries: Sequence[Query]) -> list[list[tuple[str, list[int]]]]:
    """Returns each query's entities, best first, each with its sections, best first."""
    return [
        [
            (retriever.index.entity(one.row).id, [section.position for section in one.sections])
            for one in result.candidates
        ]
        for result in retriever.retrieve(queries)
    ]
