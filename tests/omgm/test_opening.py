"""A profile's device decides how its retriever runs."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from omgm.opening import open_retriever
from omgm.parts import _load_sections, build_encoder
from omgm.profile import load_profile
from omgm.served_app import open_service
from retriever.models.bm25 import BM25
from retriever.models.hybrid import HybridReranker
from retriever.step3_sections import SectionRerank
from retriever.types import Query, ScoredSection
from tests.fakes.knowledge_base import build_small_index
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSections
from tests.gpu.pretend import pretend_cuda


def test_a_profile_on_the_cpu_never_asks_for_a_gpu(example_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a GPU, a question to CUDA can take memory of it, in each process of a service."""
    for name, function in inspect.getmembers(torch.cuda, inspect.isfunction):
        if function.__module__.startswith("torch.cuda") and not name.startswith("_"):
            monkeypatch.setattr(torch.cuda, name, _refuse)
    monkeypatch.setattr(torch.cuda, "Stream", _refuse)
    profile = load_profile("embedded", {"device": "cpu"})
    retriever, _ = open_service(profile, example_folder / "index", build_encoder(profile), read_only=True)
    [found] = retriever.retrieve([Query(Image.open(example_folder / "queries" / "jp_0.jpg"), "What is the capital?")])
    assert retriever.index.entity(found.candidates[0].row).title == "Japan"
    assert retriever.in_flight == 1


def test_on_a_gpu_two_batches_at_once_give_the_same_as_one_after_the_other(example_folder: Path) -> None:
    photos = sorted((example_folder / "queries").glob("*.jpg"))[:2]
    queries = [Query(Image.open(photo).convert("RGB"), "What is the capital?", photo.name) for photo in photos]

    def scores(query: Query) -> list[tuple[int, float, list[ScoredSection]]]:
        return [(one.row, one.score, one.sections) for one in retriever.retrieve([query])[0].candidates]

    with pretend_cuda():
        profile = load_profile("embedded", {"device": "cuda", "dtype": "float32"})
        retriever, _ = open_service(profile, example_folder / "index", build_encoder(profile), read_only=True)
        assert retriever.in_flight == 2
        expected = list(map(scores, queries))
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(scores, 2 * queries)) == 2 * expected


def _refuse(*_: object, **__: object) -> None:
    pytest.fail("CUDA was asked")


def test_an_index_without_vectors_of_sections_compares_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("plain", "encoded"):
        (tmp_path / name).mkdir()
    plain = build_small_index(tmp_path / "plain")
    encoded = build_small_index(tmp_path / "encoded", sections=FakeSections())
    profile = load_profile("embedded", {"device": "cpu", "search.candidates": "summary"})
    loaded: list[str] = []

    def load(model: str, *placement: object) -> FakeSections:
        loaded.append(model)
        return FakeSections()

    monkeypatch.setattr("retriever.models.section_encoder.SectionEncoder.load", load)
    _load_sections.cache_clear()
    models: dict[str, Any] = {"encoder": FakeEncoder(), "fusion": FakeFusion()}
    kinds = [open_retriever(profile, folder, **models).steps[-1] for folder in (plain, encoded)]
    assert [type(step.reranker) for step in kinds if isinstance(step, SectionRerank)] == [BM25, HybridReranker]
    assert loaded == ["all-MiniLM-L6-v2"]
    [said] = [record.getMessage() for record in caplog.records if "words only" in record.getMessage()]
    assert str(plain) in said and "omgm build-index --profile embedded" in said and "--overwrite" in said
    _load_sections.cache_clear()
