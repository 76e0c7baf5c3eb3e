"""Models on a device give what they give on a CPU, and do not wait before their results are copied."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.full_size import TINY, build_encoder, build_fusion, build_reranker, queries
from retriever.models import packed_roberta
from retriever.models.encoder import ClipEncoder
from retriever.models.graphs import graphed
from retriever.models.qformer import QFormerFusion
from tests.gpu.conftest import Device
from tests.gpu.flags import Models, flag_queries

QUERIES = flag_queries(5)
IMAGES = [query.image for query in QUERIES]
TEXTS = [query.question * (1 + number % 3) for number, query in enumerate(QUERIES)]
SECTIONS = [[f"section {n} of entity {owner}" * (n + 1) for n in range(owner)] for owner in range(len(IMAGES))]


def encoder(name: str, device: str) -> ClipEncoder:
    torch.manual_seed(0)
    return Models(device).encoder if name == "embedded" else build_encoder(TINY, device, torch.float32)


def fusion(name: str, device: str) -> QFormerFusion:
    torch.manual_seed(0)
    return Models(device).fusion if name == "embedded" else build_fusion(TINY, device, torch.float32)


def close(found: Tensor, expected: Tensor) -> None:
    assert found.is_cuda
    torch.testing.assert_close(found.cpu().float(), expected.float(), atol=2e-3, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "graphs"), [("embedded", False), ("embedded", True), ("eva", True)])
def test_the_dual_encoder(cuda: Device, name: str, graphs: bool) -> None:
    expected, model = encoder(name, "cpu"), encoder(name, "cuda")
    model.model.load_state_dict(expected.model.state_dict())
    if graphs:
        model.use_cuda_graphs()
    for images in (IMAGES[:1], IMAGES, IMAGES[:3]):
        model.encode_images(images)  # captures graphs, and caches what every batch needs
        with cuda.counting() as waits:
            vectors = model.encode_images(images)
        assert not waits
        close(vectors, expected.encode_images(images))
    with cuda.counting() as waits:
        texts, keys = model.encode_texts(TEXTS), model.encode_keys(IMAGES)
    assert not waits
    close(texts, expected.encode_texts(TEXTS))
    close(keys, expected.encode_keys(IMAGES))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "graphs"), [("embedded", False), ("embedded", True), ("blip2", True)])
def test_the_fusion_encoder(cuda: Device, name: str, graphs: bool) -> None:
    expected, model = fusion(name, "cpu"), fusion(name, "cuda")
    model.load_state_dict(expected.state_dict())
    if graphs:
        model.use_cuda_graphs()
    for count in (1, 5, 3):
        model.encode(IMAGES[:count], TEXTS[:count])
        with cuda.counting() as waits:
            tokens = model.encode(IMAGES[:count], TEXTS[:count])
        assert not waits
        close(tokens, expected.encode(IMAGES[:count], TEXTS[:count]))
    for count in (1, 5, 3):  # as in step 2, and with a text that is too long for a graph
        texts = [(text, "") for text in TEXTS[: count - 1]] + [("a long question " * (1 if count == 1 else 30), "")]
        model.encode_sections(IMAGES[:count], texts)
        with cuda.counting() as waits:
            tokens = model.encode_sections(IMAGES[:count], texts)
        assert not waits
        close(tokens, expected.encode_sections(IMAGES[:count], texts))
    with cuda.counting() as waits:
        sections = model.encode_sections(IMAGES, SECTIONS)
    assert not waits
    close(sections, expected.encode_sections(IMAGES, SECTIONS))


def test_the_cross_encoder_waits_once(cuda: Device) -> None:
    torch.manual_seed(0)
    expected = build_reranker(TINY, "cpu", torch.float32)
    model = build_reranker(TINY, "cuda", torch.float32)
    model.model.load_state_dict(expected.model.state_dict())
    model.batch_tokens = expected.batch_tokens = 256  # many forward passes
    asked = [query.question for query in queries(4)]
    passages = [["a river of it " * (1 + 7 * n) for n in range(4 + owner)] for owner in range(4)]
    model.score(asked, passages)
    with cuda.counting() as waits:
        scores = model.score(asked, passages)
    assert len(waits) <= 1, waits
    for found, right in zip(scores, expected.score(asked, passages), strict=True):
        np.testing.assert_allclose(found, right, atol=2e-3)


@pytest.mark.parametrize("graphs", [False, True])
@mock.patch.object(packed_roberta, "TOTALS", range(256, 513, 128))
def test_the_cross_encoder_needs_no_padding(cuda: Device, graphs: bool) -> None:
    torch.manual_seed(0)
    expected = build_reranker(TINY, "cpu", torch.float32)
    for parameter in expected.model.parameters():
        parameter.data *= 5  # else all scores are 0.5
    model = build_reranker(TINY, "cuda", torch.bfloat16)
    model.model.load_state_dict(expected.model.state_dict())
    model.batch_tokens = 256
    if graphs:
        model.use_cuda_graphs()
    asked = [query.question for query in queries(40)]
    passages = [["a river of it " * (1 + 7 * n) for n in range(1 + owner % 7)] for owner in range(40)]
    model.score(asked[:2], passages[:2])
    with cuda.counting() as waits:
        scores = model.score(asked, passages)
    assert len(waits) <= 1, waits
    found, reference = (np.concatenate(one) for one in (scores, expected.score(asked, passages)))
    assert reference.std() > 0.01
    assert np.abs(found - reference).max() < 0.25 * reference.std() + 0.02


@torch.inference_mode()
def test_a_graph_gives_what_the_module_gives(cuda: Device) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)).to("cuda").eval()
    run = graphed(module, (1, 4))
    for count in (1, 3, 4, 3, 1, 9):  # captured, padded, replayed, and too large for a graph
        given = torch.randn(count, 16, device="cuda")
        torch.testing.assert_close(run(given).cpu(), module(given).cpu())
