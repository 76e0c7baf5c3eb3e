"""Late interaction over stored tokens: one function, by a Triton kernel on a GPU and by PyTorch elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from retriever.kernels import maxsim_torch

__all__ = ["max_sim_pairs"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int8)


def max_sim_pairs(
    queries: Tensor,
    tokens: Tensor,
    scales: Tensor | None,
    query_of: Tensor,
    first: Tensor,
    counts: Tensor,
    *,
    total: int,
    most: int,
) -> tuple[Tensor, Tensor]:
    """Returns the MaxSim (equation 4, summed over query tokens) of every pair's sections, and the best of each pair.

    A pair is a query with one of its candidates, whose sections lie one after the other in the store. Rows are read
    where they lie; nothing is padded or copied. With Triton nothing waits for the GPU either.

    Args:
        queries: Query tokens [B, N, H], floating point, normalized as the score mode asks.
        tokens: The store [R, M, H], float16, bfloat16, float32 or int8, contiguous; a row is a section.
        scales: [R, M], floating point, for an int8 store (a token is `int8 * scale`), else `None`.
        query_of: The query of each pair, integer [P], any order.
        first: The store's row of its first section, integer [P].
        counts: The number of its sections, integer [P], 0 or more.
        total: The sum of `counts`.
        most: The largest of `counts`, 0 without pairs.

    Returns:
        Section scores, float32 [total], pair after pair; and their maximum for each pair, float32 [P], -inf where it
        has no sections. Both on the device of `queries`.

    Raises:
        ValueError: Shapes, dtypes or devices do not fit together; on a CPU also when rows are not in the store. On a
            GPU nobody looks at the values of `query_of`, `first` and `counts`.
    """
    _check(queries, tokens, scales, {"query_of": query_of, "first": first, "counts": counts})
    if queries.is_cuda and _has_triton():
        from retriever.kernels import maxsim_triton

        return maxsim_triton.max_sim_pairs(queries, tokens, scales, query_of, first, counts, total=total, most=most)
    return maxsim_torch.max_sim_pairs(queries, tokens, scales, query_of, first, counts, total=total, most=most)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _check(queries: Tensor, tokens: Tensor, scales: Tensor | None, pairs: dict[str, Tensor]) -> None:
    if queries.ndim != 3 or tokens.ndim != 3 or queries.shape[2] != tokens.shape[2]:
        shapes = f"{list(queries.shape)} and {list(tokens.shape)}"
        raise ValueError(f"queries [B, N, H] and tokens [R, M, H] need one H, got {shapes}")
    if not queries.is_floating_point() or tokens.dtype not in _DTYPES:
        kinds = f"{queries.dtype} and {tokens.dtype}"
        raise ValueError(f"queries are floating point and tokens float16, bfloat16, float32 or int8, got {kinds}")
    if (scales is not None) != (tokens.dtype == torch.int8):
        raise ValueError(f"scales belong to int8 tokens and to no others, tokens are {tokens.dtype}")
    if scales is not None and (scales.shape != tokens.shape[:2] or not scales.is_floating_point()):
        found = f"{scales.dtype} {list(scales.shape)}"
        raise ValueError(f"scales are floating point, {list(tokens.shape[:2])} as the tokens, got {found}")
    for name, values in pairs.items():
        # An empty list becomes a tensor of floats.
        if values.ndim != 1 or values.shape != pairs["counts"].shape or (len(values) and values.is_floating_point()):
            raise ValueError(f"{name} has one integer for each pair, [P], got {values.dtype} {list(values.shape)}")
    for name, tensor in {"tokens": tokens, "scales": scales, **pairs}.items():
        if tensor is not None and tensor.device != queries.device:
            raise ValueError(f"{name} lie on {tensor.device}, queries on {queries.device}: move one of them")
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name} are not contiguous: call .contiguous() once, where they are made")
