"""Writes a data set of imagined entities beside the real countries, where images decide and knowledge does not help.

    python -m pretraining.imagined --out DIR [--flags 300] [--designs 300] [--stickers 0] [--questions 4] [--seed 1]

Settings of the embedded profile that are not trained are chosen on such a data set.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from pretraining.camera import Camera
from pretraining.demo.articles import articles
from pretraining.demo.build import write_rows
from pretraining.demo.draw import draw
from pretraining.demo.facts import Country, countries, url_of
from pretraining.demo.flags import Flag, load_flags
from pretraining.demo.questions import questions
from pretraining.designs import CUT_OUT, Design, cut_out, paint, photograph_designs, random_design, with_twins
from pretraining.flag_batches import made_up_name, photograph_flags
from pretraining.generate import random_flag, similar_flag

SIDE = 144  # of a photograph, resized to a square, as the models see it
HEIGHT = 160  # of a main image

Picture = Flag | Design


def imagined_world(flags: int, designs: int, seed: int = 0) -> tuple[dict[str, Country], dict[str, Picture]]:
    """Returns the real countries followed by imagined ones, and the content of their main images, by code.

    An imagined country has an invented name, the other facts of a real one, and a random flag or design; every second
    one is a near twin of its predecessor. Each real country has its own flag.
    """
    rng = random.Random(f"imagined {seed}")
    world = dict(countries())
    pictures: dict[str, Picture] = dict(load_flags())
    real = list(world.values())
    names = {country["name"] for country in real}
    flag = random_flag(rng)
    drawn: list[Picture] = []
    for number in range(flags):
        flag = similar_flag(flag, rng) if number % 2 else random_flag(rng)
        drawn.append(flag)
    for number, picture in enumerate([*drawn, *with_twins(random_design, designs, rng)]):
        name = made_up_name(rng)
        while name in names:
            name = made_up_name(rng)
        names.add(name)
        code = f"x{number}"
        world[code] = rng.choice(real) | {"code": code, "name": name, "official_name": f"Republic of {name}"}
        pictures[code] = picture
    return world, pictures


def write_world(
    folder: Path,
    flags: int,
    designs: int,
    photographs: int = 2,
    questions_each: int = 4,
    seed: int = 0,
    stickers: int = 0,
) -> None:
    """Writes a data set in E-VQA's format: `kb_wiki.json`, `images/flag`, `queries`, `questions.csv`.

    Questions and articles about designs consist of made-up words, so that images unlike the training images come with
    texts unlike the training texts.

    Args:
        folder: Created if it does not exist.
        flags: Number of imagined countries with a flag.
        designs: Number of imagined countries with a design instead of a flag.
        photographs: Photographs per country, shared by the questions about it.
        questions_each: Questions per country.
        seed: Seed of everything random.
        stickers: Number of designs whose main image has no background. Every second query image of such a design is not
            a photograph but shows it flat on one color.
    """
    world, pictures = imagined_world(flags, designs, seed)
    groundless = set(list(pictures)[len(pictures) - stickers :])
    # Articles describe flags; the rest of an article does not depend on the image.
    shown = load_flags()
    stand_in = shown[next(iter(shown))]
    described = {code: picture if isinstance(picture, Flag) else stand_in for code, picture in pictures.items()}
    entries = articles(world, described)
    rows = questions(random.Random(seed), questions_each, world=world, entries=entries)
    words = random.Random(f"words {seed}")
    for code, picture in pictures.items():
        if isinstance(picture, Design):
            entry = entries[url_of(world[code])]
            entry["section_texts"] = [foreign(text, words) for text in entry["section_texts"]]
    for row in rows:
        code, question = row["dataset_image_ids"].rsplit("_", 1)
        row["dataset_image_ids"] = f"{code}_{int(question) % photographs}"
        if isinstance(pictures[code], Design):
            row["question"] = foreign(row["question"], words)
            row["evidence"] = entries[row["wikipedia_url"]]["section_texts"][int(row["evidence_section_id"])]
    (folder / "images" / "flag").mkdir(parents=True, exist_ok=True)
    (folder / "queries").mkdir(exist_ok=True)
    (folder / "kb_wiki.json").write_text(json.dumps(entries), encoding="utf-8")
    for code, picture in pictures.items():
        if isinstance(picture, Flag):
            image = draw(picture, HEIGHT)
        else:
            image = cut_out(picture, HEIGHT) if code in groundless else paint(picture, HEIGHT)
        image.save(folder / "images" / "flag" / f"{code}.png")
    camera, rng = Camera(SIDE, seed), random.Random(f"photographs {seed}")
    for code, picture in pictures.items():
        if isinstance(picture, Flag):
            generator = torch.Generator().manual_seed(rng.getrandbits(62))
            taken = photograph_flags(camera, [picture] * photographs, generator)
        else:
            share = 1.0 if code in groundless else CUT_OUT
            taken = photograph_designs(camera, [picture] * photographs, rng, share)
        for number, photo in enumerate(taken):
            image = Image.fromarray((photo.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8))
            if code in groundless and number % 2 and isinstance(picture, Design):
                image = stuck(cut_out(picture, HEIGHT), rng)
            image.save(folder / "queries" / f"{code}_{number}.jpg", quality=90)
    write_rows(folder / "questions.csv", rows)


def stuck(sticker: Image.Image, rng: random.Random) -> Image.Image:
    """Returns an RGBA image rotated by up to 10 degrees on a larger background of one color."""
    turned = sticker.rotate(rng.uniform(-10, 10), Image.Resampling.BICUBIC, expand=True)
    scale = rng.uniform(1, 1.8)
    color = rng.randrange(256), rng.randrange(256), rng.randrange(256)
    ground = Image.new("RGB", (round(turned.width * scale), round(turned.height * scale)), color)
    room = ground.width - turned.width, ground.height - turned.height
    ground.paste(turned, (rng.randint(0, room[0]), rng.randint(0, room[1])), turned)
    return ground


def foreign(text: str, rng: random.Random) -> str:
    """Replaces the words of a text with made-up words."""
    return " ".join(made_up_name(rng).lower() for _ in text.split())


def main(argv: list[str] | None = None) -> None:
    """Writes the data set to the folder given on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pretraining.imagined",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--flags", type=int, default=300, help="imagined countries with a flag (%(default)s)")
    parser.add_argument("--designs", type=int, default=300, help="imagined countries with a design (%(default)s)")
    parser.add_argument("--stickers", type=int, default=0, help="of these, how many have no ground (%(default)s)")
    parser.add_argument("--questions", type=int, default=4, help="about each country (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    more = {"questions_each": args.questions, "seed": args.seed, "stickers": args.stickers}
    write_world(args.out, args.flags, args.designs, **more)


if __name__ == "__main__":
    main()
