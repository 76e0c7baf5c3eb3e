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

FUSION_SIZE = 144  # more than step 1 has, because step 2 looks at one image and not at millions
FUSION_RATE = 3e-3
FUSION_STEPS = 950
