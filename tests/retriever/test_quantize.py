from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from retriever.quantize import dequantize, quantize_tokens


def test_hand_computed() -> None:
    # the largest, 127 / 64, is 127 steps of 1 / 64; 0.5 is 32 of them, -1 is 64; 1 / 128 is half a step
    values, scales = quantize_tokens(torch.tensor([[127 / 64, 0.5, -1.0, 0.0], [0.0, -127 / 64, 0.03, 1 / 64]]))
    assert values.dtype == torch.int8 and scales.dtype == torch.float16
    assert values.tolist() == [[127, 32, -64, 0], [0, -127, 2, 1]]
    assert scales.tolist() == [1 / 64, 1 / 64]
    assert dequantize(values, scales)[0].tolist() == [127 / 64, 0.5, -1.0, 0.0]


@pytest.mark.parametrize("size", [1e4, 1.0, 1e-2, 1e-4, 3e-6, 1e-7, 1e-9, 0.0])
def test_every_element_is_within_half_a_scale(size: float) -> None:
    # down to 1e-3 * 127 scales are float16's normal numbers, below that its smallest ones, then less than those
    tokens = torch.randn(5, 32, 48, generator=torch.Generator().manual_seed(2)) * size
    values, scales = quantize_tokens(tokens)
    assert values.shape == tokens.shape and scales.shape == (5, 32)
    assert torch.isfinite(scales).all()
    stored = values.double().numpy() * scales.double().numpy()[..., None]
    error = np.abs(stored - tokens.double().numpy())
    assert (error <= scales.double().numpy()[..., None] * (0.5 + 1e-4)).all()
    np.testing.assert_allclose(dequantize(values, scales), stored, rtol=1e-6)


def test_a_scale_that_rounds_down_is_raised() -> None:
    # 127 * 2^-24 * 1.4: the scale would round to 2^-24, whose 127 steps end at 0.71 of the value
    largest = 127 * 2.0**-24 * 1.4
    values, scales = quantize_tokens(torch.tensor([[largest, 0.0]]))
    assert scales.tolist() == [2.0**-23]
    assert values.tolist() == [[round(127 * 1.4 / 2), 0]]


def test_zeros_stay_zeros() -> None:
    tokens = torch.zeros(2, 3, 4)
    tokens[1, 2, 3] = -1
    values, scales = quantize_tokens(tokens)
    assert scales.count_nonzero() == values.count_nonzero() == 1
    assert values[1, 2, 3] == -127
    assert torch.equal(dequantize(values, scales)[0], tokens[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_and_no_sections(dtype: torch.dtype) -> None:
    tokens = torch.tensor([[1.0, -0.5]], dtype=dtype)
    assert quantize_tokens(tokens)[0].tolist() == [[127, -64]]  # 63.5 steps, less what float16 takes from 1 / 127
    values, scales = quantize_tokens(tokens[:0])
    assert values.shape == (0, 2) and scales.shape == (0,)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 127 * 65600.0])
def test_what_no_scale_fits_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="not finite or too large"):
        quantize_tokens(torch.tensor([[1.0, wrong]]))
