from __future__ import annotations

import torch
from torch.nn import functional

from training.attention import short_attention


def test_attention_and_its_gradient_are_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    mask[0, ..., 5:] = False

    def of(dtype: torch.dtype, context: torch.dtype) -> tuple[torch.Tensor, ...]:
        generator.manual_seed(1)
        query, key, value = (torch.randn(2, 4, 7, 8, generator=generator).to(dtype).requires_grad_() for _ in range(3))
        with short_attention("cpu", context):
            result = functional.scaled_dot_product_attention(query, key, value, mask)
        result.float().square().sum().backward()
        return result.float(), *(one.grad.float() for one in (query, key, value) if one.grad is not None)

    exact = of(torch.float32, torch.float32)
    assert len(exact) == 4
    for plain, fused, expected in zip(
        of(torch.bfloat16, torch.bfloat16), of(torch.bfloat16, torch.float32), exact, strict=True
    ):
        torch.testing.assert_close(plain, expected, rtol=0.05, atol=0.05)
        assert (plain - expected).abs().mean() < 2 * (fused - expected).abs().mean() + 1e-3
