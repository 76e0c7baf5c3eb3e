"""Stages of the pretraining of the embedded weights: how long, on what and how fast."""

from __future__ import annotations

from dataclasses import dataclass

from demo.pretraining import encoder_batches, fusion_batches
from demo.pretraining.fusion_batches import FusionBatches


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a training.

    Attributes:
        name: Of its run's folder.
        steps: Number of steps.
        size: Side of an image in pixels.
        learning_rate: At its peak.
        stickers: Stickers per batch.
        kept: Share of the weights from before the stage in the mean that it ends with.
    """

    name: str
    steps: int
    size: int
    learning_rate: float
    stickers: int = 0
    kept: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderStage(Stage):
    """A part of the encoder's training.

    Attributes:
        cut_out: Share of designs on another ground in the photograph.
        small: Share of photographs in which the design takes up less of the frame.
        first_step: Number of its first batch: no stage sees what another one saw.
        designs: Designs per batch.
        sizes: Sides of the images in pixels, of which every step draws one; without them all have `size`.
    """

    cut_out: float
    small: float
    first_step: int = 0
    designs: int = encoder_batches.DESIGNS
    sizes: tuple[int, ...] = ()


ENCODER_STAGES = (
    EncoderStage(name="encoder-run", steps=2000, size=112, learning_rate=1.5e-3, cut_out=0.45, small=0.0),
    # More pixels for smaller things: they cost time, so first comes what fewer can teach.
    EncoderStage(
        name="encoder-large-run",
        steps=1000,
        size=128,
        learning_rate=6e-4,
        cut_out=0.6,
        small=0.35,
        first_step=1_000_000,
    ),
    # Things without a ground, on any ground and at any size.
    EncoderStage(
        name="encoder-sticker-run",
        steps=1020,
        size=128,
        learning_rate=8e-4,
        cut_out=0.6,
        small=0.35,
        first_step=2_000_000,
        designs=48,
        stickers=60,
        sizes=(112, 128, 128, 144),
        kept=0.25,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionStage(Stage):
    """A part of the fusion encoder's training.

    Attributes:
        trains_tower: Whether the image tower is trained too.
        mixed: Whether nonsense may be a question about sections that make sense, see `FusionBatches`.
        designs: Designs per batch.
        shared: Share of entities with the texts of others, see `FusionBatches`.
    """

    trains_tower: bool = True
    mixed: bool = True
    designs: int = fusion_batches.DESIGNS
    shared: float = 0.0

    def batches(self, seed: int) -> FusionBatches:
        """Returns its batches of a seed."""
        return FusionBatches(self.size, seed, self.mixed, self.designs, self.stickers, self.shared)


FUSION_STAGES = (
    FusionStage(name="fusion-run", steps=500, size=128, learning_rate=1e-3, trains_tower=False, mixed=False),
    # More pixels than step 1 has, because it looks at one image and not at millions.
    FusionStage(name="fusion-tower-run", steps=300, size=144, learning_rate=3e-4),
    FusionStage(name="fusion-sticker-run", steps=400, size=144, learning_rate=4e-4, designs=24, stickers=48, kept=0.25),
    FusionStage(name="fusion-shared-run", steps=250, size=144, learning_rate=3e-4, designs=24, stickers=48, shared=0.7),
    FusionStage(
        name="fusion-longer-run",
        steps=420,
        size=144,
        learning_rate=3e-4,
        designs=24,
        stickers=48,
        shared=0.7,
        kept=0.5,
    ),
)
FIRST_TOWER = ENCODER_STAGES[1].name
"""The stage of step 1 whose image tower step 2 starts with. Each learns stickers for itself, so that they err at
different ones: a sum of scores gains nothing from mistakes that both make."""
