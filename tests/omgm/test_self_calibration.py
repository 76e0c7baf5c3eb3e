from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from evaluation.recognition import Trial
from indexes.live.changes import Removal
from indexes.live.index import LiveIndex
from indexes.store.index import Index
from indexes.store.manifest import RECOGNITION
from omgm import indexing
from omgm.__main__ import main
from omgm.indexing import Build
from omgm.opening import open_retriever
from omgm.own_recognition import images_in, outdated_recognition
from omgm.parts import build_encoder, build_fusion
from omgm.profile import load_profile
from omgm.self_calibration import FEWEST, _fitted, _rows, _same, _sample, bent, calibrate_index, photographed_again
from pretraining.designs import paint, random_design
from retriever.image_cache import ImageCache
from retriever.recognition import APART, SIGNS, Signs
from retriever.types import Candidate, Query, RetrievalResult

PLAIN = ["sections.kind=bm25", "generator.kind=extractive"]


def trials(right: int, wrong: int, apart: float = 4) -> list[Trial]:
    """Returns trials whose right ones score higher, by so many standard deviations."""
    rng = np.random.default_rng(0)
    held = [(float(value), True) for value in rng.normal(0.6 + 0.05 * apart, 0.05, right)]
    absent = [(float(value), False) for value in rng.normal(0.6, 0.05, wrong)]
    return [Trial(str(n), Signs(sim_c=value), is_held, is_held) for n, (value, is_held) in enumerate(held + absent)]


def test_the_threshold_declines_the_promised_share() -> None:
    made = trials(400, 400)
    recognition, curve = _fitted(made)
    absent = [recognition.of(one.signs) < 0.4 for one in made if not one.held]
    kept = [recognition.of(one.signs) >= 0.4 for one in made if one.held]
    # Of the normal distribution: halfway between 1.41 and 4 - 1.55 standard deviations, Phi(1.93) and Phi(4 - 1.93).
    assert 0.96 <= sum(absent) / 400 <= 0.99
    assert 0.96 <= sum(kept) / 400 <= 0.99
    assert [one.declined for one in curve] == sorted(one.declined for one in curve)
    assert [one.kept for one in curve] == sorted((one.kept for one in curve), reverse=True)


@pytest.mark.parametrize(
    ("apart", "kept", "declined"),
    [(2.5, 0.94, 0.83), (2, 0.88, 0.8)],  # the normal distribution's: Phi(2.5 - 1.55), Phi(2 - 0.84)
)
def test_of_things_that_look_alike_what_is_right_is_kept(apart: float, kept: float, declined: float) -> None:
    """Unless less than LEAST would be declined."""
    made = trials(400, 400, apart)
    recognition, _ = _fitted(made)
    answered = [recognition.of(one.signs) >= 0.4 for one in made]
    assert sum(answered[:400]) / 400 == pytest.approx(kept, abs=0.03)
    assert 1 - sum(answered[400:]) / 400 == pytest.approx(declined, abs=0.06)


def test_a_sample_is_bounded_and_the_same_every_time() -> None:
    assert sorted(_sample(50)) == list(range(50)) and _sample(50) == _sample(50) != list(range(50))
    drawn = _sample(2_000_000)
    assert len(set(drawn)) == len(drawn) <= 4000 and drawn == _sample(2_000_000)


def test_photographed_again() -> None:
    image = Image.effect_noise((200, 120), 90).convert("RGB")
    once, again, other = (photographed_again([image], seed)[0] for seed in (0, 0, 1))
    assert once.size == (256, 256) and once.mode == "RGB"
    waving = photographed_again([image], 0, waving=True)[0]
    assert once.tobytes() == again.tobytes() != other.tobytes() and waving.tobytes() != once.tobytes()


