"""One byte of any input of a finished run is changed: the command refuses and says so; copies of all inputs pass."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omgm.__main__ import main
from tests.fakes.training_world import COLORS, TOPICS, write_training_world
from tests.paths import contents

RUNS = 1
"""Bytes to change per kind of input; raise it for a longer fuzz."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs of all commands: `kb.json`, `images`, `queries`, `q.jsonl`, `negatives.json`, models and a profile."""
    folder = tmp_path_factory.mktemp("inputs")
    made = write_training_world(folder)
    rows = [
        {
            "id": question.id,
            "image": question.image_id,
            "question": question.question,
            "answers": [f"the {TOPICS[question.section_index or 0]} of it"],
            "entity": question.entity_ids[0],
            "section": question.section_index,
        }
        for question in made.questions
    ]
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = '[encoder]\nmodel = "./clip"\nkey_sizes = [32]\n\n[fusion]\nmodel = "./fusion"\ntokens = "float16"\n'
    limits = "\n[search]\nk = 7\n\n[summarizer]\nmax_words = 60\n"
    (folder / "profile.toml").write_text(f'extends = "embedded"\nname = "tiny"\n\n{settings}{limits}')
    assert main(build(folder, folder / "index")) == 0
    return folder


def kb(world: Path) -> list[str]:
    return ["--kb", str(world / "kb.json"), "--images", str(world / "images")]


def questions(world: Path) -> list[str]:
    files = ["--queries", str(world / "q.jsonl"), "--query-images", str(world / "queries")]
    return ["--dataset", "plain", *files]


def profile(world: Path) -> list[str]:
    return ["--profile", str(world / "profile.toml")]


def build(world: Path, out: Path) -> list[str]:
    return ["build-index", *profile(world), *kb(world), *questions(world), "--out", str(out)]


def encoder(world: Path, out: Path) -> list[str]:
    return ["train-encoder", *profile(world), *kb(world), *questions(world), "--steps", "1", "--out", str(out)]


def reranker(world: Path, out: Path) -> list[str]:
    recipe = ["--recipe", "mined", "--steps", "1", "--batch-size", "2", "--negatives", str(world / "negatives.json")]
    return ["train-reranker", *profile(world), *kb(world), *questions(world), *recipe, "--out", str(out)]


def evaluate(world: Path, out: Path) -> list[str]:
    return ["evaluate", *profile(world), "--index", str(world / "index"), *questions(world), "--out", str(out)]


def sweep(world: Path, out: Path) -> list[str]:
    grid = ["--alphas", "0,1", "--betas", "0,1"]
    return ["sweep", *profile(world), "--index", str(world / "index"), *questions(world), *grid, "--out", str(out)]


def replaced(path: Path, rng: random.Random, old: str, new: str) -> None:
    """Replaces one occurrence of a text by another one of the same length."""
    text = path.read_text()
    assert len(old) == len(new)
    places = [place for place in range(len(text)) if text.startswith(old, place)]
    place = rng.choice(places)
    path.write_text(text[:place] + new + text[place + len(old) :])


def flipped(path: Path, rng: random.Random, start: int = 0) -> None:
    """Flips a bit of a byte from `start` on."""
    content = bytearray(path.read_bytes())
    content[rng.randrange(start, len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def tensor(path: Path, rng: random.Random) -> None:
    """Flips a bit of a weight."""
    flipped(path, rng, 8 + int.from_bytes(path.read_bytes()[:8], "little"))


Change = Callable[[Path, random.Random], None]
TEXT: Change = lambda folder, rng: replaced(folder / "kb.json", rng, " of it", " of at")  # noqa: E731
IMAGE: Change = lambda folder, rng: flipped(folder / "images" / f"{rng.choice(COLORS)}.png", rng)  # noqa: E731
PHOTO: Change = lambda folder, rng: flipped(folder / "queries" / f"q_{rng.choice(COLORS)}.png", rng)  # noqa: E731
LABEL: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, "wiki/green", "wiki/black")  # noqa: E731
SECTION: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, '"section": 1', '"section": 2')  # noqa: E731
QUESTION: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, "what is", "what as")  # noqa: E731
ANSWER: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, " of it", " of at")  # noqa: E731
NEGATIVE: Change = lambda folder, rng: replaced(folder / "negatives.json", rng, "wiki/green", "wiki/black")  # noqa: E731
STEP_1: Change = lambda folder, rng: tensor(folder / "clip" / "model.safetensors", rng)  # noqa: E731
STEP_2: Change = lambda folder, rng: tensor(folder / "fusion" / "model.safetensors", rng)  # noqa: E731
WORDS: Change = lambda folder, rng: replaced(folder / "profile.toml", rng, "max_words = 60", "max_words = 61")  # noqa: E731
DEPTH: Change = lambda folder, rng: replaced(folder / "profile.toml", rng, "k = 7", "k = 6")  # noqa: E731
EVALUATED = {"query images": PHOTO, "questions": [LABEL, SECTION, QUESTION, ANSWER], "settings": [DEPTH, WORDS]}


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (
            build,
            {
                "knowledge base": TEXT,
                "images": IMAGE,
                "encoder: other": STEP_1,
                "fusion encoder: other": STEP_2,
                "summarizer": WORDS,
            },
        ),
        (encoder, {"articles": TEXT, "main images": IMAGE, "labeled images": PHOTO, "labels": LABEL, "start": STEP_1}),
        (
            reranker,
            {
                "knowledge base": TEXT,
                "images": IMAGE,
                "query images": PHOTO,
                "questions": [LABEL, SECTION, QUESTION],
                "negatives": NEGATIVE,
                "fusion": STEP_2,
            },
        ),
        (
            evaluate,
            {"query images": PHOTO, "questions": [LABEL, SECTION, QUESTION, ANSWER], "settings": [DEPTH, WORDS]},
        ),
        (sweep, {"query images": PHOTO, "questions": [LABEL, SECTION, QUESTION, ANSWER], "settings": [DEPTH, WORDS]}),
    ],
)
def test_every_changed_byte_is_noticed_and_no_copy_is(
    world: Path,
    tmp_path: Path,
    command: Callable[[Path, Path], list[str]],
    changes: dict[str, Change | list[Change]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, rng = tmp_path / "out", random.Random(command.__name__)
    assert main(command(world, out)) == 0
    done = contents(out)
    copy = shutil.copytree(world, tmp_path / "copied")  # in another folder, with other times
    for path in copy.rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert main(command(copy, out)) == 0, capsys.readouterr().err
    results = {name for name in done if name.endswith((".safetensors", ".npy", ".jsonl"))}
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
        assert "other inputs" in error and said in error
        assert contents(out) == done, said
