"""Every command that runs models, from beginning to end, on a pretended device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from omgm.__main__ import main
from tests.gpu.pretend import pretend_cuda

pytest.importorskip("fastapi")

LABELED = ["--dataset", "evqa", "--queries", "questions.csv", "--query-images", "queries"]
QUESTIONS = [*LABELED, "--limit", "2"]
SOURCE = ["--kb", "kb.json", "--images", "images", "--set", "sections.kind=bm25"]  # the base model may be missing
NOTE = {"id": "new", "title": "A new flag", "image": "flag/fr.png", "sections": [{"title": "Colors", "text": "Blue."}]}


@pytest.fixture
def folder(example_folder: Path) -> Iterator[Path]:
    """The examples' folder, with negatives and one more article, while a device is pretended."""
    (example_folder / "new.jsonl").write_text(json.dumps(NOTE))
    with pretend_cuda():
        yield example_folder


def run(*arguments: str) -> None:
    assert main(list(arguments)) == 0


@pytest.mark.slow
def test_build_then_ask(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exact = ["--set", "fusion.tokens=float16"]  # the index of the other tests has the default, bit1
    run("build-index", *SOURCE, "--out", "built", *exact, "--set", "cuda_graphs=true")
    run("ask", "--index", "built", "photo.jpg", "What is the capital of this country?", *exact)
    assert "Tokyo" in capsys.readouterr().out
    run("index", "tokens", "--index", "built", *QUESTIONS, "--out", "codecs", "--codecs", "int8,bit1")


@pytest.mark.slow
def test_changes_of_an_index(folder: Path) -> None:
    run("index", "add", "--index", "index", "new.jsonl", "--images", "images")
    run("ask", "--index", "index", "photo.jpg", "What is the capital of this country?")
    run("index", "compact", "--index", "index")
    run("index", "verify", "--index", "index")


@pytest.mark.slow
def test_evaluation_and_tuning(folder: Path) -> None:
    run("evaluate", "--index", "index", *QUESTIONS, "--out", "run")
    assert json.loads(Path("run/metrics.json").read_text())["step2"]["recall@1"] == 1.0
    run("sweep", "--index", "index", *QUESTIONS, "--out", "sweep")
    run("sweep", "--recognition", "--index", "index", *LABELED, "--out", "calibrated")


@pytest.mark.slow
def test_trainings(folder: Path) -> None:
    training = [*SOURCE, *LABELED]
    run("train-encoder", *training, "--steps", "1", "--out", "encoder")
    run("mine-negatives", "--index", "index", *LABELED, "--images", "images", "--out", "negatives.json")
    run("train-reranker", *training, "--negatives", "negatives.json", "--steps", "1", "--out", "reranker")
