"""Batches for training the embedded weights; the loss of step 1's pretraining."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch

from pretraining import encoder_batches, fusion_batches
from pretraining.camera import Camera
from pretraining.demo.flags import load_flags
from pretraining.encoder_batches import EncoderBatches, image_vectors
from pretraining.fusion_batches import DESIGNS, KNOWN, MADE_UP, SECTIONS, STICKERS, FusionBatches
from pretraining.train_weights import BatchStream
from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig
from retriever.texts import blip_caption


@pytest.fixture(scope="module", autouse=True)
def few_scenes() -> Iterator[None]:
    """Gives batches a camera with 20 scenes: 1,500 take seconds to draw."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (encoder_batches, fusion_batches):
            patch.setattr(module, "Camera", functools.partial(Camera, scenes=20))
        yield


@pytest.mark.slow
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
    count = KNOWN + MADE_UP + DESIGNS + STICKERS
    assert len(batch.photographs) == len(batch.keys) == len(batch.questions) == count
    assert len(batch.sections) == SECTIONS * count
    assert batch.alike.shape == (count, count) and not batch.alike.diagonal().any()
    # Flags and designs are never alike, nor designs and stickers.
    assert not batch.alike[: KNOWN + MADE_UP, KNOWN + MADE_UP :].any()
    assert not batch.alike[:-STICKERS, -STICKERS:].any()


def test_evidence_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sections of a country are its article's; the first one has an answer to the question."""
    monkeypatch.setattr(fusion_batches, "NONSENSE", 0.0)
    batches = FusionBatches(16, shared=0.0)
    batch = batches[1]
    evidence = {
        (blip_caption(row["question"]), blip_caption(row["evidence"]))
        for rows in batches._rows.values()
        for row in rows
    }
    for number in range(KNOWN):
        first, second = batch.sections[number * SECTIONS : (number + 1) * SECTIONS]
        title = first.split(" section title ")[0]
        assert title.startswith("wiki article ") and second.startswith(title) and first != second
        assert any(asked == batch.questions[number] and first.endswith(text) for asked, text in evidence)


def test_stickers_follow_the_designs_of_a_batch() -> None:
    batches = EncoderBatches(16, dict.fromkeys(load_flags(), "A summary."))
    _, both = batches[2]
    _, designs, stickers = batches._sources
    assert torch.equal(both.keys, torch.cat([designs(2).keys, stickers(2).keys]))
    assert torch.equal(both.photographs, torch.cat([designs(2).photographs, stickers(2).photographs]))
    first, count = encoder_batches.DESIGNS, encoder_batches.DESIGNS + encoder_batches.STICKERS
    assert both.alike.shape == (count, count) and not both.alike[:first, first:].any()


def test_stickers_follow_the_designs_in_a_batch_of_step_2() -> None:
    batches = FusionBatches(16)
    batch = batches[3]
    _, designs, stickers = batches._sources
    flags = KNOWN + MADE_UP
    assert batch.kinds == {"known": KNOWN, "unknown": MADE_UP, "designs": DESIGNS, "stickers": STICKERS}
    assert torch.equal(batch.keys[flags:], torch.cat([designs(3).keys, stickers(3).keys]))
    assert torch.equal(batch.photographs[-STICKERS:], stickers(3).photographs)


def test_only_images_tell_entities_apart_that_share_texts() -> None:
    batch = FusionBatches(16, shared=1.0)[0]
    assert len(set(batch.questions)) <= fusion_batches.COMMON
    first = batch.sections[::SECTIONS]
    assert len(set(first)) == len(first)  # different titles


def test_a_step_may_read_images_at_another_size_than_the_model() -> None:
    """The vectors equal those of the model after `resize_images`, and gradients reach the model's own positions."""
    torch.manual_seed(0)
    model = SmallCLIP(SmallCLIPConfig(image_size=32, channels=(4, 4, 8, 8), vision_heads=2, vocab_size=9))
    encoder = ClipEncoder(model, None, PixelPreparation(32), 8, "test")
    images = torch.rand(3, 3, 48, 48)
    vectors = image_vectors(encoder, images, 48)
    vectors.square().sum().backward()
    positions = model.vision_model.positions.grad
    assert positions is not None and positions.shape == (1, 5, 8) and bool(positions.abs().sum() > 0)
    assert model.config.image_size == 32
    model.resize_images(48)
    with torch.no_grad():
        assert torch.allclose(vectors, model.get_image_features(encoder.pixels.normalize(images)), atol=1e-6)
