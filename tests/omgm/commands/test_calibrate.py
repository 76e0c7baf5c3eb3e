from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from evaluation.datasets import load
from evaluation.recognition import collect
from omgm import OMGM
from omgm.__main__ import main
from omgm.opening import open_retriever, recognition_key
from omgm.parts import build_encoder, build_fusion
from omgm.profile import load_profile
from retriever.image_cache import ImageCache
from tests.fakes.knowledge_base import write_kb

QUESTION = "How large is the area?"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the embedded profile, and questions about its three entities that have a flag."""
    folder = tmp_path_factory.mktemp("calibrate")
    kb, images = write_kb(folder)
    assert main(["build-index", "--kb", str(kb), "--images", str(images), "--out", str(folder / "index")]) == 0
    lines = []
    for name in ("France", "Ireland", "Plain"):
        with Image.open(images / "flag" / f"{name}.png") as image:
            plain = image.convert("RGB")
            for number, (seen, side) in enumerate(((plain, 40), (ImageOps.mirror(plain), 60), (plain, 90))):
                seen.resize((side, 40)).save(folder / f"{name}_{number}.png")  # the first and third are copies
                entity = f"https://e.example/wiki/{name}"
                row = {"id": f"{name} {number}", "image": f"{name}_{number}", "question": QUESTION}
                lines.append(json.dumps(row | {"answers": ["1"], "entity": entity}))
    (folder / "questions.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def profile(world: Path) -> Path:
    arguments = ["--dataset", "plain", "--queries", str(world / "questions.jsonl"), "--query-images", str(world)]
    index = ["--index", str(world / "index")]
    assert main(["sweep", "--recognition", *index, *arguments, "--out", str(world / "out"), "--json"]) == 0
    return world / "out" / "profile.toml"


def test_the_profile_recognizes_what_the_index_holds(world: Path, profile: Path) -> None:
    settings = load_profile(str(profile)).recognition
    assert settings.threshold == 0.5 and settings.lead_w == 5.0  # nothing is written on flags
    with OMGM.open(world / "index", profile=profile) as omgm:
        known = omgm.ask(world / "images" / "flag" / "France.png", QUESTION)
        assert known.recognized is not None and known.recognized > 0.5 and not known.declined
        other = omgm.ask(world / "images" / "flag" / "France.png", QUESTION, alpha=0.1)
        assert other.recognized is None and not other.declined  # the fit does not apply to other weights
    with OMGM.open(world / "index", profile=profile, settings={"recognition.threshold": 1}) as omgm:
        declined = omgm.ask(world / "images" / "flag" / "France.png", QUESTION)
        assert declined.declined and declined.answer is None and declined.confidence == declined.recognized
        assert declined.entity is not None and declined.entity.title == "France"


def test_each_image_is_encoded_once_by_each_model(world: Path) -> None:
    cache = ImageCache(2**20)
    retriever = open_retriever(load_profile("embedded"), world / "index", cache=cache)
    retriever.recognition = None
    trials = list(collect(retriever, load("plain", world / "questions.jsonl"), world))
    assert (len(trials), cache.counts["step1", "miss"], cache.counts["step2", "miss"]) == (18, 9, 9)


def test_other_weights_need_another_calibration(world: Path, profile: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        OMGM.open(world / "index", profile=profile, settings={"fusion.alpha": 0.123}) as omgm,
    ):
        assert omgm.ask(world / "images" / "flag" / "France.png", QUESTION).recognized is None
    assert "omgm sweep --recognition" in caplog.text


@pytest.mark.parametrize(
    ("setting", "has"), [("search.image_keys=1", "(1, bit1)"), ("fusion.tokens=float16", "(12, float16)")]
)
def test_an_index_of_other_keys_or_tokens_needs_another_calibration(
    world: Path, profile: Path, setting: str, has: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    build = ["build-index", "--kb", str(world / "kb.json"), "--images", str(world / "images")]
    assert main([*build, "--out", str(tmp_path / "other"), "--set", setting]) == 0
    with caplog.at_level(logging.WARNING), OMGM.open(tmp_path / "other", profile=profile) as omgm:
        assert omgm.ask(world / "images" / "flag" / "France.png", QUESTION).recognized is None
    assert f"another number of image keys or other tokens than the index has {has}" in caplog.text


def test_the_shipped_calibration_is_of_the_shipped_models_and_settings() -> None:
    shipped = load_profile("embedded")
    models = build_encoder(shipped), build_fusion(shipped)
    key = recognition_key(shipped, *models, shipped.search.image_keys, shipped.fusion.tokens)
    assert shipped.recognition.fitted_to == key


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--set", "recognition.threshold=2"], "recognition.threshold: Input should be less than or equal to 1"),
        (["--alphas", "0,1"], "--alphas, --betas and --report-queries do not apply to --recognition"),
    ],
)
def test_wrong_options_are_told(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = ["--index", "i", "--queries", "q", "--query-images", "d", "--out", "o"]
    assert main(["sweep", "--recognition", *inputs, *options]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("command", [["sweep"], ["mine-negatives"]])
def test_questions_about_another_knowledge_base_are_refused(
    command: list[str], world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = tmp_path / "questions.jsonl"
    queries.write_text((world / "questions.jsonl").read_text().replace("e.example/wiki", "other.example"))
    files = ["--queries", str(queries), "--query-images", str(world), "--out", str(tmp_path / "out")]
    assert main([*command, "--index", str(world / "index"), "--dataset", "plain", *files]) == 2
    assert "none of the entities that the questions name" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
