"""A profile's device decides how its retriever runs."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from PIL import Image

from omgm.parts import build_encoder
from omgm.profile import load_profile
from omgm.served_app import open_service
from retriever.types import Query, ScoredSection
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
