"""Builds with fake models that fail at the n-th request."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from PIL import Image

from indexes.store.index import Index
from retriever.types import Entity
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index

KILLED = "killed on purpose"


class Fuse:
    """Counts calls; at the n-th, it raises or really kills the process."""

    def __init__(self, calls: int, kill: bool = False) -> None:
        self.calls, self.kill = calls, kill

    def burn(self) -> None:
        self.calls -= 1
        if self.calls == 0:
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError(KILLED)


class FusedEncoder(FakeEncoder):
    fuse = Fuse(-1)

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        self.fuse.burn()
        return super().encode_texts(texts)

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        self.fuse.burn()
        return super().encode_images(images)


class FusedFusion(FakeFusion):
    fuse = Fuse(-1)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        self.fuse.burn()
        return super().encode_sections(images, texts)


class FusedSummarizer(FakeSummarizer):
    fuse = Fuse(-1)

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        for summary in super().stream(entities):
            self.fuse.burn()
            yield summary


Fused = TypeVar("Fused", FusedEncoder, FusedFusion, FusedSummarizer)


def burning(model: Fused, calls: int) -> Fused:
    """Returns a model that fails at its n-th call."""
    model.fuse = Fuse(calls)
    return model


def build(kb: Path, images: Path | None, out: Path, **changes: Any) -> Index:
    """Builds an index with fake models, two entities per batch."""
    return build_index(kb, images, out, **{"batch_size": 2} | changes)


def kill(kb: Path, images: Path | None, out: Path, **changes: Any) -> None:
    """Starts a build with a model that fails."""
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, out, **changes)
