"""Batches of the trainings of the embedded weights."""

from __future__ import annotations

import torch

from demo.flags import load_flags
from demo.pretraining import encoder_batches, fusion_batches
from demo.pretraining.encoder_batches import EncoderBatches
from demo.pretraining.fusion_batches import DESIGNS, KNOWN, MADE_UP, SECTIONS, FusionBatches
from demo.pretraining.stream import BatchStream


def test_a_stream_begins_anywhere_and_equals_single_batches() -> None:
    batches = EncoderBatches(16, dict.fromkeys(load_flags(), "A summary."))
    stream = BatchStream(batches, workers=0)
    for step in (5, 6):
        (flags, designs), (one, other) = stream(step), batches[step]
        assert torch.equal(flags.photographs, one.photographs) and flags.texts == one.texts
        assert torch.equal(designs.keys, other.keys)
    assert len(flags.texts) == encoder_batches.KNOWN + encoder_batches.MADE_UP
    assert len(flags.drawings) == encoder_batches.CLEAN and len(designs.keys) == encoder_batches.DESIGNS


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
