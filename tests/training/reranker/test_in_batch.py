"""Training step 2 with in-batch candidates, image tower included."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from retriever.models.qformer import QFormerFusion
from tests.fakes.training_world import COLORS, TrainingWorld
from training import checkpoint, loop
from training.augment import ROOM
from training.batch import Targets
from training.processes import Processes
from training.reranker.batches import Order
from training.reranker.config import RerankerTrainingConfig
from training.reranker.data import RerankerData
from training.reranker.in_batch import InBatch, InBatchMaker, TowerFeatures
from training.reranker.train import train_reranker
from training.reranker.training_set import TrainingSet, Views, make_training_set

CONFIG = RerankerTrainingConfig(steps=6, validate_every=2, validation_share=0.25, batch_size=8)


@pytest.fixture(scope="module")
def data(world: TrainingWorld, tmp_path_factory: pytest.TempPathFactory) -> RerankerData:
    """The world with a second image for each of the first four entities."""
    folder = tmp_path_factory.mktemp("photos")
    shutil.copytree(world.folder / "queries", folder, dirs_exist_ok=True)
    negatives = json.loads(world.data.negatives.read_text())
    questions = list(world.questions)
    for question in world.questions:
        color = question.image_id.removeprefix("q_")
        if color in COLORS[:4]:
            shutil.copy(folder / f"q_{color}.png", folder / f"r_{color}.png")
            negatives[f"r_{color}"] = negatives[f"q_{color}"]
            questions.append(replace(question, id=f"{question.id}_again", image_id=f"r_{color}"))
    (folder / "negatives.json").write_text(json.dumps(negatives))
    return replace(
        world.data,
        questions=questions,
        query_image_of=lambda name: folder / f"{name}.png",
        negatives=folder / "negatives.json",
    )


@pytest.fixture(scope="module")
def training_set(world: TrainingWorld, data: RerankerData, tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    return make_training_set(
        data,
        tmp_path_factory.mktemp("set") / "data",
        QFormerFusion.load(world.folder / "fusion"),
        views=Views(1, 1),
        side=40,
        most_similar=False,
        validation_share=0.0,
        seed=0,
        max_bad=0.0,
        workers=0,
        processes=Processes(),
    )


def maker(made: TrainingSet, rank: int = 0, **given: int) -> InBatchMaker:
    settings = {"batch_size": 6, "accumulate": 1, "processes": 1, "seed": 3}
    order = Order(made.samples.training, **settings | given)
    return InBatchMaker(made.samples, made.texts(), made.store, order, rank, size=32, padding=0)


def tokens(batch: InBatch, kind: str) -> list[list[int]]:
    texts = getattr(batch, kind)
    return [row[seen.bool()].tolist() for row, seen in zip(texts.ids, texts.mask, strict=True)]


def found_by(targets: Targets) -> list[tuple[int, int]]:
    return list(zip(targets.queries.tolist(), targets.keys.tolist(), strict=True))


def test_every_question_finds_its_evidence_and_another_image(training_set: TrainingSet) -> None:
    samples, texts = training_set.samples, training_set.texts()
    sample_of = {tuple(texts[int(samples.question[i])].tolist()): i for i in range(len(samples))}
    found = 0
    for number in range(20):
        batch = maker(training_set)(number)
        questions, sections = tokens(batch, "questions"), tokens(batch, "sections")
        assert len(questions) == 6 and len(sections) <= 2 * round(0.6 * 6)
        assert [batch.pixels.dtype, *batch.pixels.shape[1:]] == [torch.float32, 3, 32, 32]
        empty = texts[len(texts) - 1].tolist()
        assert tokens(batch, "labeled") == [empty] * len(batch.labeled.ids)
        for query, evidence in found_by(batch.evidence):
            topic = texts[int(samples.evidence[sample_of[tuple(questions[query])]])].tolist()[-4:]
            assert sections[evidence][-4:] == topic  # all articles use the same words for a topic
        for query, labeled in found_by(batch.labeled_gold):
            own, other = batch.questions.image[query], batch.labeled.image[labeled]
            if questions.count(questions[query]) == 1:
                same = (batch.pixels[own].mean((1, 2)) - batch.pixels[other].mean((1, 2))).abs().max()
                assert same < 0.7  # a varied image of the same color
                found += 1
    assert found > 10
    assert maker(training_set).steps_per_epoch == 2  # 12 images


def test_copies_of_an_article_are_no_candidates_of_each_other(training_set: TrainingSet) -> None:
    """Blue's article is a copy of red's: one batch has sections of one of them, and photographs of both find both."""
    samples, texts = training_set.samples, training_set.texts()
    samples = replace(samples, original=np.where(samples.original == 1, 0, samples.original))
    of_entity = [{tuple(texts[row].tolist()) for row in samples.sections_of(entity)} for entity in (0, 1)]
    made, seen = maker(replace(training_set, samples=samples)), set()
    assert 1 not in made.owners and (made.owners == 0).sum() == 4  # two photographs each
    for number in range(30):
        batch = made(number)
        sections = set(map(tuple, tokens(batch, "sections")))
        held = [bool(sections & own) for own in of_entity]
        assert not all(held)
        seen.add(tuple(held))
    assert {(True, False), (False, True)} <= seen


def test_equal_arguments_give_equal_batches(training_set: TrainingSet) -> None:
    first, second = (maker(training_set)(5) for _ in range(2))
    others = maker(training_set)(6), maker(training_set, rank=1)(5), maker(training_set, seed=4)(5)
    assert torch.equal(first.pixels, second.pixels) and torch.equal(first.sections.ids, second.sections.ids)
    assert not any(torch.equal(first.pixels[:6], other.pixels[:6]) for other in others)


def test_a_batch_holds_what_step_1_confuses(training_set: TrainingSet) -> None:
    """For red, only blue and green are found, so a batch that starts with red contains both."""
    samples, red = training_set.samples, 0
    found = np.concatenate([[1, 2] if gold == red else [gold] for gold in samples.gold]).astype(np.int32)
    lengths = [2 if gold == red else 1 for gold in samples.gold]
    samples = replace(
        samples,
        first_found=np.concatenate([[0], np.cumsum(lengths)]),
        found=found,
        right=found == np.repeat(samples.gold, lengths),
        similarity=np.zeros(len(found), np.float32),
    )
    made = maker(replace(training_set, samples=samples), batch_size=3)
    drawn = [made.owners[made._draw(np.random.default_rng(seed))].tolist() for seed in range(60)]
    with_red = [owners for owners in drawn if owners[0] == red]
    assert len(with_red) > 3 and all(sorted(owners) == [0, 1, 2] for owners in with_red)


def test_features_are_those_of_the_tower_as_it_is(world: TrainingWorld, training_set: TrainingSet) -> None:
    fusion = QFormerFusion.load(world.folder / "fusion")
    features = TowerFeatures(fusion, training_set.store, torch.float32)
    with torch.no_grad():
        [read] = features.read([0], [0])
        expected = fusion.vision_features(fusion.pixels([stored_image(training_set, 0)]))[0]
        assert torch.allclose(read, expected, atol=1e-4)  # a plain image stays plain at any size
        next(fusion.vision.parameters()).mul_(2)
        assert not torch.allclose(features.read([0], [0])[0], expected, atol=1e-3)


def stored_image(made: TrainingSet, row: int) -> Image.Image:
    return Image.fromarray(made.store.read([row], [0])[0].permute(1, 2, 0).numpy())


@pytest.mark.slow
def test_the_loss_falls_and_the_tower_learns(world: TrainingWorld, data: RerankerData, tmp_path: Path) -> None:
    config = replace(CONFIG, steps=40, validate_every=10, learning_rate=3e-3, validation_share=0.0, batch_size=12)
    out = train_reranker(world.folder / "fusion", data, tmp_path, config).folder
    with (tmp_path / "curve.csv").open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert losses[-1] < 0.6 * losses[0], losses
    before, after = (load_file(folder / "model.safetensors") for folder in (world.folder / "fusion", out))
    tower = [name for name in before if name.startswith("vision.") and before[name].ndim == 4]
    assert tower and not any(torch.equal(before[name], after[name]) for name in tower)
    assert json.loads((out / "training.json").read_text())["recipe"] == "in-batch"


def test_a_resumed_run_equals_an_uninterrupted_one(
    world: TrainingWorld, data: RerankerData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str) -> dict[str, Tensor]:
        trained = train_reranker(world.folder / "fusion", data, tmp_path / name, CONFIG)
        return load_file(trained.folder / "model.safetensors")

    expected, saved = run("whole"), checkpoint.save

    def save_and_stop(*arguments: object) -> None:
        saved(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run("parts")
    monkeypatch.setattr(loop, "save", saved)
    for name, tensor in run("parts").items():
        assert torch.equal(tensor, expected[name]), name


def test_images_are_kept_larger_than_the_model_reads_them(world: TrainingWorld, tmp_path: Path) -> None:
    train_reranker(world.folder / "fusion", world.data, tmp_path, replace(CONFIG, steps=1))
    manifest = json.loads((tmp_path / "data" / "training_set.json").read_text())
    assert manifest["features"] == [3, round(ROOM * 32), round(ROOM * 32)]
