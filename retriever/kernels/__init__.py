"""Late interaction over stored tokens: one function, run by a Triton kernel on a GPU and by PyTorch elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from retriever.gpu import to_device
from retriever.kernels import maxsim_torch
from retriever.types import IntArray

__all__ = ["max_sim_pairs"]

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.uint8)


def max_sim_pairs(
    queries: Tensor,
    tokens: Tensor,
    scales: Tensor | None,
    pairs: IntArray,
) -> Tensor:
    """Computes the MaxSim (equation 4, summed over query tokens) of each pair's sections.

    A pair is a query with one of its candidates, whose sections are consecutive rows of the store. Rows are read in
    place, without padding or copies. The host does not wait for a GPU.

    Args:
        queries: Query tokens [B, N, H], floating point, normalized as the score mode requires.
        tokens: The store [R, M, H], float16, bfloat16, float32 or int8, contiguous; a row is a section. Alternatively
            the signs of unit-length tokens, packed eight to a byte as in `bit1`, uint8 [R, M, H / 8], for which there
            is no Triton kernel.
        scales: [R, M], floating point, for an int8 store (a token is `int8 * scale`), else `None`.
        pairs: Each pair's query, the row of its first section, and its number of sections, which may be 0, int64
            [3, P], in any order.

    Returns:
        Section scores, float32 [total number of sections], pair by pair, on the device of `queries`.

    Raises:
        ValueError: Shapes, dtypes or devices do not match, there is no such query, or rows are outside the store.
    """
    _check(queries, tokens, scales)
    _check_pairs(pairs, len(queries), len(tokens))
    if queries.is_cuda and tokens.dtype != torch.uint8 and _has_triton():
        from retriever.kernels import maxsim_triton

        total, most = int(pairs[2].sum()), int(pairs[2].max(initial=0))
        sent = to_device(torch.from_numpy(np.ascontiguousarray(pairs)), queries.device)
        return maxsim_triton.max_sim_pairs(queries, tokens, scales, *sent, total=total, most=most)
    return maxsim_torch.max_sim_pairs(queries, tokens, scales, pairs)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _check(queries: Tensor, tokens: Tensor, scales: Tensor | None) -> None:
    packed = 8 if tokens.dtype == torch.uint8 else 1
    if queries.ndim != 3 or tokens.ndim != 3 or queries.shape[2] != tokens.shape[2] * packed:
        shapes = f"{list(queries.shape)} and {list(tokens.shape)}{' of packed signs' if packed > 1 else ''}"
        raise ValueError(f"queries [B, N, H] and tokens [R, M, H] must have the same H, got {shapes}")
    if not queries.is_floating_point() or tokens.dtype not in _DTYPES:
        kinds = f"{queries.dtype} and {tokens.dtype}"
        allowed = "float16, bfloat16, float32, int8 or packed uint8"
        raise ValueError(f"queries must be floating point and tokens {allowed}, got {kinds}")
    if (scales is not None) != (tokens.dtype == torch.int8):
        raise ValueError(f"scales: must be given for int8 tokens and for no others, got {tokens.dtype} tokens")
    if scales is not None and (scales.shape != tokens.shape[:2] or not scales.is_floating_point()):
        found = f"{scales.dtype} {list(scales.shape)}"
        raise ValueError(f"scales: must be floating point {list(tokens.shape[:2])}, got {found}")
    for name, tensor in {"tokens": tokens, "scales": scales}.items():
        if tensor is not None and tensor.device != queries.device:
            raise ValueError(f"{name}: on {tensor.device}, but queries are on {queries.device}; move one of them")
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name}: must be contiguous; call .contiguous() once, when creating it")


def _check_pairs(pairs: IntArray, queries: int, rows: int) -> None:
    if pairs.dtype != np.int64 or pairs.ndim != 2 or len(pairs) != 3:
        raise ValueError(f"pairs: must be int64 [3, P], got {pairs.dtype} {list(pairs.shape)}")
    query_of, first, counts = pairs
    wrong = (query_of < 0) | (query_of >= queries) | (counts < 0)
    wrong |= (counts > 0) & ((first < 0) | (first > rows - counts))
    if wrong.any():
        pair = int(wrong.argmax())
        raise ValueError(
            f"pairs: pair {pair} is query {query_of[pair]} with {counts[pair]} rows from {first[pair]}, but there are "
            f"{queries} queries and {rows} rows"
        )
