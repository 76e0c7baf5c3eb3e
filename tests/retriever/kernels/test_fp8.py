"""Rounding to FP8 against all FP8 values. Triton's kernel runs in its interpreter, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from retriever.kernels.fp8 import LARGEST, SMALLEST, rounded
from tests.paths import ROOT

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
GRID = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
GRID = GRID[GRID.isfinite()].unique()
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
SIZES = pytest.mark.parametrize(("count", "length"), [(1, 16), (3, 48), (2, 1408), (2, 4096), (1, 20480), (0, 32)])


def some_rows(count: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows of different magnitudes, with zeros; the last one is all zeros if there are several."""
    generator = torch.Generator().manual_seed(length)
    rows = torch.randn(count, length, generator=generator) * torch.logspace(-3, 3, count)[:, None]
    rows[:, 1:3] = 0
    rows[1:][-1:] = 0
    return rows.to(dtype)


@pytest.mark.skipif(INTERPRETED, reason="does not use Triton")
@DTYPES
@SIZES
def test_values_are_the_nearest_of_all(count: int, length: int, dtype: torch.dtype) -> None:
    rows = some_rows(count, length, dtype)
    values, scales = rounded(rows)
    assert (values.dtype, values.shape) == (torch.float8_e4m3fn, rows.shape)
    assert (scales.dtype, scales.shape) == (torch.float32, (count, 1)) and scales.is_contiguous()
    largest = rows.double().abs().amax(dim=1, keepdim=True).clamp(min=2**-100)
    torch.testing.assert_close(scales.double(), largest / 448, rtol=1e-6, atol=0)
    for exact, found in zip(rows.double() / scales.double(), values.double(), strict=True):
        nearest = torch.stack([(part[:, None] - GRID).abs().amin(dim=1) for part in exact.split(16)]).flatten()
        torch.testing.assert_close((found - exact).abs(), nearest, rtol=0, atol=1e-4)
        if exact.any():
            assert found.abs().max() == 448


@pytest.mark.skipif(not INTERPRETED, reason="runs in another process")
@DTYPES
@SIZES
def test_the_kernel_rounds_alike(count: int, length: int, dtype: torch.dtype) -> None:
    from retriever.kernels import fp8_triton

    rows = some_rows(count, length, dtype)
    values, scales = fp8_triton.rounded(rows, LARGEST, SMALLEST)
    expected, factors = rounded(rows)
    assert torch.equal(scales, factors) and values.shape == expected.shape
    exact, found, other = rows.float() / factors, values.float(), expected.float()
    # Triton's interpreter (3.7.1) rounds ties away from zero, halves what is rounded up to a power of two, and is one
    # step off in the smallest exponent.
    tied = ((found - exact).abs() - (other - exact).abs()).abs() < 1e-4
    halved = (found == other / 2) & (other.abs().log2().frac() == 0)
    small = (exact.abs() < 2**-6) & ((found - other).abs() <= 2**-9)
    assert (tied | halved | small).all()
    assert (found == other).float().mean() > 0.9 or not count


@pytest.mark.skipif(INTERPRETED, reason="does not use Triton")
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_not_hidden(wrong: float) -> None:
    rows = torch.ones(2, 32)
    rows[1, 5] = wrong
    values, scales = rounded(rows)
    restored = values.float() * scales
    assert (restored[0] == 1).all() and restored[1].sum().isnan()


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="is the test that starts this process")
def test_the_triton_kernel_on_the_cpu() -> None:
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "alike", __file__],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "18 passed" in done.stdout


@pytest.mark.skipif(INTERPRETED, reason="the interpreter does not compile")
@pytest.mark.parametrize("length", [4096, 20480])
def test_compiles_for_a_gpu_that_is_not_here(length: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from retriever.kernels import fp8_triton

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    names = fp8_triton.kernel.arg_names
    pointers = {"rows": "bf16", "values": "fp8e4nv", "scales": "fp32"}
    constants: dict[str, Any] = fp8_triton.blocks(length, LARGEST, SMALLEST)
    types = {name: f"*{pointers[name]}" if name in pointers else "constexpr" for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in pointers}
    source = ASTSource(
        fp8_triton.kernel, types, {(names.index(name),): value for name, value in constants.items()}, aligned
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": fp8_triton.warps(length)})
    assert "cvt.rn.satfinite.e4m3x2.f32" in compiled.asm["ptx"]  # the hardware's conversion
    assert ".local" not in compiled.asm["ptx"]
