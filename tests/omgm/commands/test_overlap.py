"""Copies of images under other names: in the index, in the training, and in the split that was tuned on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evaluation.image_overlap import note_images
from indexes.image_copies import KnownImages
from omgm.__main__ import main
from retriever.files import read_object
from tests.fakes.inputs import TRAINED, evaluate, generator, negatives, planner, profile, reranker, sweep, write_inputs
from tests.fakes.rows import write_jsonl
from tests.fakes.training_world import COLORS
from training.questions import is_held_out
from training.reranker.config import RerankerTrainingConfig


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a world whose `index` has the photographs that trainings do not hold out as labeled images.

    `photos` has copies of all photographs, saved again in another size and under other names, and a new one; they
    are asked about in `copies.jsonl`. All are of one color, which is why those that are held out are main images, too.
    """
    folder = write_inputs(tmp_path_factory.mktemp("overlap"))
    rows = [json.loads(line) for line in (folder / "q.jsonl").read_text().splitlines()]
    (folder / "photos").mkdir()
    for color in COLORS:
        photo = Image.open(folder / "queries" / f"q_{color}.png")
        photo.save(folder / "photos" / f"q_{color}.png")
        photo.resize((80, 70)).save(folder / "photos" / f"copy_{color}.webp", lossless=True)
    Image.linear_gradient("L").save(folder / "photos" / "new.png")
    copies = [row | {"id": f"copy {row['id']}", "image": row["image"].replace("q_", "copy_")} for row in rows]
    write_jsonl(folder / "copies.jsonl", *copies, copies[0] | {"id": "new", "image": "new"})
    other = [row | {"question": f"Tell me, {row['question']}"} for row in copies]
    write_jsonl(folder / "other.jsonl", *other)
    return folder


def asked(world: Path, name: str) -> list[str]:
    return ["--dataset", "plain", "--queries", str(world / name), "--query-images", str(world / "photos")]


def index(world: Path) -> list[str]:
    return ["--index", str(world / "index")]


def evaluated(world: Path, name: str, out: Path, *more: str) -> dict[str, Any]:
    command = ["evaluate", *(more or profile(world)), *index(world), *asked(world, name), "--no-answers"]
    assert main([*command, "--out", str(out)]) == 0
    return read_object(out / "metrics.json")


def test_what_is_asked_twice_is_counted(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in (world / "copies.jsonl").read_text().splitlines()]
    first, second = rows[0], next(row for row in rows if row["image"] != rows[0]["image"])
    image = Image.open(world / "photos" / f"{first['image']}.webp")
    image.save(world / "photos" / "renamed.png")
    asked = [first, first | {"id": "again"}, first | {"id": "renamed", "image": "renamed"}]
    others = [first | {"id": "words", "question": "What else?"}, first | {"id": "other", "image": second["image"]}]
    write_jsonl(world / "twice.jsonl", *asked, *others)
    assert evaluated(world, "twice.jsonl", tmp_path / "run")["n_repeated"] == 2
    assert "2 about the same image as an earlier one, in the same words" in capsys.readouterr().out