class Images:
    """The part of an index that has images: each file is an entity's."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def image_path(self, row: int) -> Path | None:
        """Returns the image of an entity."""
        return self._paths[row] if row < len(self._paths) else None


def test_an_image_that_was_saved_twice_is_the_same(tmp_path: Path) -> None:
    shown = paint(random_design(random.Random(3))).convert("RGB").resize((320, 320))
    shown.save(tmp_path / "0.jpg", quality=95)
    shown.resize((240, 240)).save(tmp_path / "1.jpg", quality=60)
    shown.transpose(Image.Transpose.ROTATE_180).save(tmp_path / "2.jpg")
    shown.convert("L").convert("RGB").save(tmp_path / "3.jpg")  # another color
    index = cast(Index, Images(*(tmp_path / f"{number}.jpg" for number in range(4))))
    result = RetrievalResult("0", [Candidate(row) for row in (1, 2, 3, 4)], {})
    assert _same(index, [result]) == {"0": {0, 1}}
    white = tmp_path / "white.png"
    Image.new("RGB", (90, 60), "white").save(white)
    Image.new("RGB", (90, 60), "ivory").save(tmp_path / "ivory.png")
    plain = cast(Index, Images(white, tmp_path / "ivory.png", white))
    assert _same(plain, [result]) == {"0": {0, 2}}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of enough designs to be calibrated."""
    folder, rng = tmp_path_factory.mktemp("designs"), random.Random(3)
    (folder / "images").mkdir()
    rows = []
    for number in range(FEWEST + 14):
        paint(random_design(rng)).convert("RGB").save(folder / "images" / f"{number}.png")
        rows.append({"id": str(number), "title": f"Design {number}", "image": f"{number}.png", "text": "A design."})
    (folder / "kb.jsonl").write_text("\n".join(map(json.dumps, rows)))
    profile = load_profile("embedded", PLAIN)
    indexing.build(profile, Build(kb=folder / "kb.jsonl", out=folder / "index", images=folder / "images"))
    return folder / "index"


@pytest.mark.slow
def test_a_build_calibrates_and_the_retriever_uses_it(index: Path, caplog: pytest.LogCaptureFixture) -> None:
    profile = load_profile("embedded", PLAIN)
    found = json.loads((index / RECOGNITION).read_bytes())
    assert (found["entities"], found["sampled"], found["threshold"]) == (54, 54, 0.4)
    assert [*found["signs"], *APART] == list(SIGNS) and found["weights"]["lead_p"] > 0
    assert found["weights"]["lead_a"] > 0
    retriever = open_retriever(profile, index)
    assert retriever.recognition is not None
    assert retriever.recognition.bias == found["bias"] != profile.recognition.bias
    assert retriever.recognition.weights.lead_w == profile.recognition.lead_w == 5.0
    assert retriever.recognition.crop_threshold == found["crop_threshold"] >= 0.4
    without = load_profile("embedded", [*PLAIN, "search.crops=false"])
    assert open_retriever(without, index).recognition == replace(retriever.recognition, crop_threshold=None)
    shown = [Image.open(index.parent / "images" / f"{number}.png") for number in range(8)]
    known = retriever.retrieve([Query(image, "What is this?", "known") for image in photographed_again(shown, 9)])
    draw = np.random.default_rng(5)
    noise = [Image.fromarray(draw.integers(0, 256, (99, 99, 3), np.uint8)) for _ in range(8)]
    blank = [Image.new("RGB", (300, 200), "gray"), Image.fromarray(draw.integers(0, 256, (480, 640), np.uint8))]
    for result in retriever.retrieve([Query(image.convert("RGB"), "What is this?", "blank") for image in blank]):
        assert result.recognized is not None and result.recognized < profile.recognition.threshold
    strange = retriever.retrieve([Query(image, "What is this?", "noise") for image in noise])
    threshold = profile.recognition.threshold
    assert sum((one.recognized or 0) >= threshold for one in known) >= 6
    assert sum((one.recognized or 0) < threshold for one in strange) >= 7
    own = load_profile("embedded", [*PLAIN, "recognition.general=false"])
    fitted = open_retriever(own, index).recognition
    assert fitted is None or fitted.bias == own.recognition.bias  # what `omgm sweep --recognition` found comes first
    written = (index / RECOGNITION).read_bytes()
    with caplog.at_level(logging.WARNING):
        older = {name: value for name, value in found.items() if name != "sha256"}
        (index / RECOGNITION).write_text(json.dumps(older | {"entities": 20}))
        assert open_retriever(profile, index).recognition is not None
    assert "20 entities had an image; 54 have one now" in caplog.text
    (index / RECOGNITION).write_text(json.dumps(found | {"bias": found["bias"] + 1e-9}))
    with pytest.raises(
        ValueError, match=r"recognition\.json: content differs from its checksum; remove it and measure"
    ):
        open_retriever(profile, index)
    assert main(["index", "verify", "--index", str(index)]) == 2
    (index / RECOGNITION).write_bytes(written)
    assert main(["index", "verify", "--index", str(index)]) == 0


