from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel

from indexes.labeled_images import LabeledImage
from retriever.borders import trim
from retriever.images import load_image
from retriever.models import photo_tower
from retriever.models.encoder import ClipEncoder
from retriever.models.model_card import model_card
from retriever.models.pixels import PixelPreparation
from tests.fakes.plans import indexed
from tests.indexes.test_image_copies import photograph
from tests.retriever.models.test_encoder import small_encoder
from tests.retriever.models.test_photo_tower import random_network, save_seeing_encoder
from training.config import TrainingConfig
from training.encoder_data import EncoderBatch, EncoderBatches, EncoderData, known_labels, read_entities
from training.images import StoredImages
from training.train_encoder import steps_for, train_encoder

COLORS = {"Red": (220, 30, 30), "Green": (20, 160, 40), "Blue": (30, 60, 200), "White": (240, 240, 240)}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    entries = {}
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for name, color in COLORS.items():
        noisy = np.clip(np.array(color) + rng.normal(0, 12, (40, 60, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(tmp_path / "images" / f"{name}.png")
        entries[f"https://x.example/{name}"] = {
            "title": name,
            "url": f"https://x.example/{name}",
            "section_titles": [name],
            "section_texts": [f"{name} is a plain cloth of that color."],
            "image_urls": [f"https://x.example/images/{name}.png"],
            "image_reference_descriptions": [""],
            "image_section_indices": [0],
        }
    (tmp_path / "kb.json").write_text(json.dumps(entries))
    small_encoder().save(tmp_path / "start")
    return tmp_path


def data_of(world: Path, labeled: Sequence[LabeledImage] = ()) -> EncoderData:
    return EncoderData(**indexed(world / "kb.json", world / "images", overwrite=True), labeled=labeled)


def photographs_in(world: Path) -> list[LabeledImage]:
    return [
        LabeledImage(f"{name} {i}", world / "images" / f"{name}.png", f"https://x.example/{name}")
        for name in COLORS
        for i in range(4)
    ]


def run(world: Path, out: str, steps: int, labeled: Sequence[LabeledImage] | None = None, **settings: Any) -> Path:
    labeled = photographs_in(world) if labeled is None else labeled
    config = TrainingConfig(steps=steps, **{"learning_rate": 3e-3} | settings)
    return train_encoder(world / "start", data_of(world, labeled), world / out, config)


def test_the_loss_falls(world: Path) -> None:
    run(world, "short", 2)
    run(world, "long", 40)
    first, last = (
        list(csv.DictReader((world / name / "encoder-run" / "curve.csv").read_text().splitlines()))
        for name in ("short", "long")
    )
    assert float(last[-1]["loss"]) < float(first[-1]["loss"])


def test_a_killed_run_resumes_and_ends_with_the_same_weights(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(world, "whole", 6, validate_every=2)

    class Cut(Exception):
        pass

    make = EncoderBatches.__call__

    def made_until_cut(self: EncoderBatches, step: int) -> EncoderBatch:
        if step == 3:
            raise Cut
        return make(self, step)

    monkeypatch.setattr(EncoderBatches, "__call__", made_until_cut)
    with pytest.raises(Cut):
        run(world, "cut", 6, validate_every=2)
    assert (world / "cut" / "encoder-run" / "checkpoint.safetensors").is_file()
    monkeypatch.setattr(EncoderBatches, "__call__", make)
    resumed = run(world, "cut", 6, validate_every=2)
    one, other = load_file(whole / "model.safetensors"), load_file(resumed / "model.safetensors")
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.slow
def test_the_projection_of_photographs_is_fitted_to_the_images(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (world / "base").mkdir()
    save_file(random_network(), world / "base" / "model.safetensors")
    monkeypatch.setattr(photo_tower, "base_model", {"tiny": world / "base"}.__getitem__)
    save_seeing_encoder(world / "start", 3)
    started = ClipEncoder.load(world / "start")
    started.model.photo_projection.zero_()  # sees nothing, so that any projection is better
    started.save(world / "start")
    trained = run(world, "seeing", 2)
    metrics = json.loads((trained / "training.json").read_text())["metrics"]
    assert metrics["photos_recall@1_after"] > metrics["photos_recall@1_before"] == 0.25  # one of four
    encoder, again = ClipEncoder.load(trained), run(world, "again", 2)
    assert encoder.photos is not None and encoder.dimension == started.dimension == 131
    assert encoder.model.photo_projection.abs().sum() > 0
    assert torch.equal(ClipEncoder.load(again).model.photo_projection, encoder.model.photo_projection)


def test_borders_are_cut_off_labeled_images_alone(world: Path) -> None:
    cards, trimmed = list[LabeledImage](), list[LabeledImage]()
    for image in photographs_in(world):
        card = Image.new("RGB", (120, 90), "gray")
        card.paste(load_image(image.path), (30, 20))
        for kind, shown, images in (("card", card, cards), ("trimmed", trim(card), trimmed)):
            shown.save(path := world / f"{kind} {image.image_id}.png")
            images.append(image._replace(path=path))
    assert load_image(trimmed[0].path).size == (58, 38)  # of 60 x 40, a pixel less on each side
    stored = []
    for out, labeled, trim_borders in (("a", cards, True), ("b", trimmed, False), ("c", cards, False)):
        data = replace(data_of(world, labeled), trim_borders=trim_borders)
        config = TrainingConfig(steps=1)
        train_encoder(world / "start", data, world / out, config)
        stored.append((world / out / "encoder-run" / "images.npy").read_bytes())
    assert stored[0] == stored[1] != stored[2]


def test_the_best_weights_on_held_out_images_are_kept(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, torch.Tensor]] = []

    def scripted(model: ClipEncoder, *rest: object) -> Callable[[], dict[str, float]]:
        def validate() -> dict[str, float]:
            seen.append({name: tensor.clone() for name, tensor in model.model.state_dict().items()})
            recall, loss = [(0.1, 1.0), (0.9, 2.0), (0.9, 1.0), (0.5, 0.1)][len(seen) - 1]
            return {"recall@1": recall, "validation_loss": loss}

        return validate

    monkeypatch.setattr("training.train_encoder._validation", scripted)
    folder = run(world, "out", 3, validate_every=1, validation_share=0.5)
    kept = ClipEncoder.load(folder).model.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in seen[2].items())  # after step 2 of 3
    assert any(not torch.equal(kept[name], value) for name, value in seen[3].items())
    assert json.loads((folder / "training.json").read_text())["metrics"]["validation_loss"] == 1.0


def test_a_busy_machine_trains_the_same(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = run(world, "idle", 6, validation_share=0.5, validate_every=2)

    class Clock:
        """A clock on which every look takes five minutes."""

        now = 0.0

        def monotonic(self) -> float:
            self.now += 300
            return self.now

    monkeypatch.setattr("training.loop.time", Clock())
    busy = run(world, "busy", 6, validation_share=0.5, validate_every=2, minutes=600)
    assert (idle / "model.safetensors").read_bytes() == (busy / "model.safetensors").read_bytes()
    assert json.loads((busy / "training.json").read_text())["remarks"] == []


def test_what_a_time_limit_cut_and_a_training_that_found_nothing_better_are_said(
    world: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    figures = iter([(0.5, 1.0), (0.25, 2.0)])

    def scripted(*rest: object) -> Callable[[], dict[str, float]]:
        return lambda: dict(zip(("recall@1", "validation_loss"), next(figures), strict=True))

    monkeypatch.setattr("training.train_encoder._validation", scripted)
    folder = run(world, "out", 9, validation_share=0.5, minutes=1e-6)
    cut = (
        "the limit of 1e-06 minutes cut the training after step 1 of 9; "
        "the same command with a higher --minutes goes on"
    )
    worse = (
        "no better than it began on held-out images: recall@1 0.5000, validation_loss 1.0000 before, "
        "recall@1 0.2500, validation_loss 2.0000 at the end; the weights are those it began with"
    )
    record = json.loads((folder / "training.json").read_text())
    assert record["remarks"] == [cut, worse]
    assert [one.getMessage() for one in caplog.records if one.levelname == "WARNING"] == [
        f"{world / 'out'}: {remark}" for remark in (cut, worse)
    ]
    kept, start = (ClipEncoder.load(path).model.state_dict() for path in (folder, world / "start"))
    assert all(torch.equal(kept[name], value) for name, value in start.items())
    card = model_card(folder)
    assert "## Remarks" in card and "after step 1 of 9" in card and "the weights are those it began with" in card


def test_the_same_recall_with_a_lower_loss_is_better(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter([(0.5, 2.0), (0.5, 1.0)])

    def scripted(*rest: object) -> Callable[[], dict[str, float]]:
        return lambda: dict(zip(("recall@1", "validation_loss"), next(figures), strict=True))

    monkeypatch.setattr("training.train_encoder._validation", scripted)
    folder = run(world, "out", 1, validation_share=0.5)
    assert json.loads((folder / "training.json").read_text())["remarks"] == []


@pytest.mark.slow
def test_steps_are_found_from_the_data(world: Path) -> None:
    assert [steps_for(images) for images in (1, 100, 2_411, 200_000)] == [20, 200, 983, 8945]
    data = data_of(world, photographs_in(world))
    folder = train_encoder(world / "start", data, world / "out", TrainingConfig(validation_share=0))
    record = json.loads((folder / "training.json").read_text())
    assert (record["settings"]["seed"], record["settings"]["validation_share"]) == (0, 0)
    assert record["environment"].keys() >= {"python", "torch", "numpy", "pillow", "cpu", "gpu", "threads"}
    assert record["metrics"]["steps"] == 90  # 20 * sqrt(4 main images and 16 labeled ones) = 89.4
    assert record["remarks"] == [
        "not validated, since no image is held out: whether the weights are better now is not known"
    ]


def test_held_out_images_are_looked_for_among_summaries_and_main_images(world: Path) -> None:
    run(world, "out", 1, validation_share=0.5)
    [row] = csv.DictReader((world / "out" / "encoder-run" / "curve.csv").read_text().splitlines())
    by_summary, by_image = float(row["recall@1_by_summary"]), float(row["recall@1_by_image"])
    assert float(row["recall@1"]) == pytest.approx((by_summary + by_image) / 2, abs=1e-5)
    assert float(row["validation_loss"]) > 0


def test_of_many_entities_some_are_validated_against(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(out: str) -> dict[str, str]:
        run(world, out, 1, validation_share=0.5)
        [row] = csv.DictReader((world / out / "encoder-run" / "curve.csv").read_text().splitlines())
        return {name: value for name, value in row.items() if name != "seconds"}

    every = figures("every")
    monkeypatch.setattr("training.train_encoder.MOST_KEYS", 1)
    monkeypatch.setattr("training.train_encoder.MOST_QUERIES", 1)
    some = figures("some")  # among two entities at most, and easier
    assert float(some["validation_loss"]) < float(every["validation_loss"])
    trained = json.loads((world / "some" / "encoder" / "training.json").read_text())["data"]
    assert (trained["entities"], trained["labeled images validated on"]) == (4, 1)


def test_an_image_of_two_entities_and_copies_of_an_article(world: Path, caplog: pytest.LogCaptureFixture) -> None:
    entries = json.loads((world / "kb.json").read_text())
    entries["copy"] = entries["https://x.example/Red"] | {"url": "copy"}
    (world / "kb.json").write_text(json.dumps(entries))
    photograph = world / "images" / "Red.png"
    shown = ["https://x.example/Red", "copy", "https://x.example/Blue", "http://x.example/Blue", "nowhere"]
    data = data_of(world, [LabeledImage("both", photograph, name) for name in shown])
    entities = read_entities(data)
    assert entities.original.tolist() == [0, 1, 2, 3, 0] and entities.copies == 1
    assert known_labels(data, entities) == [("both", photograph, [0, 2])]
    assert "1 of 5 labeled images left out" in caplog.text
    folder = train_encoder(world / "start", data, world / "out", TrainingConfig(steps=1))
    assert "1 of 5 entities have the text of another entity's article" in caplog.text
    counts = json.loads((folder / "training.json").read_text())["data"]
    assert (counts["entities with the text of another"], counts["labeled images trained on"]) == (1, 2)


def test_main_images_that_are_copies_are_no_negatives_of_each_other(world: Path) -> None:
    entries = json.loads((world / "kb.json").read_text())
    for name in ("Red", "Blue"):
        picture = photograph(len(name))
        picture.save(world / "images" / f"{name}.png")
        picture.resize((180, 120)).save(world / "images" / f"{name} again.jpg", quality=80)
        image = {"image_urls": [f"https://x.example/images/{name} again.jpg"]}
        text = {"title": f"{name} again", "section_texts": [f"Another article about {name}."]}
        entries[f"{name} again"] = entries[f"https://x.example/{name}"] | {"url": f"{name} again"} | text | image
    (world / "kb.json").write_text(json.dumps(entries))
    entities = read_entities(data_of(world))
    assert entities.original.tolist() == [0, 1, 2, 3, 4, 5]
    assert entities.pictured.tolist() == [0, 1, 2, 3, 0, 2]

    side, rows = 8, [0, 1, 2, 3, 4, 5]
    images = StoredImages(np.zeros((6, 3, side, side), np.uint8))
    tokens, every = torch.ones(6, 2, dtype=torch.int64), torch.arange(6)
    batch = EncoderBatches(
        images, rows, 6, ids=tokens, mask=tokens, entities=every, pictured=entities.pictured, size=side, seed=0
    )(0)
    assert len(batch.pixels) == 6 + 4 and len(batch.main) == len(batch.summary) == 6
    # Which image is which is told by its summary, whose row is unique: the copies find one main image.
    summaries = dict(zip(batch.summary.queries.tolist(), batch.summary.keys.tolist(), strict=True))
    found: dict[int, set[int]] = {}
    for query, key in zip(batch.main.queries.tolist(), batch.main.keys.tolist(), strict=True):
        found.setdefault(key, set()).add(summaries[query])
    assert sorted(map(len, found.values())) == [1, 1, 2, 2]


def test_a_held_out_image_of_several_entities_may_find_any(world: Path) -> None:
    images = world / "images"
    labeled = [LabeledImage("all", images / "Red.png", f"https://x.example/{name}") for name in COLORS]
    folder = run(world, "out", 1, labeled, validation_share=0.999999)
    assert json.loads((folder / "training.json").read_text())["metrics"]["recall@1"] == 1.0


def test_images_of_unknown_entities_are_left_out(world: Path, caplog: pytest.LogCaptureFixture) -> None:
    stray = LabeledImage("stray", world / "images" / "Red.png", "nowhere")
    first, *photographs = photographs_in(world)
    photographs.append(first._replace(entity_id="nobody", others=("nowhere", first.entity_id)))
    folder = run(world, "some", 1, labeled=[*photographs, stray])
    assert json.loads((folder / "training.json").read_text())["data"]["labeled images trained on"] == 16
    assert "1 of 17 labeled images left out" in caplog.text and "the first is 'nowhere'" in caplog.text
    with pytest.raises(
        ValueError, match=r"kb\.json-index has no entity that they show, the first is 'nowhere'; is it the right"
    ):
        run(world, "none", 1, labeled=[stray])


def test_labels_name_entities_as_in_evaluation(world: Path) -> None:
    rows = [json.loads(text) for text in (world / "kb.json").read_text().splitlines()]
    [entries] = rows
    lines = [
        {
            "id": id,
            "title": one["title"],
            "names": [f"Color {one['title']}"],
            "image": one["image_urls"][0],
            "sections": [{"title": one["title"], "text": one["section_texts"][0]}],
        }
        for id, one in entries.items()
    ]
    (world / "kb.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = TrainingConfig(steps=2, learning_rate=3e-3)

    def trained(out: str, names: dict[str, str]) -> bytes:
        labeled = [LabeledImage(name, world / "images" / f"{name}.png", id) for name, id in names.items()]
        data = EncoderData(**indexed(world / "kb.jsonl", world / "images"), labeled=labeled)
        return (train_encoder(world / "start", data, world / out, config) / "model.safetensors").read_bytes()

    exact = {name: f"https://x.example/{name}" for name in COLORS}
    assert trained("exact", exact) == trained("called", exact | {"Red": "http://x.example/R%65d", "Blue": "Color Blue"})


def test_another_kind_of_model_is_refused(world: Path, tmp_path: Path) -> None:
    tokenizer = small_encoder().tokenizer
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = CLIPConfig(
        text_config={**sizes, "vocab_size": len(tokenizer), "eos_token_id": tokenizer.backend.token_to_id("[SEP]")},
        vision_config={**sizes, "image_size": 32, "patch_size": 8},
    )
    CLIPModel(config).save_pretrained(tmp_path / "clip")
    tokenizer.save_pretrained(tmp_path / "clip")
    PixelPreparation(32).save(tmp_path / "clip")
    with pytest.raises(ValueError, match="a clip model cannot be adapted"):
        train_encoder(tmp_path / "clip", data_of(world), world / "out")
