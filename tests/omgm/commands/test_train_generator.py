"""`omgm train-generator` from an index and questions to an adapter and the profile that uses it, on a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generators.chat import ChatGenerator
from generators.guard import GuardedGenerator
from omgm.__main__ import main
from omgm.parts import build_generator
from omgm.profile import load_profile
from tests.fakes.chat_checkpoints import write_llama, write_llava
from tests.fakes.knowledge_base import write_kb
from tests.fakes.question_files import evqa_row
from tests.fakes.rows import write_csv
from tests.paths import ROOT
from training.generator.samples import read_samples

pytest.importorskip("peft")
pytestmark = pytest.mark.skipif(not (ROOT / "weights" / "embedded").is_dir(), reason="weights/embedded is not there")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Arguments of every training run here: an index, and six questions, one of which has no image."""
    folder = tmp_path_factory.mktemp("given")
    kb, images = write_kb(folder)
    assert main(["build-index", "--kb", str(kb), "--images", str(images), "--out", str(folder / "index")]) == 0
    answers = {"France": "643,801 km²|643801", "Ireland": "green&&white", "Plain": "yellow", "Lost": "red"}
    asked = (
        evqa_row(f"Question {number}: what is the flag?", answer, name)
        for number, (name, answer) in enumerate([*answers.items()] * 2)
    )
    write_csv(folder / "train.csv", *asked)
    inputs = {"--index": folder / "index", "--queries": folder / "train.csv", "--query-images": images / "flag"}
    return ["train-generator", *(str(part) for pair in inputs.items() for part in pair)]


SMALL = ["--rank", "12", "--lora-alpha", "24", "--batch-size", "2", "--accumulate", "1", "--learning-rate", "1e-3"]
MULTIMODAL = ["--set", "generator.multimodal=true"]


def test_from_questions_to_a_profile(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, out = write_llava(tmp_path / "llava"), tmp_path / "out"
    command = [*given, "--base", str(base), "--out", str(out), *SMALL, *MULTIMODAL]
    assert main([*command, "--samples-only"]) == 0
    assert capsys.readouterr().out == f"{out / 'samples.jsonl'}\n"
    assert not (out / "adapter").exists()
    samples = {sample.id: sample for sample in read_samples(out / "samples.jsonl")}
    assert [sample.answer for sample in samples.values()] == ["643,801 km²", "green, white", "yellow"] * 2
    assert {sample.evidence.entity_title for sample in samples.values()} <= {"France", "Ireland", "Plain"}
    assert all(sample.image and Path(sample.image).is_file() for sample in samples.values())

    assert main(command) == 0
    shown = capsys.readouterr().out
    assert (
        f"vllm serve {base} --port 8001 --generation-config vllm --enable-lora --max-lora-rank 16 "
        f"--lora-modules omgm-adapter={out / 'adapter'}\n"
    ) in shown
    assert shown.endswith(f"--profile {out / 'profile.toml'}\n")
    report = json.loads((out / "training.json").read_text())
    assert report["kind"] == "generator" and report["metrics"]["steps"] == 3
    assert report["base"] == {"model": str(base), "revision": None}
    assert report["data"]["samples"] == 6 and report["data"]["left_out"] == {"the image is missing": 2}
    assert report["settings"]["rank"] == 12 and report["settings"]["multimodal"] is True
    assert report["commit"] is None or len(report["commit"].removesuffix("-dirty")) == 40

    profile = load_profile(str(out / "profile.toml"))
    asked = profile.generator
    assert (asked.kind, asked.model, asked.base_url) == ("openai", "omgm-adapter", "http://127.0.0.1:8001")
    assert (asked.tokenizer, asked.multimodal) == (str(base), True)
    guard = build_generator(profile)
    assert isinstance(guard, GuardedGenerator) and isinstance(guard.generator, ChatGenerator)

    assert main(command) == 0  # nothing is left to do
    assert json.loads((out / "training.json").read_text()) == report


def test_a_text_only_model(given: list[str], tmp_path: Path) -> None:
    base = write_llama(tmp_path / "llama")
    command = [*given, "--base", str(base), "--out", str(tmp_path / "out"), *SMALL, "--steps", "1", "--most", "4"]
    assert main([*command, "--set", "generator.base_url=http://127.0.0.1:9/v1"]) == 0
    samples = read_samples(tmp_path / "out" / "samples.jsonl")
    assert len(samples) == 4 and {sample.image for sample in samples} == {None}
    profile = load_profile(str(tmp_path / "out" / "profile.toml"))
    assert profile.generator.base_url == "http://127.0.0.1:9/v1" and not profile.generator.multimodal


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base", "./nowhere"], "--base: nowhere has no config.json; name the folder of a model of transformers"),
        (["--base", "llama"], "--base: 'llama' is neither a folder"),
        (
            ["--base", "org/absent@v1"],
            "--base: org/absent@v1 is not on this machine, or not all of it; run: hf download org/absent --revision v1",
        ),
        (["--base", "LLAMA", *MULTIMODAL], "a llama model reads no images, but generator.multimodal is true"),
        (["--base", "LLAMA", "--rank", "1000"], "rank must be at most 512"),
        (["--base", "LLAMA", "--set", "dtype=float16"], "dtype must be float32 or bfloat16 for training"),
    ],
)
def test_a_mistake_shows_before_any_retrieval(
    given: list[str], arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(write_llama(tmp_path / "llama")) if word == "LLAMA" else word for word in arguments]
    assert main([*given, *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_several_processes_need_samples(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    base = write_llama(tmp_path / "llama")
    assert main([*given, "--base", str(base), "--out", str(tmp_path / "out")]) == 2
    assert "samples.jsonl does not exist; make it in one process first, with --samples-only" in capsys.readouterr().err