@pytest.mark.slow
def test_a_finished_calibration_is_kept_and_another_is_the_same(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = load_profile("embedded", PLAIN)
    encoder, fusion = build_encoder(profile), build_fusion(profile)
    opened = open_retriever(profile, index, encoder=encoder, fusion=fusion).index
    written, time = (index / RECOGNITION).read_bytes(), (index / RECOGNITION).stat().st_mtime_ns
    calibrate_index(profile, index, opened, encoder, fusion)
    assert (index / RECOGNITION).stat().st_mtime_ns == time
    (index / RECOGNITION).unlink()
    computed = list[int]()
    rows = ImageCache.rows

    def counted(cache: ImageCache, kind: str, images: Sequence[Image.Image], compute: Callable[..., Tensor]) -> Tensor:
        def counting(missing: Sequence[Image.Image]) -> Tensor:
            computed.append(len(missing))
            return compute(missing)

        return rows(cache, kind, images, counting)

    monkeypatch.setattr(ImageCache, "rows", counted)
    calibrate_index(profile, index, opened, encoder, fusion)
    assert sum(computed) == 2 * 2 * 54  # two photographs by each model once, though each is asked twice
    again = json.loads((index / RECOGNITION).read_bytes())
    assert again["bias"] == pytest.approx(json.loads(written)["bias"], abs=0.01)


@pytest.mark.slow
def test_changes_are_counted_and_calibrated_again(index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(index, folder)
    written = json.loads((folder / RECOGNITION).read_bytes())
    with closing(LiveIndex.open(folder, write=True)) as editor:
        assert outdated_recognition(folder, editor) is None
        editor.apply([Removal(str(number)) for number in range(12)])
    profile = load_profile("embedded", PLAIN)
    encoder, fusion = build_encoder(profile), build_fusion(profile)
    live = LiveIndex.open(folder, encoder=encoder, fusion=fusion)
    assert images_in(live) == 42
    outdated = outdated_recognition(folder, live) or ""
    assert (
        "54 entities had an image; 42 have one now" in outdated and f"omgm index calibrate --index {folder}" in outdated
    )
    assert sorted(live.entity(row).id for row in _rows(live)) == sorted(str(number) for number in range(12, 54))
    assert len(list(_rows(live))) == 42
    calibrate_index(profile, folder, live, encoder, fusion)
    again = json.loads((folder / RECOGNITION).read_bytes())
    assert (again["entities"], again["sampled"], written["entities"]) == (42, 42, 54)
    assert outdated_recognition(folder, live) is None


@pytest.mark.slow
def test_an_index_of_a_few_declines_what_it_does_not_hold(tmp_path: Path) -> None:
    rng, profile = random.Random(8), load_profile("embedded", PLAIN)
    designs = [paint(random_design(rng)).convert("RGB") for _ in range(8)]
    for number, design in enumerate(designs[:3]):
        design.save(tmp_path / f"{number}.png")
    for entities in (1, 3):
        rows = [{"title": f"Design {one}", "image": f"{one}.png", "text": "A design."} for one in range(entities)]
        (tmp_path / "kb.jsonl").write_text("\n".join(map(json.dumps, rows)))
        out = tmp_path / f"index{entities}"
        indexing.build(profile, Build(kb=tmp_path / "kb.jsonl", out=out, images=tmp_path))
        shown = photographed_again(designs, 2)
        results = open_retriever(profile, out).retrieve([Query(image, "What is this?", "") for image in shown])
        recognized = [(one.recognized or 0) >= profile.recognition.threshold for one in results]
        assert recognized[:entities] == [True] * entities and sum(recognized[entities:]) <= 1, entities


def test_bent_moves_pixels_a_little_and_leaves_plain_images() -> None:
    ramp = torch.linspace(0.2, 0.8, 40).expand(4, 3, 40, 40)
    moved = bent(ramp, torch.Generator().manual_seed(1))
    torch.testing.assert_close(moved, bent(ramp, torch.Generator().manual_seed(1)), rtol=0, atol=0)
    assert moved.shape == ramp.shape and 0.01 < float((moved - ramp).abs().mean()) < 0.1
    plain = bent(torch.full((2, 3, 16, 16), 0.5), torch.Generator().manual_seed(2))
    assert float((plain - 0.5).abs().max()) <= 0.5 * 2.5 * 0.035 + 1e-6  # only its light changes