def test_questions_about_copies_of_labeled_images_are_counted(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = evaluated(world, "copies.jsonl", tmp_path / "run")
    count = 2 * len(COLORS)  # two questions about each image
    assert metrics["n_overlap"] == count and metrics["n_queries"] == count + 1
    overlap = metrics["overlap"]
    assert overlap["share"] == count / (count + 1) and overlap["others"]["n"] == 1
    labeled = [id for id, place in overlap["questions"].items() if place == "labeled"]
    assert len(labeled) == 2 * len(TRAINED) and set(overlap["questions"].values()) <= {"labeled", "main"}
    printed = capsys.readouterr().out
    assert (
        f"overlap known {100 * count / (count + 1):.1f} ({2 * len(TRAINED)} among labeled images of the index"
        in printed
    )
    assert "the other 1 question: step1 recall@1" in printed

    assert main(["compare", str(tmp_path / "run"), str(tmp_path / "run"), "--resamples", "9"]) == 0
    assert f"{count} that the index or the profile's training knows, by image or words" in capsys.readouterr().out


def test_what_the_labeled_images_show_is_unknown_without_a_note(
    world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note = world / "index" / "images.npz"
    content = note.read_bytes()
    note.unlink()
    try:
        metrics = evaluated(world, "copies.jsonl", tmp_path / "run")
    finally:
        note.write_bytes(content)
    assert "has labeled images, but no note of their content (images.npz)" in caplog.text
    assert set(metrics["overlap"]["questions"].values()) == {"main"}


@pytest.mark.slow
def test_the_split_that_was_tuned_on_is_known_by_its_images(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sweep(report: str, out: Path) -> int:
        grids = ["--alphas", "0.5", "--betas", "0.5", "--report-queries", str(world / report), "--out", str(out)]
        return main(["sweep", *profile(world), *index(world), *asked(world, "q.jsonl"), *grids])

    assert sweep("copies.jsonl", tmp_path / "refused") == 2
    assert f"share {2 * len(COLORS)} queries, such as ('copy_" in capsys.readouterr().err
    assert sweep("other.jsonl", tmp_path / "swept") == 0
    assert read_object(tmp_path / "swept" / "sweep.json")["reported"]["overlap"] == 1.0
    assert "100.0 percent of these queries have an image of the tuning split" in capsys.readouterr().out

    swept = ["--profile", str(tmp_path / "swept" / "profile.toml")]
    places = evaluated(world, "copies.jsonl", tmp_path / "run", *swept)["overlap"]["questions"]
    assert sum(place == "profile" for place in places.values()) == 2 * (
        len(COLORS) - len(TRAINED)
    )  # others are labeled


def test_a_training_holds_copies_out_together_and_notes_its_images(
    world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [json.loads(line) for name in ("q", "copies") for line in (world / f"{name}.jsonl").read_text().splitlines()]
    write_jsonl(tmp_path / "both.jsonl", *(row for row in rows if row["id"] != "new"))
    images = ["--query-images", str(world / "photos"), "--queries", str(tmp_path / "both.jsonl")]
    command = ["train-encoder", *profile(world), *index(world), "--dataset", "plain", *images, "--steps", "1"]
    assert main([*command, "--out", str(tmp_path / "trained")]) == 0
    count = len(COLORS)
    assert f"{count} of {2 * count} images (50.0 percent) are copies of others" in caplog.text
    assert f"{4 * count} of {4 * count} questions (100.0 percent) have the main image of their entity" in caplog.text
    data = read_object(tmp_path / "trained" / "encoder" / "training.json")["data"]
    validated = 2 * (count - len(TRAINED))
    assert data["labeled images validated on"] == validated
    assert data["labeled images trained on"] == 2 * count - validated
    noted = KnownImages.load(tmp_path / "trained" / "images.npz")
    assert len(noted.ids) == 2 * count

    new = KnownImages(noted.ids[:1], noted.signatures[:1] ^ np.uint8(255))  # another image of the same id
    note_images(tmp_path, new, [tmp_path / "trained"])
    assert len(KnownImages.load(tmp_path / "images.npz").ids) == 2 * count + 1
    note_images(tmp_path, KnownImages([], noted.signatures[:0]))
    assert not (tmp_path / "images.npz").exists()


def test_runs_are_compared_by_the_content_of_images(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same questions with images of other names, formats and sizes are the same questions."""
    rows = [json.loads(line) for line in (world / "q.jsonl").read_text().splitlines()]
    write_jsonl(tmp_path / "renamed.jsonl", *(row | {"image": row["image"].replace("q_", "copy_")} for row in rows))
    evaluated(world, "q.jsonl", tmp_path / "one")
    evaluated(world, str(tmp_path / "renamed.jsonl"), tmp_path / "two")
    capsys.readouterr()
    runs = [str(tmp_path / name) for name in ("one", "two")]
    assert main(["compare", *runs, "--resamples", "9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_common"], "warning" in found) == (2 * len(COLORS), False)
    (tmp_path / "two" / "images.npz").unlink()
    assert main(["compare", *runs, "--resamples", "9"]) == 2
    assert "no question in common" in capsys.readouterr().err


def test_a_check_of_questions_names_images_that_the_index_has(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["kb", "check", *asked(world, "copies.jsonl"), *index(world)]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    count = 2 * len(COLORS)
    labeled, main_images = 2 * len(TRAINED), count - 2 * len(TRAINED)
    assert found["overlap"] == {"share": count / (count + 1), "labeled": labeled, "main": main_images}
    assert found["main_copies"] == {"compared": len(COLORS), "entities": 0, "groups": []}
    assert main(command) == 0
    said = f"({labeled} among labeled images of the index, {main_images} among main images of their entities)"
    assert f"known images: {100 * count / (count + 1):.1f} percent of the questions {said}" in capsys.readouterr().out


def test_images_of_another_content_under_the_same_names_are_said(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated(world, "q.jsonl", tmp_path / "one")
    photo = world / "photos" / f"q_{COLORS[0]}.png"
    content = photo.read_bytes()
    Image.linear_gradient("L").save(photo)
    try:
        evaluated(world, "q.jsonl", tmp_path / "two")
    finally:
        photo.write_bytes(content)
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "two"), "--resamples", "9"]) == 0
    questions = 2 * len(COLORS)
    expected = f"Warning: in two, 2 of {questions} common questions show other images."
    assert expected in capsys.readouterr().out


def test_labeled_images_that_a_generator_is_trained_with_find_themselves(
    world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert main([*generator(world, tmp_path), "--samples-only"]) == 0
    share = f"{len(TRAINED)} of {len(COLORS)} images ({100 * len(TRAINED) / len(COLORS):.1f} percent)"
    assert f"{share} are its labeled images, and find themselves" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 6])
def test_labeled_images_that_a_reranker_holds_out_are_told(
    world: Path, tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    named = KnownImages.of({color: world / "queries" / f"q_{color}.png" for color in COLORS}).names()
    held_out = {color for color in COLORS if is_held_out(named[color], RerankerTrainingConfig().validation_share, seed)}
    command = [*reranker(world, tmp_path / "out"), "--seed", str(seed), *index(world)]
    at = command.index("--kb")
    assert main(command[:at] + command[at + 4 :]) == 0
    if seed == 0:  # that of the index
        assert held_out and held_out.isdisjoint(TRAINED) and "find themselves" not in caplog.text
    else:
        assert len(held_out) == 1 and held_out < {*TRAINED}
        assert "1 of 1 held-out image (100.0 percent) are its labeled images" in caplog.text


@pytest.mark.slow
def test_a_large_file_of_another_index_is_found_before_anything_is_measured(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("indexes.store.manifest.SMALL", 100)
    mixed = Path(shutil.copytree(world / "index", tmp_path / "mixed"))
    content = bytearray((mixed / "tokens.npy").read_bytes())
    content[-1] ^= 1
    (mixed / "tokens.npy").write_bytes(content)
    codecs = ["index", "tokens", *evaluate(world, tmp_path)[1:]]
    codecs.remove("--no-answers")
    agent = ["evaluate", *codecs[2:], "--mode", "mmsearch", *planner()]
    for command in (*(make(world, tmp_path) for make in (evaluate, sweep, negatives, generator)), codecs, agent):
        assert main([str(mixed) if word == str(world / "index") else word for word in command]) == 2, command
        assert "tokens.npy: content differs from its checksum" in capsys.readouterr().err, command
