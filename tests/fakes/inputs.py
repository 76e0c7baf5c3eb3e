"""Inputs and options of every command, and ways to change one byte of them; for tests of what finished runs notice."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from indexes.image_copies import KnownImages, signature
from omgm.__main__ import main
from tests.fakes.chat_checkpoints import write_llama
from tests.fakes.training_world import COLORS, TOPICS, write_training_world
from training.config import TrainingConfig
from training.questions import is_held_out

_PHOTOGRAPHS = [np.frombuffer(signature(Image.new("RGB", (50, 30), color)), np.uint8) for color in COLORS]
_CONTENTS = KnownImages(COLORS, np.stack(_PHOTOGRAPHS)).names()
TRAINED = [color for color in COLORS if not is_held_out(_CONTENTS[color], TrainingConfig().validation_share, 0)]
"""Entities whose photographs trainings do not hold out; only these become keys of an index."""


def write_inputs(folder: Path) -> Path:
    """Writes `kb.json`, `images`, `queries`, `q.jsonl`, `negatives.json`, models, a profile, `index` and `others`.

    `others` is an index of the same knowledge base with one other word. Returns the folder.
    """
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
    limits = '\n[search]\nk = 7\nimage_keys = 4\n\n[summarizer]\nmax_words = 60\n\n[sections]\nkind = "bm25"\n'
    (folder / "profile.toml").write_text(f'extends = "embedded"\nname = "tiny"\n\n{settings}{limits}')
    write_llama(folder / "llama")
    kb = (folder / "kb.json").read_text()
    (folder / "kb.json").write_text(kb.replace(" of it", " of at", 1))
    assert main(build(folder, folder / "others")) == 0
    (folder / "kb.json").write_text(kb)
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
    recipe = [
        "--set",
        "fusion.recipe=mined",
        "--steps",
        "1",
        "--batch-size",
        "2",
        "--negatives",
        str(world / "negatives.json"),
    ]
    return ["train-reranker", *profile(world), *kb(world), *questions(world), *recipe, "--out", str(out)]


def evaluate(world: Path, out: Path) -> list[str]:
    index = ["--index", str(world / "index"), "--no-answers"]
    return ["evaluate", *profile(world), *index, *questions(world), "--out", str(out)]


def calibrate(world: Path, out: Path) -> list[str]:
    return [
        "sweep",
        "--recognition",
        *profile(world),
        "--index",
        str(world / "index"),
        *questions(world),
        "--out",
        str(out),
    ]


def negatives(world: Path, out: Path) -> list[str]:
    index = ["--index", str(world / "index"), "--images", str(world / "images")]
    return ["mine-negatives", *profile(world), *index, *questions(world), "--out", str(out / "negatives.json")]


def generator(world: Path, out: Path) -> list[str]:
    sizes = ["--rank", "4", "--batch-size", "1", "--accumulate", "1", "--steps", "1", "--most", "3"]
    given = ["--index", str(world / "index"), "--base", str(world / "llama"), *sizes]
    return ["train-generator", *profile(world), *given, *questions(world), "--out", str(out)]


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
IMAGE: Change = lambda folder, rng: flipped(folder / "images" / f"{rng.choice(TRAINED)}.png", rng)  # noqa: E731
PHOTO: Change = lambda folder, rng: flipped(folder / "queries" / f"q_{rng.choice(TRAINED)}.png", rng)  # noqa: E731
LABEL: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, "wiki/green", "wiki/black")  # noqa: E731
SECTION: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, '"section": 1', '"section": 2')  # noqa: E731
QUESTION: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, "what is", "what as")  # noqa: E731
ANSWER: Change = lambda folder, rng: replaced(folder / "q.jsonl", rng, " of it", " of at")  # noqa: E731
NEGATIVE: Change = lambda folder, rng: replaced(folder / "negatives.json", rng, "wiki/green", "wiki/black")  # noqa: E731
STEP_1: Change = lambda folder, rng: tensor(folder / "clip" / "model.safetensors", rng)  # noqa: E731
STEP_2: Change = lambda folder, rng: tensor(folder / "fusion" / "model.safetensors", rng)  # noqa: E731
WORDS: Change = lambda folder, rng: replaced(folder / "profile.toml", rng, "max_words = 60", "max_words = 61")  # noqa: E731
FEWER: Change = lambda folder, rng: replaced(folder / "profile.toml", rng, "max_words = 60", "max_words = 10")  # noqa: E731
DEPTH: Change = lambda folder, rng: replaced(folder / "profile.toml", rng, "k = 7", "k = 6")  # noqa: E731
KEYS: Change = lambda folder, rng: replaced(folder / "profile.toml", rng, "image_keys = 4", "image_keys = 3")  # noqa: E731
BASE: Change = lambda folder, rng: tensor(folder / "llama" / "model.safetensors", rng)  # noqa: E731


def INDEX(folder: Path, _: random.Random) -> None:
    """Puts the index of the changed knowledge base in the place of the other one."""
    shutil.rmtree(folder / "index")
    (folder / "others").rename(folder / "index")


def with_settings(*settings: str) -> list[str]:
    """Returns `--set` before each setting."""
    return [word for setting in settings for word in ("--set", setting)]


def planner(url: str = "http://127.0.0.1:9") -> list[str]:
    """Returns the options that name the chat model "scripted" of a server; by default, of one that does not answer."""
    return with_settings(f"generator.base_url={url}", "generator.model=scripted")
