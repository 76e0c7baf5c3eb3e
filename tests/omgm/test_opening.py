"""A profile's device decides how its retriever runs, which gives the same results with and without a cache."""

from __future__ import annotations

import inspect
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from omgm.kinds.sections import _load
from omgm.opening import open_retriever
from omgm.parts import build_encoder
from omgm.profile import load_profile
from omgm.served_app import open_service
from retriever.borders import RULE
from retriever.image_cache import ImageCache, set_content
from retriever.models.bm25 import BM25
from retriever.models.hybrid import HybridReranker
from retriever.step3_sections import SectionRerank
from retriever.types import Query, RetrievalResult, ScoredSection
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


@pytest.mark.slow
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
    _load.cache_clear()
    models: dict[str, Any] = {"encoder": FakeEncoder(), "fusion": FakeFusion()}
    kinds = [open_retriever(profile, folder, **models).steps[-1] for folder in (plain, encoded)]
    assert [type(step.reranker) for step in kinds if isinstance(step, SectionRerank)] == [BM25, HybridReranker]
    assert loaded == ["all-MiniLM-L6-v2"]
    [said] = [record.getMessage() for record in caplog.records if "words only" in record.getMessage()]
    assert str(plain) in said and "omgm build-index --profile embedded" in said and "--overwrite" in said
    _load.cache_clear()


def scores(results: list[RetrievalResult]) -> list[tuple[int, float | None, float | None]]:
    return [(c.row, c.sim_c, c.sim_m) for result in results for c in result.candidates]


def test_questions_about_one_image_share_its_encoding(example_folder: Path) -> None:
    cache = ImageCache(2**24)
    profile = load_profile("embedded")
    plain = open_retriever(profile, example_folder / "index")
    caching = open_retriever(profile, example_folder / "index", cache=cache)

    def photo(name: str) -> Image.Image:
        image = Image.open(example_folder / "queries" / name).convert("RGB")
        set_content(image, name)
        return image

    asked = [("jp_0.jpg", "What is the capital?"), ("fr_0.jpg", "Who lives here?"), ("jp_0.jpg", "How large is it?")]
    queries = [Query(photo(name), question) for name, question in asked]
    expected = scores(plain.retrieve(queries))
    for _ in range(2):  # the second time, nothing is computed from images
        found = scores(caching.retrieve(queries))
        assert [row for row, _, _ in found] == [row for row, _, _ in expected]
        for (_, *some), (_, *others) in zip(found, expected, strict=True):
            assert some == pytest.approx(others, abs=5e-4)  # the batch size affects bfloat16 rounding
    for step in ("step1", "step2"):
        assert cache.counts[step, "miss"] == 2
        assert cache.counts[step, "hit"] >= 2  # more if threads share a batch


@pytest.mark.slow
def test_a_part_of_an_image_is_not_taken_for_the_whole(example_folder: Path) -> None:
    profile = load_profile("embedded")
    plain = open_retriever(profile, example_folder / "index")
    caching = open_retriever(profile, example_folder / "index", cache=ImageCache(2**24))
    left, right = (Image.open(example_folder / "queries" / name).convert("RGB") for name in ("jp_0.jpg", "fr_0.jpg"))
    whole = Image.new("RGB", (left.width + right.width, max(left.height, right.height)))
    whole.paste(left)
    whole.paste(right, (left.width, 0))
    set_content(whole, "both")
    # what agents search with: regions, and whole images that they rotated
    shown = [whole.crop((left.width, 0, left.width + right.width, right.height)), whole.rotate(180), whole]
    for image in shown:
        query = Query(image, "What is the capital?")
        found, expected = scores(caching.retrieve([query])), scores(plain.retrieve([query]))
        assert np.asarray(found) == pytest.approx(np.asarray(expected), abs=1e-5)  # parts are encoded in other batches


def test_an_index_without_keys_within_borders_says_so(
    example_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    profile, folder = load_profile("embedded"), tmp_path / "index"
    shutil.copytree(example_folder / "index", folder)
    open_retriever(profile, folder)
    assert "borders" not in caplog.text
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["inputs"].pop("borders") == RULE
    (folder / "manifest.json").write_text(json.dumps(manifest))
    open_retriever(profile, folder)
    assert "built without keys of its images within their borders" in caplog.text
    assert "omgm build-index --profile embedded --overwrite" in caplog.text
