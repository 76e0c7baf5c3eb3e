"""Late interaction in PyTorch, for CPUs and without Triton: one matrix product per run of adjacent pairs of a query."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from retriever.codecs import byte_signs
from retriever.types import IntArray

_LONGEST = 2048
"""Most tokens per product, unless a single pair has more, so that its operands stay in the CPU's cache."""


def max_sim_pairs(
    queries: Tensor,
    tokens: Tensor,
    scales: Tensor | None,
    pairs: IntArray,
) -> Tensor:
    """Computes section scores; see `retriever.kernels.max_sim_pairs`, which checks the arguments.

    Products and sums are float32. int8 tokens are scaled after the product, which has N columns instead of H. Packed
    signs are never unpacked: the product of a byte with eight dimensions of a query is one of 256 values in a table.
    """
    unit, scores = queries.float(), queries.new_empty(int(pairs[2].sum()), dtype=torch.float32)
    tables = _sign_tables(unit) if tokens.dtype == torch.uint8 else None
    at = 0
    for query, rows in _runs(pairs, _LONGEST // max(tokens.shape[1], 1)):
        part = slice(rows.start, rows.stop)
        if tables is not None:
            products = _sign_products(tables[query], tokens[part])
        else:
            products = _products(unit[query], tokens[part], None if scales is None else scales[part])
        scores[at : at + len(rows)] = products.amax(dim=1).sum(dim=-1)
        at += len(rows)
    return scores


def _runs(pairs: IntArray, longest: int) -> list[tuple[int, range]]:
    """Joins consecutive pairs of the same query whose rows are adjacent, up to `longest` rows.

    Returns:
        The query and the rows of each run, in the order of the pairs; pairs without sections are in none.
    """
    runs: list[tuple[int, range]] = []
    for query, start, size in pairs.T.tolist():
        if not size:
            continue
        if runs:
            last_query, rows = runs[-1]
            if query == last_query and start == rows.stop and len(rows) + size <= longest:
                runs[-1] = query, range(rows.start, start + size)
                continue
        runs.append((query, range(start, start + size)))
    return runs


def _products(query: Tensor, sections: Tensor, scales: Tensor | None) -> Tensor:
    """Returns the inner products of query tokens [N, H] with the tokens of sections [S, M, H], [S, M, N]."""
    products: Tensor = sections.float().flatten(0, 1) @ query.T
    if scales is not None:
        products *= scales.float().reshape(-1, 1)
    return products.view(*sections.shape[:2], -1)


def _sign_tables(queries: Tensor) -> Tensor:
    """Returns the products of queries [B, N, H] with each byte value at each position, [B, H / 8 * 256, N]."""
    parts = queries.unflatten(-1, (-1, 8)) * queries.shape[-1] ** -0.5  # a token has length 1
    return torch.einsum("bnwe,ve->bwvn", parts, byte_signs(queries.device).float()).flatten(1, 2)


def _sign_products(table: Tensor, sections: Tensor) -> Tensor:
    """Returns the products of a query's table [W * 256, N] with the packed tokens of sections [S, M, W], [S, M, N]."""
    places = torch.arange(0, len(table), 256, dtype=torch.int32, device=table.device)
    products: Tensor = functional.embedding_bag(sections.int().flatten(0, 1) + places, table, mode="sum")
    return products.view(*sections.shape[:2], -1)
