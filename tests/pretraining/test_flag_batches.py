from __future__ import annotations

import csv
import functools
import json
from pathlib import Path

import pytest
import torch

from pretraining.camera import Camera
from pretraining.demo.describe import describe
from pretraining.demo.facts import countries
from pretraining.demo.flags import load_flags
from pretraining.designs import Design
from pretraining.flag_batches import FlagBatches
from pretraining.imagined import imagined_world, write_world


def batches(seed: int = 0) -> FlagBatches:
    return FlagBatches(Camera(32, seed, scenes=4), 6, 6, dict.fromkeys(load_flags(), "A summary."), seed)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    one, again = batches()(3, clean=4), batches()(3, clean=4)
    torch.testing.assert_close(one.photographs, again.photographs, rtol=0, atol=0)
    assert one.texts == again.texts
    assert batches()(4, clean=4).texts != one.texts != batches(seed=1)(3, clean=4).texts


def test_shapes_and_order() -> None:
    batch = batches()(0, clean=4)
    assert batch.photographs.shape == (12, 3, 32, 32)
    assert batch.drawings.shape == (4, 3, 32, 32)
    assert len(batch.texts) == len(batch.looks) == 12
    assert batch.photographs.min() >= 0 and batch.photographs.max() <= 1
    known = {describe(flag) for flag in load_flags().values()}
    # Six of the knowledge base; two of them have drawings, then two random ones.
    assert [look in known for look in batch.looks[:4]] == [True, True, False, False]
    assert sum(look in known for look in batch.looks) >= 6


def test_imagined_countries_have_their_own_name_and_flag() -> None:
    world, pictures = imagined_world(6, 4)
    assert len(world) == len(pictures) == len(countries()) + 10
    assert [isinstance(pictures[f"x{number}"], Design) for number in range(10)] == [False] * 6 + [True] * 4
    assert list(world)[: len(countries())] == list(countries())
    names = [country["name"] for country in world.values()]
    assert len(set(names)) == len(names)
    assert world["x0"]["official_name"] == f"Republic of {world['x0']['name']}"


def test_a_world_on_disk_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pretraining.imagined as imagined

    few, pictures = imagined_world(1, 1)
    chosen = ["fr", "jp", "x0", "x1"]
    monkeypatch.setattr(
        imagined, "imagined_world", lambda *_: ({c: few[c] for c in chosen}, {c: pictures[c] for c in chosen})
    )
    monkeypatch.setattr(imagined, "Camera", functools.partial(Camera, scenes=4))
    write_world(tmp_path, 1, 1, photographs=2, questions_each=3)
    rows = list(csv.DictReader((tmp_path / "questions.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 12
    assert {row["dataset_image_ids"] for row in rows} == {f"{code}_{i}" for code in chosen for i in range(2)}
    for row in rows:
        assert (tmp_path / "queries" / f"{row['dataset_image_ids']}.jpg").is_file()
    entries = json.loads((tmp_path / "kb_wiki.json").read_text(encoding="utf-8"))
    assert {row["wikipedia_url"] for row in rows} == set(entries)
    assert all((tmp_path / "images" / "flag" / f"{code}.png").is_file() for code in chosen)
