"""Which dtype "auto" selects; linear layers in int8 against float32."""

from __future__ import annotations

from types import MappingProxyType

import pytest
import torch
from torch import nn

from retriever.models.precision import Int8Linear, fastest_dtype, int8_is_fast


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"amx_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True, "avx512_bf16": True, "cpu_name": "Intel Xeon"}, torch.bfloat16),
        ({"amx_bf16": False, "avx512_bf16": True, "cpu_name": "AMD EPYC"}, torch.bfloat16),
        ({"amx_bf16": False, "avx512_bf16": True, "cpu_name": "Intel Xeon"}, torch.float32),
        ({"avx512_f": True, "avx512_vnni": True}, torch.float32),
        ({}, torch.float32),
    ],
)
def test_a_cpu_needs_instructions_for_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool | str], expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: MappingProxyType(capabilities))
    assert fastest_dtype("cpu") == expected
    assert fastest_dtype("cuda") == torch.bfloat16


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"amx_int8": True}, True), ({"avx512_vnni": True}, True), ({"avx2": True, "avx_vnni": True}, False), ({}, False)],
)
def test_int8_needs_instructions(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], expected: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: MappingProxyType(capabilities))
    assert int8_is_fast() == expected


def test_is_close_to_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(64, 32)
    inputs = torch.randn(3, 5, 64, generator=generator) * torch.tensor([0.01, 1.0, 100.0])[:, None, None]
    expected, found = layer(inputs), Int8Linear(layer.weight, layer.bias)(inputs)
    errors = (found - expected).abs().amax((1, 2)) / expected.abs().amax((1, 2))
    assert Int8Linear(layer.weight, layer.bias)(torch.zeros(0, 64)).shape == (0, 32)
    assert found.shape == (3, 5, 32) and bool((errors < 0.03).all())  # a scale per row: small rows are as exact


def test_values_on_the_grid_are_exact() -> None:
    layer = nn.Linear(8, 8)
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-127, 128, (8, 8)).index_fill_(1, torch.tensor([0]), 127).float())
        layer.bias.zero_()
    inputs = torch.randint(-127, 128, (4, 8)).float()
    inputs[:, 1] = 127
    assert torch.allclose(Int8Linear(layer.weight, layer.bias)(inputs), layer(inputs))
