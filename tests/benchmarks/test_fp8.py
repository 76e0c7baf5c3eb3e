from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from benchmarks import fp8
from benchmarks.full_size import TINY
from retriever.models.fp8 import FP8Linear


@torch.inference_mode()
def test_layers_are_rounded_as_by_the_models_own() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(32, 16), torch.randn(2, 3, 32)
    with fp8.RoundedLayers(convolutions=False):
        found = linear(x)
    torch.testing.assert_close(found, FP8Linear(linear, "cpu")(x))
    assert not torch.equal(found, linear(x))


@torch.inference_mode()
@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 1), (2, 0)])
def test_a_convolution_is_rounded_patch_by_patch(stride: int, padding: int) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 8, 3, stride=stride, padding=padding)
    x = torch.randn(2, 3, 10, 14)
    with fp8.RoundedLayers(convolutions=False):
        exact = layer(x)
    assert torch.equal(exact, layer(x))
    with fp8.RoundedLayers(convolutions=True):
        found = layer(x)
    assert found.shape == exact.shape
    assert 0.005 < fp8.relative(found, exact) < 0.05
    # values that FP8 has exactly
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-1, 2, layer.weight.shape))
        layer.weight[:, 0, 0, 0] = 1
    ones = torch.randint(0, 2, x.shape).float()
    with fp8.RoundedLayers(convolutions=True):
        found = layer(ones)
    torch.testing.assert_close(found, functional.conv2d(ones, layer.weight, layer.bias, stride, padding))


def test_a_tower_is_measured_block_by_block() -> None:
    config = replace(TINY.encoder, vision=replace(TINY.encoder.vision, width=64, mlp_width=128))
    drawings, photographs = fp8.flags(2)
    report = fp8.eva([*drawings, *photographs], config, layers=3)
    assert report["relative_error"].keys() == {"qkv", "out", "fc1", "fc2"}
    assert all(0.005 < error["fp8"] < 0.1 and error["bfloat16"] < 0.01 for error in report["relative_error"].values())
    assert len(report["cosine_after_block"]) == 3 and report["cosine"] == report["cosine_after_block"][-1]
    assert (
        0.9 < report["cosine"]["fp8"]["least"] <= report["cosine"]["fp8"]["mean"] < report["cosine"]["bfloat16"]["mean"]
    )


def test_the_embedded_encoder_is_measured(tmp_path: Path) -> None:
    fp8.main(["embedded", "--images", "6", "--out", str(tmp_path / "report.json")])
    exact, *rounded = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert exact["recall@1"] == 1 and len(rounded) == 4
    assert all(0.98 < row["cosine"]["least"] <= row["cosine"]["mean"] < 1 for row in rounded)
    assert rounded[0]["cosine"]["mean"] > rounded[2]["cosine"]["mean"]  # convolutions lose more
