"""Endless training batches of flags: photographs, clean drawings and descriptions, generated anew at every step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from demo.background import background
from demo.describe import describe
from demo.draw import draw
from demo.facts import countries
from demo.flags import Flag, load_flags
from demo.pretraining.generate import random_flag, similar_flag
from demo.pretraining.photo_batch import photograph_batch

HEIGHT, WIDTH = 80, 120  # of a drawing before it is photographed
SYLLABLES = ("ba", "bel", "can", "dor", "el", "far", "go", "ha", "il", "jor", "ka", "lan", "mo", "nu", "or", "pa")


@dataclass(frozen=True)
class FlagBatch:
    """A batch of B flags, the first C of them with a clean drawing too.

    Attributes:
        photographs: float32 [B, 3, S, S] in 0..1.
        drawings: float32 [C, 3, S, S] in 0..1.
        texts: B descriptions.
        looks: B fixed captions; flags that look alike share one.
    """

    photographs: Tensor
    drawings: Tensor
    texts: list[str]
    looks: list[str]


class FlagBatches:
    """Generates the batch of a step from (seed, step) alone.

    Args:
        size: Side S of an image in pixels.
        known: Flags of the knowledge base per batch.
        made_up: Random flags per batch; half of them are near twins of the other half.
        summaries: Summaries of the articles, by country code.
        seed: Seed of everything random.
        backgrounds: Number of background images to keep.
    """

    def __init__(
        self,
        size: int,
        known: int,
        made_up: int,
        summaries: dict[str, str],
        seed: int = 0,
        backgrounds: int = 1500,
    ):
        self.size, self.known, self.made_up, self.seed = size, known, made_up, seed
        self.summaries = summaries
        self.flags = load_flags()
        self.names = {code: country["name"] for code, country in countries().items()}
        rng = random.Random(f"backgrounds {seed}")
        side = size * 5 // 4
        self.backgrounds = torch.stack([_pixels(background(rng, (side, side))) for _ in range(backgrounds)])

    def __call__(self, step: int, clean: int) -> FlagBatch:
        """Returns the batch of `step`, with `clean` drawings beside the photographs."""
        rng = random.Random(f"{self.seed} {step}")
        generator = torch.Generator().manual_seed(rng.getrandbits(62))
        codes = rng.sample(sorted(self.flags), self.known)
        flags = [self.flags[code] for code in codes]
        texts = [self._known_text(code, rng) for code in codes]
        for number in range(self.made_up):
            flag = similar_flag(flags[-1], rng) if number % 2 else random_flag(rng)
            flags.append(flag)
            name = f"{made_up_name(rng)}. " if rng.random() < 0.5 else ""
            texts.append(name + describe(flag, rng))
        all_drawings = torch.stack([_drawing(flag) for flag in flags])
        photographs = self.photographs(flags, generator, all_drawings)
        order = [i for i in range(len(flags)) if i < clean // 2 or i >= len(flags) - (clean - clean // 2)]
        drawings = functional.interpolate(all_drawings[order].float() / 255, (self.size, self.size), mode="bilinear")
        # The flags with a clean drawing come first.
        order += [i for i in range(len(flags)) if i not in set(order)]
        return FlagBatch(
            photographs[order],
            drawings,
            [texts[i] for i in order],
            [describe(flags[i]) for i in order],
        )

    def photographs(self, flags: Sequence[Flag], generator: torch.Generator, drawings: Tensor | None = None) -> Tensor:
        """Returns one photograph of each flag, float32 [B, 3, S, S] in 0..1."""
        if drawings is None:
            drawings = torch.stack([_drawing(flag) for flag in flags])
        ratios = torch.tensor([flag.ratio for flag in flags])
        ratios = ratios * torch.empty(len(flags)).uniform_(0.93, 1.07, generator=generator)
        scenes = self._scenes(len(flags), generator)
        return _soften(photograph_batch(drawings, scenes, generator, ratios), generator)

    def _known_text(self, code: str, rng: random.Random) -> str:
        name, flag, kind = self.names[code], self.flags[code], rng.random()
        if kind < 0.2:
            return self.summaries[code]
        if kind < 0.3:
            return rng.choice([name, f"{name}. Flag of {name}", f"The flag of {name}"])
        if kind < 0.5:
            return describe(flag, rng)
        return f"{name}. {describe(flag, rng)}"

    def _scenes(self, count: int, generator: torch.Generator) -> Tensor:
        """Returns backgrounds, cropped and mirrored at random, uint8 [count, 3, S, S]."""
        picked = self.backgrounds[torch.randint(len(self.backgrounds), (count,), generator=generator)]
        room = picked.shape[-1] - self.size
        top, left = (int(torch.randint(room + 1, (1,), generator=generator)) for _ in range(2))
        cut = picked[..., top : top + self.size, left : left + self.size]
        mirrored = torch.rand(count, generator=generator) < 0.5
        return torch.where(mirrored.view(-1, 1, 1, 1), cut.flip(-1), cut)


def _pixels(image: object) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _drawing(flag: Flag) -> Tensor:
    return _pixels(draw(flag, HEIGHT).resize((WIDTH, HEIGHT)))


def made_up_name(rng: random.Random) -> str:
    """Returns an invented name that sounds like a country's."""
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))).capitalize()


def _soften(images: Tensor, generator: torch.Generator) -> Tensor:
    """Puts some images out of focus, and adds a little noise to all."""
    blurred = functional.avg_pool2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    amount = (torch.rand(len(images), 1, 1, 1, generator=generator) * 1.6 - 0.6).clamp(min=0)
    noise = torch.randn(images.shape, generator=generator) * 0.02
    return (images.lerp(blurred, amount) + noise).clamp_(0, 1)


def corpus(count: int, articles: Sequence[str], seed: int = 0) -> list[str]:
    """Returns texts to train a tokenizer on: `count` descriptions of random flags, then `articles`."""
    rng = random.Random(f"corpus {seed}")
    return [describe(random_flag(rng), rng) for _ in range(count)] + list(articles)
