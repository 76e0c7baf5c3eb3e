"""Which dtype "auto" selects."""

from __future__ import annotations

from types import MappingProxyType

import pytest
import torch

from retriever.models.precision import fastest_dtype, int8_is_fast


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
