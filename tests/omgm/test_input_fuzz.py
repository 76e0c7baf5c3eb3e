"""One byte of any input of a finished run is changed: the command refuses and says so; copies of all inputs pass."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omgm.__main__ import main
from tests.fakes.inputs import (
    ANSWER,
    BASE,
    DEPTH,
    FEWER,
    IMAGE,
    INDEX,
    KEYS,
    LABEL,
    NEGATIVE,
    PHOTO,
    QUESTION,
    SECTION,
    STEP_1,
    STEP_2,
    TEXT,
    WORDS,
    Change,
    build,
    calibrate,
    encoder,
    evaluate,
    generator,
    negatives,
    reranker,
    sweep,
    write_inputs,
)
from tests.paths import contents

RUNS = 1
"""Bytes to change per kind of input; raise it for a longer fuzz."""

BUILT = {
    "knowledge base": TEXT,
    "images": IMAGE,
    "labeled images": [LABEL, PHOTO],
    "encoder: other": STEP_1,
    "fusion encoder: other": STEP_2,
    "summarizer": WORDS,
    "image_keys": KEYS,
}
ENCODED = {
    "articles": TEXT,
    "main images": IMAGE,
    "labeled images": PHOTO,
    "labels": LABEL,
    "start": STEP_1,
    "summaries": FEWER,
}
RERANKED = {
    "articles": TEXT,
    "images": IMAGE,
    "query images": PHOTO,
    "questions": [LABEL, SECTION, QUESTION],
    "negatives": NEGATIVE,
    "fusion": STEP_2,
    "serving.use": KEYS,
}
EVALUATED = {
    "query images": PHOTO,
    "questions": [LABEL, SECTION, QUESTION, ANSWER],
    "settings": [DEPTH, WORDS],
    "index content: other": INDEX,
    "profile: encoder": STEP_1,
    "profile: fusion encoder": STEP_2,
}
MINED = {
    "query images": PHOTO,
    "labels": LABEL,
    "article images": IMAGE,
    "index: other": INDEX,
    "k was 7 and is now 6": DEPTH,
    "profile: encoder": STEP_1,
}
LEARNED = {
    "query images": PHOTO,
    "questions": [QUESTION, ANSWER],
    "index content: other": INDEX,
    "base's weights": BASE,
    "profile.search.k": DEPTH,
    "encoder.model: other": STEP_1,
    "fusion.model: other": STEP_2,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


def copied(world: Path, folder: Path) -> Path:
    """Copies all inputs to another folder, with other times."""
    copy = shutil.copytree(world, folder)
    for path in copy.rglob("*"):
        os.utime(path, (1e9, 1e9))
    return copy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (build, BUILT),
        (encoder, ENCODED),
        (reranker, RERANKED),
        (evaluate, EVALUATED),
        (sweep, EVALUATED),
        (negatives, MINED),
        pytest.param(generator, LEARNED, marks=pytest.mark.filterwarnings("ignore")),
    ],
)
def test_every_changed_byte_is_noticed_and_no_copy_is(
    world: Path,
    tmp_path: Path,
    command: Callable[[Path, Path], list[str]],
    changes: dict[str, Change | list[Change]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command is generator:
        pytest.importorskip("peft")
    out, rng = tmp_path / "out", random.Random(command.__name__)
    out.mkdir()
    assert main(command(world, out)) == 0, capsys.readouterr().err
    done = contents(out)
    copy = copied(world, tmp_path / "copied")
    assert main(command(copy, out)) == 0, capsys.readouterr().err
    results = {name for name in done if name.endswith((".safetensors", ".npy", ".jsonl", "negatives.json"))}
    assert results and {name: contents(out)[name] for name in results} == {name: done[name] for name in results}
    done = contents(out)
    cases = [(said, one) for said, of in changes.items() for one in (of if isinstance(of, list) else [of])]
    for said, change in cases * RUNS:
        shutil.rmtree(copy)
        shutil.copytree(world, copy)
        change(copy, rng)
        capsys.readouterr()
        assert main(command(copy, out)) == 2, said
        error = capsys.readouterr().err
        assert ("other inputs" in error or said.startswith("profile: ")) and said in error, error
        assert contents(out) == done, said


def test_a_calibration_is_always_made_from_its_inputs(world: Path, tmp_path: Path) -> None:
    copy, out = copied(world, tmp_path / "copied"), tmp_path / "out"
    assert main(calibrate(world, out)) == 0
    first = (out / "profile.toml").read_text()
    LABEL(copy, random.Random(0))
    assert main(calibrate(copy, out)) == 0 and main(calibrate(copy, tmp_path / "fresh")) == 0
    fitted = [
        (folder / "profile.toml").read_text().partition("[recognition]")[2] for folder in (out, tmp_path / "fresh")
    ]
    assert fitted[0] == fitted[1] != first.partition("[recognition]")[2]
