"""Batches for training the embedded weights."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from demo.flags import load_flags
from demo.pretraining import encoder_batches, fusion_batches
from demo.pretraining.camera import Camera
from demo.pretraining.encoder_batches import EncoderBatches
from demo.pretraining.fusion_batches import DESIGNS, KNOWN, MADE_UP, SECTIONS, FusionBatches
from demo.pretraining.stream import BatchStream
from demo.pretraining.train_weights import keep


@pytest.fixture(scope="module", autouse=True)
def few_scenes() -> Iterator[None]:
    """Gives batches a camera with 20 scenes: 1,500 take seconds to draw."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (encoder_batches, fusion_batches):
            patch.setattr(module, "Camera", functools.partial(Camera, scenes=20))
        yield


def test_a_stream_begins_anywhere_and_equals_single_batches() -> None:
    batches = EncoderBatches(16, dict.fromkeys(load_flags(), "A summary."))
    stream = BatchStream(batches, workers=0)
    for step in (5, 6):
        (flags, designs), (one, other) = stream(step), batches[step]
        assert torch.equal(flags.photographs, one.photographs) and flags.texts == one.texts
        assert torch.equal(designs.keys, other.keys)
    assert len(flags.texts) == encoder_batches.KNOWN + encoder_batches.MADE_UP
    assert (
        len(flags.drawings) == encoder_batches.CLEAN
        and len(designs.keys) == encoder_batches.DESIGNS + encoder_batches.STICKERS
    )


def test_a_batch_of_step_2() -> None:
    batch = FusionBatches(16)[0]
    count = KNOWN + MADE_UP + DESIGNS
    assert len(batch.photographs) == len(batch.keys) == len(batch.questions) == count
    assert len(batch.sections) == SECTIONS * count
    assert batch.alike.shape == (count, count) and not batch.alike.diagonal().any()
    # Flags and designs are never alike.
    assert not batch.alike[: KNOWN + MADE_UP, KNOWN + MADE_UP :].any()


def test_evidence_comes_first() -> None:
    """A country's question is answered by the first of its sections: nonsense aside, both name its article."""
    batch = FusionBatches(16)[1]
    named = [text for text in batch.sections[: KNOWN * SECTIONS] if text.startswith("wiki article ")]
    assert len(named) >= KNOWN * SECTIONS * (1 - fusion_batches.NONSENSE) / 2
    firsts = [batch.sections[number * SECTIONS : (number + 1) * SECTIONS] for number in range(KNOWN)]
    for sections in firsts:
        titles = {text.split(" section title ")[0] for text in sections if text.startswith("wiki article ")}
        assert len(titles) <= 1
        assert len(set(sections)) == SECTIONS


def test_a_stage_may_keep_a_share_of_the_weights_before_it() -> None:
    model = nn.BatchNorm1d(2)
    state = model.state_dict()
    state["num_batches_tracked"] += 7
    keep(model, {name: torch.zeros_like(tensor) for name, tensor in state.items()}, 0.25)
    assert state["weight"].tolist() == state["running_var"].tolist() == [0.75, 0.75]
    assert int(state["num_batches_tracked"]) == 7


def test_stickers_follow_the_designs_of_a_batch() -> None:
    batches = EncoderBatches(16, dict.fromkeys(load_flags(), "A summary."))
    _, both = batches[2]
    _, designs, stickers = batches._sources
    assert torch.equal(both.keys, torch.cat([designs(2).keys, stickers(2).keys]))
    assert torch.equal(both.photographs, torch.cat([designs(2).photographs, stickers(2).photographs]))
    first, count = encoder_batches.DESIGNS, encoder_batches.DESIGNS + encoder_batches.STICKERS
    assert both.alike.shape == (count, count) and not both.alike[:first, first:].any()


def test_stickers_follow_the_designs_in_a_batch_of_step_2() -> None:
    batches = FusionBatches(16, mixed=True, designs=4, stickers=6)
    batch = batches[3]
    _, designs, stickers = batches._sources
    flags = KNOWN + MADE_UP
    assert batch.kinds == {"known": KNOWN, "unknown": MADE_UP, "designs": 4, "stickers": 6}
    assert torch.equal(batch.keys[flags:], torch.cat([designs(3).keys, stickers(3).keys]))
    assert torch.equal(batch.photographs[flags + 4 :], stickers(3).photographs)
    assert len(batch.questions) == len(batch.alike) == flags + 10 and len(batch.sections) == SECTIONS * (flags + 10)
    assert not batch.alike[:-6, -6:].any()


def test_only_images_tell_entities_apart_that_share_texts() -> None:
    batch = FusionBatches(16, mixed=True, designs=2, stickers=2, shared=1.0)[0]
    assert len(set(batch.questions)) <= fusion_batches.COMMON
    first = batch.sections[::SECTIONS]
    assert len(set(first)) == len(first)  # different titles
