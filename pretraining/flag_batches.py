"""Endless training batches of flags: photographs, clean drawings and descriptions, generated afresh at every step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pretraining.camera import Camera
from pretraining.demo.describe import describe
from pretraining.demo.draw import draw
from pretraining.demo.facts import countries
from pretraining.demo.flags import Flag, load_flags
from pretraining.demo.photo import to_pixels
from pretraining.generate import random_flag, similar_flag

HEIGHT, WIDTH = 104, 156  # of a drawing before it is photographed
SYLLABLES = ("ba", "bel", "can", "dor", "el", "far", "go", "ha", "il", "jor", "ka", "lan", "mo", "nu", "or", "pa")


@dataclass(frozen=True)
class FlagBatch:
    """A batch of B flags, the first C of them with a clean drawing as well.

    Attributes:
        photographs: float32 [B, 3, S, S] in 0..1.
        drawings: float32 [C, 3, S, S] in 0..1.
        texts: B descriptions, or an empty list.
        looks: B fixed captions; flags that look alike share one.
        codes: B country codes, `None` for random flags.
    """

    photographs: Tensor
    drawings: Tensor
    texts: list[str]
    looks: list[str]
    codes: list[str | None]


class FlagBatches:
    """Generates the batch of a step from (seed, step) alone.

    Args:
        camera: Takes the photographs, S pixels wide and high.
        known: Flags of the knowledge base per batch.
        made_up: Random flags per batch; half of them are near twins of the other half.
        summaries: Summaries of the articles, by country code.
        seed: Seed of everything random.
    """

    def __init__(self, camera: Camera, known: int, made_up: int, summaries: dict[str, str], seed: int = 0):
        self.camera, self.known, self.made_up, self.seed = camera, known, made_up, seed
        self.summaries = summaries
        self.flags = load_flags()
        self.names = {code: country["name"] for code, country in countries().items()}

    def __call__(self, step: int, clean: int, texts: bool = True) -> FlagBatch:
        """Returns the batch of `step`, with `clean` drawings beside the photographs, with or without texts."""
        rng = random.Random(f"{self.seed} {step}")
        generator = torch.Generator().manual_seed(rng.getrandbits(62))
        codes = rng.sample(sorted(self.flags), self.known)
        flags = [self.flags[code] for code in codes]
        written = [self._known_text(code, rng) for code in codes] if texts else []
        for number in range(self.made_up):
            flag = similar_flag(flags[-1], rng) if number % 2 else random_flag(rng)
            flags.append(flag)
            if texts:
                name = f"{made_up_name(rng)}. " if rng.random() < 0.5 else ""
                written.append(name + describe(flag, rng))
        all_drawings = torch.stack([_drawing(flag) for flag in flags])
        photographs = photograph_flags(self.camera, flags, generator, all_drawings)
        order = [i for i in range(len(flags)) if i < clean // 2 or i >= len(flags) - (clean - clean // 2)]
        drawings = functional.interpolate(all_drawings[order].float() / 255, (self.camera.size,) * 2, mode="bilinear")
        # The flags with a clean drawing come first.
        order += [i for i in range(len(flags)) if i not in set(order)]
        return FlagBatch(
            photographs[order],
            drawings,
            [written[i] for i in order] if texts else [],
            [describe(flags[i]) for i in order],
            [codes[i] if i < len(codes) else None for i in order],
        )

    def _known_text(self, code: str, rng: random.Random) -> str:
        name, flag, kind = self.names[code], self.flags[code], rng.random()
        if kind < 0.2:
            return self.summaries[code]
        if kind < 0.3:
            return rng.choice([name, f"{name}. Flag of {name}", f"The flag of {name}"])
        if kind < 0.5:
            return describe(flag, rng)
        return f"{name}. {describe(flag, rng)}"


def photograph_flags(
    camera: Camera, flags: Sequence[Flag], generator: torch.Generator, drawings: Tensor | None = None
) -> Tensor:
    """Returns one photograph of each flag, float32 [B, 3, S, S] in 0..1."""
    if drawings is None:
        drawings = torch.stack([_drawing(flag) for flag in flags])
    ratios = torch.tensor([flag.ratio for flag in flags])
    ratios = ratios * torch.empty(len(flags)).uniform_(0.93, 1.07, generator=generator)
    return camera.photograph(drawings, ratios, generator)


def _drawing(flag: Flag) -> Tensor:
    return to_pixels(draw(flag, HEIGHT).resize((WIDTH, HEIGHT)))


def made_up_name(rng: random.Random) -> str:
    """Returns an invented name that sounds like a country's."""
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))).capitalize()


def corpus(count: int, articles: Sequence[str]) -> list[str]:
    """Returns texts to train a tokenizer on: `count` descriptions of random flags, then `articles`."""
    rng = random.Random("corpus 0")
    return [describe(random_flag(rng), rng) for _ in range(count)] + list(articles)
