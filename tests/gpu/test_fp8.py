"""FP8 layers on a device, pretended or real, against the same numbers on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from retriever.kernels.fp8 import rounded
from retriever.models.encoder import ClipEncoder
from retriever.models.eva_weights import load_eva_clip
from retriever.models.fp8 import FP8Linear, check_fp8, use_fp8
from retriever.models.pixels import PixelPreparation
from tests.gpu.conftest import Card, Device
from tests.retriever.models.test_eva_clip import golden, write


@pytest.fixture
def fp8(cuda: Device) -> Iterator[Device]:
    """A device that can compute in FP8."""
    try:
        check_fp8("cuda", torch.bfloat16)
    except ValueError as error:
        pytest.skip(str(error))
    yield cuda


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("length", [16, 1408, 20480])
def test_rows_are_rounded_alike(fp8: Device, length: int, dtype: torch.dtype) -> None:
    rows = (torch.randn(7, length) * torch.logspace(-3, 3, 7)[:, None]).to(dtype)
    rows[3], rows[4, 5] = 0, float("nan")
    values, scales = rounded(rows)
    on_device, factors = rounded(rows.to("cuda"))
    finite = [0, 1, 2, 3, 5, 6]
    torch.testing.assert_close(factors.cpu()[finite], scales[finite], rtol=1e-6, atol=0)
    found, expected = on_device.cpu().float() * factors.cpu(), values.float() * scales
    assert found[4].sum().isnan() and found[finite].isfinite().all()
    step = expected[finite].abs() / 8 + scales[finite] * 2**-9  # where the last bit of a scale decides
    assert ((found - expected)[finite].abs() <= step).all()
    assert (found == expected)[finite].float().mean() > 0.98  # ties are rounded by the last bit of a scale


@pytest.mark.parametrize("rows", [1, 17, 257])
@pytest.mark.parametrize(("given", "result"), [(64, 48), (4096, 12288), (20480, 4096)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_gives_the_same(fp8: Device, rows: int, given: int, result: int, bias: bool) -> None:
    if given > 64 and not isinstance(fp8, Card):
        pytest.skip("the same as a small layer on a pretended device")
    linear = nn.Linear(given, result, bias=bias, dtype=torch.bfloat16)
    x = torch.randn(1, rows, given, dtype=torch.bfloat16)
    with torch.inference_mode():
        expected = FP8Linear(linear, "cpu")(x)
        found = FP8Linear(linear, "cuda")(x.to("cuda"))
    assert found.is_cuda and found.dtype == torch.bfloat16 and found.shape == (1, rows, result)
    difference = (found.cpu().float() - expected.float()).norm() / expected.float().norm()
    assert difference < 0.01  # bfloat16 has 8 bits


@pytest.fixture
def tower(tmp_path: Path) -> Path:
    settings, state, _ = golden("8b")
    return write(tmp_path, settings, state)


def encoder_of(folder: Path, device: str) -> ClipEncoder:
    model = load_eva_clip(folder, "cpu", torch.bfloat16)
    use_fp8(model.vision.blocks, device)
    model.to(device)
    return ClipEncoder(model, None, PixelPreparation(model.config.image_size, crop=True), 8, "golden")


@pytest.mark.parametrize("graphs", [False, True])
def test_image_vectors(fp8: Device, tower: Path, graphs: bool) -> None:
    images = [Image.effect_noise((40, 30), 60).convert("RGB") for _ in range(3)]
    expected = encoder_of(tower, "cpu").encode_images(images)
    encoder = encoder_of(tower, "cuda")
    if graphs:
        encoder.use_cuda_graphs()
    encoder.encode_images(images)  # compiles, captures
    with fp8.counting() as waits:
        found = encoder.encode_images(images)
    assert waits == []
    assert found.is_cuda
    assert (functional.cosine_similarity(found.cpu(), expected, dim=1) > 0.998).all()


def test_memory_of_the_weights_is_half(fp8: Device, tower: Path) -> None:
    exact = load_eva_clip(tower, "cuda", torch.bfloat16).vision.blocks
    before = sum(layer.weight.nbytes for layer in exact.modules() if isinstance(layer, nn.Linear))
    use_fp8(exact, "cuda")
    layers = [layer for layer in exact.modules() if isinstance(layer, FP8Linear)]
    assert sum(layer.weight.nbytes for layer in layers) * 2 == before
    assert all(layer.weight.is_cuda and layer.scales.is_cuda for layer in layers)
