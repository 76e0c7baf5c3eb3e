"""Settings of the generator's fine-tuning; the defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass

from training.config import check_at_least_one, check_positive

VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM 0.32.0 accepts for `--max-lora-rank`; an adapter may have any rank up to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorTrainingConfig:
    """Settings of a LoRA training.

    In a resumed run, only `device`, `workers`, `save_every` and `gradient_checkpointing` may change.

    The defaults are those of the paper's appendix C.3 and of LLaVA-1.5's published LoRA training: 128 samples per step,
    rank 128, alpha 256, dropout 0.05, a cosine schedule with a warm-up of 0.03 and no weight decay. The samples of a
    step are divided so that models of 8 billion parameters fit a GPU of 80 GB (docs/training.md).

    Attributes:
        epochs: Number of passes over the samples.
        steps: Stop after this many steps; `None` leaves it to `epochs`.
        learning_rate: Peak learning rate.
        warmup: Share of the steps, in 0..1, until the learning rate reaches its peak.
        batch_size: Samples per forward pass and device; more need more memory, and are padded more.
        accumulate: Forward passes per step.
        rank: Rank of the adapter's matrices.
        lora_alpha: The adapter's product is scaled by `lora_alpha / rank`.
        dropout: Dropout before the adapter's matrices.
        max_tokens: Longest sample in tokens; `None` is the model's limit. Only sections are cut to fit.
        seed: Seed of the adapter's initial values, the order of the samples and dropout.
        gradient_checkpointing: Whether to recompute activations instead of storing them, which takes much less memory
            and about a third more computation; `None` does so on a GPU. The results are the same.
        save_every: Steps between two checkpoints.
        workers: Processes that load images and tokenize.
        device: "cpu" or "cuda".
        dtype: Data type of the frozen weights, "float32" or "bfloat16"; the adapter itself is always float32.

    Raises:
        ValueError: A setting is out of range; the message names it.
    """

    epochs: int = 1
    steps: int | None = None
    learning_rate: float = 2e-5
    warmup: float = 0.03
    batch_size: int = 4
    accumulate: int = 32
    rank: int = 128
    lora_alpha: int = 256
    dropout: float = 0.05
    max_tokens: int | None = None
    seed: int = 0
    gradient_checkpointing: bool | None = None
    save_every: int = 50
    workers: int = 0
    device: str = "cpu"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        """Checks the settings."""
        check_at_least_one(
            self, "epochs", "steps", "batch_size", "accumulate", "rank", "lora_alpha", "max_tokens", "save_every"
        )
        check_positive(self, "learning_rate")
        for name in ("warmup", "dropout"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
        if self.rank > VLLM_RANKS[-1]:
            raise ValueError(f"rank must be at most {VLLM_RANKS[-1]}, the most that vLLM serves, got {self.rank}")
        if self.workers < 0:
            raise ValueError(f"workers must be at least 0, got {self.workers}")
        if self.dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype must be float32 or bfloat16 for training, got {self.dtype}")

    @property
    def checkpointing(self) -> bool:
        """`gradient_checkpointing`, or its default."""
        return self.device != "cpu" if self.gradient_checkpointing is None else self.gradient_checkpointing

    @property
    def max_lora_rank(self) -> int:
        """The smallest `--max-lora-rank` with which vLLM serves the adapter."""
        return next(rank for rank in VLLM_RANKS if rank >= self.rank)
