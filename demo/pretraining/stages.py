"""Stages of the pretraining of the embedded weights: how long, on what and how fast."""

from __future__ import annotations

from dataclasses import dataclass

from demo.pretraining import fusion_batches
from demo.pretraining.fusion_batches import FusionBatches
from training.schedule import Schedule


@dataclass(frozen=True, slots=True)
class EncoderStage:
    """A part of the encoder's training, which is one run on one schedule.

    Attributes:
        steps: Number of steps.
        sizes: Sides of the images in pixels; every step draws one.
    """

    steps: int
    sizes: tuple[int, ...]


ENCODER_SIZE = 128  # pixels, of the trained encoder
ENCODER_RATE = 5e-3
# Pixels cost time, so what fewer can teach comes first.
ENCODER_STAGES = (
    EncoderStage(950, (80,)),
    EncoderStage(450, (112,)),
    EncoderStage(700, (112, 128, 128, 144)),
)
# Planned for 2,650 steps; the last stage was shortened and cools down instead.
ENCODER_SCHEDULE = Schedule(planned=2650 / 2100, cooldown=700 / 2100)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionStage:
    """A part of the fusion encoder's training.

    Attributes:
        name: Of its run's folder.
        steps: Number of steps.
        size: Side of an image in pixels.
        learning_rate: At its peak.
        stickers: Stickers per batch.
        kept: Share of the weights from before the stage in the mean that it ends with.
        trains_tower: Whether the image tower is trained too.
        mixed: Whether nonsense may be a question about sections that make sense, see `FusionBatches`.
        designs: Designs per batch.
        shared: Share of entities with the texts of others, see `FusionBatches`.
    """

    name: str
    steps: int
    size: int
    learning_rate: float
    stickers: int = 0
    kept: float = 0.0
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
