"""How long, at which sizes and how fast the embedded weights are trained."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A part of the fusion encoder's training, a run of its own.

    Attributes:
        name: Of the run's folder.
        steps: Number of steps.
        learning_rate: At its peak.
        shared: Share of entities with the texts of others, see `FusionBatches`.
        trains_tower: Whether the image tower is trained, too.
    """

    name: str
    steps: int
    learning_rate: float
    shared: float
    trains_tower: bool


FUSION_SIZE = 144  # more than step 1 has, because step 2 looks at one image and not at millions
FUSION_STAGES = (
    FusionStage(name="fusion-run", steps=950, learning_rate=3e-3, shared=0.7, trains_tower=True),
    # The first stage teaches images and neglects texts.
    FusionStage(name="fusion-text-run", steps=300, learning_rate=1.5e-3, shared=0.3, trains_tower=False),
)
