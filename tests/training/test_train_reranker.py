"""Step 2's training: the rules of drawing, mining, a loss that falls, and a resumed run that equals a whole one."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig, SmallVision
from retriever.types import Entity, FloatArray, IntArray, Section
from tests.fakes.world import FakeIndex
from training import loop
from training.candidates import Pair, Sample, draw_candidates, make_samples
from training.features import augment
from training.mine import mine_negatives, read_negatives
from training.tokenizer import train_tokenizer
from training.train_reranker import split_samples, train_reranker

COLORS = ["red", "blue", "green", "yellow", "white", "black", "orange", "purple"]
TOPICS = ["capital", "river", "height", "people"]


@dataclass(frozen=True)
class Asked:
    id: str
    question: str
    image_id: str
    entity_ids: tuple[str, ...]
    section_index: int | None


@dataclass(frozen=True)
class World:
    folder: Path
    questions: list[Asked]

    def query_image_of(self, image_id: str) -> Path | None:
        path = self.folder / "queries" / f"{image_id}.png"
        return path if path.is_file() else None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Eight plain pictures with an article of four sections each, two questions an entity."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "images").mkdir()
    (folder / "queries").mkdir()
    kb, negatives, questions = {}, {}, []
    for i, color in enumerate(COLORS):
        url = f"https://e.example/wiki/{color}"
        Image.new("RGB", (40, 40), color).save(folder / "images" / f"{color}.png")
        Image.new("RGB", (50, 30), color).save(folder / "queries" / f"q_{color}.png")
        kb[url] = {
            "title": f"land {i}",
            "url": url,
            "section_titles": TOPICS,
            "section_texts": [f"the {topic} of it" for topic in TOPICS],
            "image_urls": [f"https://e.example/{color}.png"],
            "image_reference_descriptions": [color],
            "image_section_indices": [0],
        }
        others = [f"https://e.example/wiki/{other}" for other in COLORS]
        negatives[f"q_{color}"] = {"gt_entity_pos_img": None, "top_20": [{"entry": other} for other in others]}
        for number in (i % 4, (i + 1) % 4):
            questions.append(Asked(f"{color}_{number}", f"what is the {TOPICS[number]}?", f"q_{color}", (url,), number))
    (folder / "kb.json").write_text(json.dumps(kb))
    (folder / "negatives.json").write_text(json.dumps(negatives))
    torch.manual_seed(0)
    config = SmallCLIPConfig(image_size=32, channels=(8, 8, 16, 32), vision_heads=2, vocab_size=120, text_width=16)
    texts = [f"wiki article land {i} section title {t} what is the {t} of it" for i in range(8) for t in TOPICS]
    tokenizer = train_tokenizer(texts, 120, 32)
    clip = SmallCLIP(config)
    ClipEncoder(clip, tokenizer, PixelPreparation(32), 32, "").save(folder / "clip")
    torch.manual_seed(1)
    vision = SmallVision(config)
    fusion = QFormerFusion.create(
        vision, config, tokenizer, PixelPreparation(32), hidden_size=32, layers=2, queries=8, max_text_tokens=32
    )
    fusion.save(folder / "fusion")
    return World(folder, questions)


def run(world: World, out: Path, **options: object) -> Path:
    settings: dict[str, object] = {"steps": 6, "validate_every": 2, "progress": False, "validation_share": 0.25}
    return train_reranker(
        world.folder / "fusion",
        world.folder / "kb.json",
        world.folder / "images",
        world.questions,
        world.query_image_of,
        world.folder / "negatives.json",
        out,
        **(settings | options),  # type: ignore[arg-type]
    )


def test_the_loss_falls_and_the_result_loads(world: World, tmp_path: Path) -> None:
    out = run(world, tmp_path, steps=48, validate_every=16, learning_rate=3e-3, validation_share=0.0, batch_size=6)
    with (tmp_path / "curve.csv").open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    # Of the 12 negatives from other lands about 3 have the question's topic: by texts alone about log(4) is the least.
    assert losses[-1] < 1.1 < losses[0], losses
    before, after = QFormerFusion.load(world.folder / "fusion"), QFormerFusion.load(out)
    assert after.fingerprint != before.fingerprint
    for name, tensor in before.vision.state_dict().items():
        assert torch.equal(tensor, after.vision.state_dict()[name]), name


def test_a_resumed_run_equals_an_uninterrupted_one(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(world, tmp_path / "whole")
    saved = loop._save

    def save_and_stop(*arguments: object) -> None:
        saved(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run(world, tmp_path / "parts")
    monkeypatch.setattr(loop, "_save", saved)
    parts = run(world, tmp_path / "parts")
    expected = load_file(whole / "model.safetensors")
    for name, tensor in load_file(parts / "model.safetensors").items():
        assert torch.equal(tensor, expected[name]), name
    assert not torch.equal(
        expected["query_tokens"], load_file(world.folder / "fusion" / "model.safetensors")["query_tokens"]
    )


def test_the_tower_of_an_encoder_is_taken_and_stays(world: World, tmp_path: Path) -> None:
    out = run(world, tmp_path, steps=2, encoder=world.folder / "clip")
    tower = ClipEncoder.load(world.folder / "clip").model.vision_model.state_dict()
    found = QFormerFusion.load(out).vision.state_dict()
    for name, tensor in tower.items():
        assert torch.equal(tensor, found[name]), name


def test_nothing_to_train_on_is_an_error(world: World, tmp_path: Path) -> None:
    blind = World(world.folder / "nowhere", world.questions)
    with pytest.raises(ValueError, match="none of 16 questions"):
        train_reranker(
            world.folder / "fusion",
            world.folder / "kb.json",
            world.folder / "images",
            world.questions,
            blind.query_image_of,
            world.folder / "negatives.json",
            tmp_path,
            progress=False,
        )


def entities(sections: int = 8) -> dict[str, Entity]:
    made = {
        key: Entity(key, key, tuple(Section(str(i), "text", 2 * i) for i in range(sections)), image=f"{key}.png")
        for key in ("gold", "twin", "a", "b")
    }
    made["no picture"] = Entity("no picture", "", made["a"].sections)
    made["no sections"] = Entity("no sections", "", (), image="x.png")
    return made


def samples_of(question: Asked, found: list[str], sections: int = 8) -> list[Sample]:
    image = Path("any.png")
    return make_samples(
        [question], entities(sections), {"q": found}, lambda e: image if e.image else None, lambda _: image
    )


def test_negatives_obey_the_rules() -> None:
    asked = Asked("1", "what?", "q", ("gold", "twin"), 6)  # published position 6 is the fourth kept section
    (sample,) = samples_of(asked, ["a", "gold", "no picture", "twin", "no sections", "b", "unknown", "a"])
    assert sample.positive == Pair("gold", 3)
    assert sample.others == ("a", "b")
    for seed in range(50):
        drawn = draw_candidates(sample, entities(), random.Random(seed))
        assert len(drawn) == len(set(drawn)) == 16
        assert drawn[0] == Pair("gold", 3)
        assert sum(pair.entity_id == "gold" for pair in drawn[1:]) == 3
        assert {pair.entity_id for pair in drawn[4:]} <= {"a", "b"}


def test_the_same_seed_draws_the_same() -> None:
    (sample,) = samples_of(Asked("1", "what?", "q", ("gold",), 0), ["a", "b"])
    assert draw_candidates(sample, entities(), random.Random("5")) == draw_candidates(
        sample, entities(), random.Random("5")
    )


def test_a_short_article_gives_fewer_of_its_own() -> None:
    made = entities()
    made["gold"] = Entity("gold", "gold", made["gold"].sections[:2], image="gold.png")
    question = Asked("1", "what?", "q", ("gold",), 0)
    (sample,) = make_samples([question], made, {"q": ["a", "b"]}, lambda e: Path("x"), lambda _: Path("x"))
    drawn = draw_candidates(sample, made, random.Random(0))
    assert [pair.entity_id for pair in drawn].count("gold") == 2
    assert len(drawn) == 16


@pytest.mark.parametrize(
    ("question", "found", "sections", "reason"),
    [
        (Asked("1", "?", "q", ("gold",), None), ["a", "b"], 8, "evidence section is not known"),
        (Asked("1", "?", "q", ("gold",), 1), ["a", "b"], 8, "no such section"),
        (Asked("1", "?", "q", ("no picture",), 0), ["a", "b"], 8, "no picture"),
        (Asked("1", "?", "other", ("gold",), 0), ["a", "b"], 8, "no negatives"),
        (Asked("1", "?", "q", ("gold",), 0), ["a", "gold"], 8, "too few"),
    ],
)
def test_what_is_left_out(
    question: Asked, found: list[str], sections: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert samples_of(question, found, sections) == []
    assert reason in caplog.text


def test_no_picture_is_trained_on_and_validated_on() -> None:
    (sample,) = samples_of(Asked("1", "what?", "q", ("gold",), 0), ["a", "b"])
    many = [type(sample)("what?", f"q{i // 2}", sample.positive, sample.same, sample.others) for i in range(40)]
    training, validation = split_samples(many, 0.2, 0)
    assert (len(training), len(validation)) == (32, 8)
    assert not {s.image_id for s in training} & {s.image_id for s in validation}


def test_augmented_pictures_stay_pictures() -> None:
    image = Image.new("RGB", (60, 40), "orange")
    view = augment(image, random.Random(1))
    assert view.mode == "RGB"
    assert 0.65 * 2400 < view.width * view.height <= 2400
    assert augment(image, random.Random(1)).tobytes() == view.tobytes()


class ThreeEntities(FakeIndex):
    """A search returns the entities in order, and -1 when asked for more."""

    def search(self, vectors: torch.Tensor, k: int) -> tuple[FloatArray, IntArray]:
        rows = np.tile(np.array([0, 1, 2, -1])[:k], (len(vectors), 1))
        return rows.astype(np.float32), rows

    def entity(self, row: int) -> Entity:
        return Entity(f"e{row}", "", (), image=f"https://e.example/{row}.png")

    def row_of(self, entity_id: str) -> int | None:
        return {"e0": 0, "e1": 1, "e2": 2}.get(entity_id)


def test_mining_writes_the_known_form_and_goes_on(world: World, tmp_path: Path) -> None:
    encoder = ClipEncoder.load(world.folder / "clip")
    asked = [Asked(str(i), "?", image, ("e1",), 0) for i, image in enumerate(["q_red", "q_blue", "q_red", "gone"])]
    out = tmp_path / "negatives.json"
    assert mine_negatives(encoder, ThreeEntities(), asked, world.query_image_of, out, k=4, progress=False) == 2
    expected = {
        "gt_entity_pos_img": "https://e.example/1.png",
        "top_20": [{"entry": "e0"}, {"entry": "e1"}, {"entry": "e2"}],
    }
    assert json.loads(out.read_text()) == {"q_red": expected, "q_blue": expected}
    assert read_negatives(out)["q_blue"] == ["e0", "e1", "e2"]
    assert [path.name for path in tmp_path.iterdir()] == ["negatives.json"]

    header = json.dumps({"encoder": encoder.fingerprint, "k": 4, "entities": 3})
    kept = json.dumps(["q_red", {"gt_entity_pos_img": None, "top_20": [{"entry": "kept"}]}])
    partial = tmp_path / "negatives.json.partial"
    partial.write_text(f'{header}\n{kept}\n["q_blue", {{"gt_en')  # cut off in the middle of a line
    mine_negatives(encoder, ThreeEntities(), asked, world.query_image_of, out, k=4, progress=False)
    assert read_negatives(out) == {"q_red": ["kept"], "q_blue": ["e0", "e1", "e2"]}

    partial.write_text(header + "\n")
    with pytest.raises(ValueError, match="begun with"):
        mine_negatives(encoder, ThreeEntities(), asked, world.query_image_of, out, k=2, progress=False)


@pytest.mark.parametrize("content", ["[", "[]", '{"q": {"top_20": ["e0"]}}', '{"q": {}}'])
def test_negatives_of_another_form_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "negatives.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"negatives\.json"):
        read_negatives(path)
