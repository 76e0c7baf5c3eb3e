"""Imagined countries beside the real ones: random flags with real facts, to learn to look rather than to name."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from demo.articles import articles
from demo.build import write_rows
from demo.draw import draw
from demo.facts import Country, countries
from demo.flags import Flag, load_flags
from demo.pretraining.camera import Camera
from demo.pretraining.flag_batches import made_up_name, photograph_flags
from demo.pretraining.generate import random_flag, similar_flag
from demo.questions import questions

SIDE = 144  # of a photograph, resized to a square as the models see it


def imagined_world(count: int, seed: int = 0) -> tuple[dict[str, Country], dict[str, Flag]]:
    """Returns the real countries followed by `count` imagined ones, and all their flags, by code.

    An imagined country has an invented name, the other facts of a real one, and a random flag or a near twin of the
    previous flag.
    """
    rng = random.Random(f"imagined {seed}")
    world, flags = dict(countries()), load_flags()
    real = list(world.values())
    names = {country["name"] for country in real}
    flag = random_flag(rng)
    for number in range(count):
        name = made_up_name(rng)
        while name in names:
            name = made_up_name(rng)
        names.add(name)
        code = f"x{number}"
        world[code] = rng.choice(real) | {"code": code, "name": name, "official_name": f"Republic of {name}"}
        flag = similar_flag(flag, rng) if number % 2 else random_flag(rng)
        flags[code] = flag
    return world, flags


def write_world(folder: Path, imagined: int, photographs: int, questions_each: int, seed: int = 0) -> None:
    """Writes the data set that step 2 is trained on: `kb_wiki.json`, `images/flag`, `queries`, `train.csv`.

    Args:
        folder: Created if it does not exist; a folder with `train.csv` is complete and left alone.
        imagined: Number of imagined countries.
        photographs: Photographs per flag; the questions about it share them.
        questions_each: Questions per country.
        seed: Seed of everything random.
    """
    if (folder / "train.csv").exists():
        return
    world, flags = imagined_world(imagined, seed)
    entries = articles(world, flags)
    rows = questions(random.Random(seed), questions_each, world=world, entries=entries)
    for row in rows:
        code, number = row["dataset_image_ids"].rsplit("_", 1)
        row["dataset_image_ids"] = f"{code}_{int(number) % photographs}"
    (folder / "images" / "flag").mkdir(parents=True, exist_ok=True)
    (folder / "queries").mkdir(exist_ok=True)
    (folder / "kb_wiki.json").write_text(json.dumps(entries), encoding="utf-8")
    for code, flag in flags.items():
        draw(flag, 160).save(folder / "images" / "flag" / f"{code}.png")
    camera = Camera(SIDE, seed)
    generator = torch.Generator().manual_seed(seed)
    everything = [(code, flag) for code, flag in flags.items() for _ in range(photographs)]
    for start in range(0, len(everything), 128):
        part = everything[start : start + 128]
        taken = photograph_flags(camera, [flag for _, flag in part], generator)
        for offset, photo in enumerate(taken):
            array = (photo.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
            name = f"{part[offset][0]}_{(start + offset) % photographs}.jpg"
            Image.fromarray(array).save(folder / "queries" / name, quality=90)
    write_rows(folder / "train.csv", rows)
