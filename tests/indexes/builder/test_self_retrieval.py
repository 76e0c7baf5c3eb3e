from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.builder import self_retrieval
from indexes.builder.report import problem_lines
from indexes.builder.self_retrieval import FEWEST, measure_self_retrieval, slightly_changed
from indexes.image_source import thumbnail
from retriever.models.encoder import ClipEncoder
from tests.fakes.models import FakeEncoder

WEIGHTS = Path(__file__).resolve().parents[3] / "weights" / "embedded"


class Hue(FakeEncoder):
    """Encodes the color at the center of an image."""

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        middle = [image.getpixel((image.width // 2, image.height // 2)) for image in images]
        return torch.tensor(middle, dtype=torch.float32) - 128


class Nothing(FakeEncoder):
    """Encodes every image alike."""

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return torch.ones(len(images), 3)


def hue(row: int) -> Image.Image:
    return Image.new("HSV", (60, 40), (255 * row // FEWEST, 255, 255)).convert("RGB")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for row in range(FEWEST):
        (tmp_path / "images" / f"{row}.jpg").write_bytes(thumbnail(hue(row)))
    return tmp_path


ROWS = np.arange(FEWEST)


def test_images_that_are_told_apart(folder: Path) -> None:
    found = measure_self_retrieval(folder, ROWS, Hue())
    assert found is not None and found == measure_self_retrieval(folder, ROWS, Hue())
    assert (found.images, found.recall, found.warning) == (FEWEST, 1.0, "")
    vectors = torch.nn.functional.normalize(Hue().encode_images([hue(row) for row in range(FEWEST)]), dim=1)
    pairs = [float(vectors[a] @ vectors[b]) for a in range(FEWEST) for b in range(FEWEST) if a != b]
    assert found.spread == pytest.approx(sum(pairs) / len(pairs), abs=0.01)  # of JPEGs


def test_an_encoder_that_confuses_them(folder: Path) -> None:
    found = measure_self_retrieval(folder, ROWS, Nothing())
    assert found is not None and (found.recall, found.spread) == (1 / FEWEST, 1.0)
    assert found.warning.startswith("the encoder confuses the images: only ")
    assert "--profile laptop" in found.warning and "omgm train-encoder" in found.warning
    nothing = {"count": 0, "reasons": {}, "entries": []}
    report = {"missing": nothing, "unreadable": nothing, "self_retrieval": found._asdict()}
    assert problem_lines(report) == [f"warning: {found.warning}"]


def test_images_far_from_what_a_small_encoder_knows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_retrieval, "SPREAD", -0.5)
    general = measure_self_retrieval(folder, ROWS, Hue())
    assert general is not None and not general.warning  # other encoders have other cosines
    unadapted = Hue()
    unadapted.is_unadapted = True  # type: ignore[attr-defined]
    small = measure_self_retrieval(folder, ROWS, unadapted)
    assert small is not None
    assert f"the mean cosine of two main images is {small.spread:.2f} (usually up to -0.5)" in small.warning


def test_an_encoder_that_was_adapted_need_not_be_adapted(tmp_path: Path) -> None:
    shipped = ClipEncoder.load(WEIGHTS / "encoder")
    assert shipped.is_unadapted
    shipped.save(tmp_path)
    assert ClipEncoder.load(tmp_path).is_unadapted
    (tmp_path / "training.json").write_text("{}")  # as `omgm train-encoder` leaves it
    assert not ClipEncoder.load(tmp_path).is_unadapted


def test_few_images_say_nothing(folder: Path) -> None:
    same = (folder / "images" / "0.jpg").read_bytes()
    (folder / "images" / "1.jpg").write_bytes(same)  # as one image
    assert measure_self_retrieval(folder, ROWS, Hue()) is None
    assert measure_self_retrieval(folder, ROWS[:0], Hue()) is None


def test_a_slight_change() -> None:
    image = hue(1)
    changed = [slightly_changed(image, random.Random(seed)) for seed in range(20)]
    assert changed[3].tobytes() == slightly_changed(image, random.Random(3)).tobytes()
    assert len({one.size for one in changed}) > 10
    assert all(min(one.size) >= 8 and max(one.size) <= 80 for one in changed)
    assert min(slightly_changed(Image.new("RGB", (3, 2)), random.Random(0)).size) >= 8
