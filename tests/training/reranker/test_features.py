"""Features of a frozen tower: augmented views, shards on disk, and resuming."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.knowledge.sources import FolderImages
from indexes.store.article_store import ArticleImages
from indexes.store.articles import open_articles
from retriever.models.qformer import QFormerFusion
from tests.fakes.builds import build
from tests.fakes.knowledge_base import write_kb
from training.processes import Processes
from training.reranker import image_store
from training.reranker.features import augment, compute_features
from training.reranker.image_store import FeatureStore, ImageName, ImageTable

COLORS = ["red", "green", "blue", "black", "white"]


@pytest.fixture
def images(tmp_path: Path) -> ImageTable:
    for color in COLORS:
        Image.new("RGB", (20, 20), color).save(tmp_path / f"{color}.png")
    (tmp_path / "black.png").write_bytes(b"no image")
    half = Image.new("RGB", (20, 20), "blue")
    half.paste("yellow", (0, 0, 10, 20))
    half.save(tmp_path / "blue.png")
    names = [ImageName("query", str(tmp_path / "red.png")), *(ImageName("article", f"{c}.png") for c in COLORS[1:])]
    (tmp_path / "world").mkdir()
    kb, _ = write_kb(tmp_path / "world")
    index = build(kb, None, tmp_path / "index").folder
    return ImageTable(names, ArticleImages(open_articles(index), FolderImages(tmp_path)))


def compute(
    fusion: QFormerFusion, images: ImageTable, folder: Path, views: list[int], workers: int = 0
) -> FeatureStore:
    return compute_features(fusion, images, np.array(views), folder, seed=0, workers=workers, processes=Processes())


def test_an_augmented_image_keeps_most_of_the_area() -> None:
    image = Image.new("RGB", (60, 40), "orange")
    view = augment(image, random.Random(1))
    assert view.mode == "RGB"
    assert 0.65 * 2400 < view.width * view.height <= 2400
    assert augment(image, random.Random(1)).tobytes() == view.tobytes()


def test_features_are_the_tower_s(
    blip2_folder: Path, images: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_store, "SHARD_IMAGES", 2)
    fusion = QFormerFusion.load(blip2_folder)
    store = compute(fusion, images, tmp_path / "f", [3, 1, 2, 1, 1])
    assert store.shape == (17, 24)  # a 4 x 4 grid and the class token
    assert [len(shard) for shard in store.shards()] == [2, 2, 1]
    assert store.nbytes == sum(file.stat().st_size for file in (tmp_path / "f").glob("*.bin")) == 8 * 17 * 24 * 2
    found = store.read([4, 0, 2, 2], [0, 0, 0, 1])
    assert found.dtype == torch.bfloat16
    with torch.no_grad():
        for row, color in ((0, "white"), (1, "red")):
            plain = fusion.vision_features(fusion.pixels([Image.new("RGB", (20, 20), color)]))[0]
            torch.testing.assert_close(found[row].float(), plain, atol=0.05, rtol=0.01)
    assert not torch.equal(found[2], found[3])  # another view
    problems = store.unreadable()
    assert list(problems) == [3] and "black.png" in problems[3]


def test_a_killed_run_computes_only_what_is_missing(
    blip2_folder: Path, images: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_store, "SHARD_IMAGES", 2)
    fusion = QFormerFusion.load(blip2_folder)
    whole = compute(fusion, images, tmp_path / "f", [2] * 5)
    before = {file.name: file.read_bytes() for file in whole.folder.iterdir()}
    (whole.folder / "00001.bin").unlink()
    times = {name: (whole.folder / name).stat().st_mtime_ns for name in ("00000.bin", "00002.bin")}
    compute(fusion, images, tmp_path / "f", [2] * 5)
    assert {file.name: file.read_bytes() for file in whole.folder.iterdir()} == before
    assert {name: (whole.folder / name).stat().st_mtime_ns for name in times} == times
    compute(fusion, images, tmp_path / "f", [1] * 5)  # different views: recomputed
    assert (whole.folder / "00000.bin").stat().st_size == 2 * 17 * 24 * 2


@pytest.mark.slow
def test_worker_processes_change_nothing(blip2_folder: Path, images: ImageTable, tmp_path: Path) -> None:
    fusion = QFormerFusion.load(blip2_folder)
    alone = compute(fusion, images, tmp_path / "alone", [2] * 5)
    helped = compute(fusion, images, tmp_path / "helped", [2] * 5, workers=1)
    rows, views = [0, 0, 1, 4], [0, 1, 1, 0]
    assert torch.equal(alone.read(rows, views), helped.read(rows, views))
    assert alone.unreadable() == helped.unreadable()


def test_a_disk_that_is_too_small_is_named(
    blip2_folder: Path, images: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 100})()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(ValueError, match=r"images need 0\.0 GiB, but only 0\.0 GiB are free; choose a larger disk"):
        compute(QFormerFusion.load(blip2_folder), images, tmp_path / "f", [1] * 5)


def test_data_in_another_folder_give_the_same_views(blip2_folder: Path, images: ImageTable, tmp_path: Path) -> None:
    fusion, stores = QFormerFusion.load(blip2_folder), []
    for folder in (tmp_path / "here", tmp_path / "elsewhere" / "deep"):
        folder.mkdir(parents=True)
        shutil.copy(tmp_path / "blue.png", folder / "q.png")
        names = [ImageName("query", str(folder / "q.png")), *images.names]
        stores.append(compute(fusion, replace(images, names=names), folder / "f", [3] * 6))
    for here, elsewhere in zip(*(store.read([0, 0, 0], [0, 1, 2]) for store in stores), strict=True):
        assert torch.equal(here, elsewhere)
    assert not torch.equal(here, stores[0].read([0], [0])[0])
