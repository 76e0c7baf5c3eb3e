from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from retriever.kernels import max_sim_pairs
from retriever.maxsim import ScoreMode, max_sim_spans
from retriever.types import StoredTokens
from tests.fakes.unread_device import DEVICE, UnreadDevice

QUERY = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
"""Over H: (0.6, 0.8) and (0, 1). Over its tokens: the first dimension becomes (1, 0), the second (4, 2) / sqrt(20)."""
SECTIONS = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.6, 0.8]]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # section 0: max(0.6, 0.8) and max(0, 1); section 1: max(-0.6, 1) and max(0, 0.8)
        ("cosine", [0.9, 0.9]),
        ("paper", [1.8, 1.8]),
        # query rows (1, 4/sqrt 20) and (0, 2/sqrt 20)
        ("compat", [(1 + 2 / 20**0.5) / 2, (0.6 + 0.8 * 4 / 20**0.5 + 0.8 * 2 / 20**0.5) / 2]),
    ],
)
def test_hand_computed(mode: ScoreMode, expected: list[float]) -> None:
    assert max_sim_spans(QUERY[None], stored(SECTIONS), [0], [range(2)], mode)[0] == pytest.approx(expected, abs=1e-6)


def stored(values: torch.Tensor, first: tuple[int, ...] = (0,)) -> StoredTokens:
    return StoredTokens(values, None, np.array(first))


def brute(query: NDArray[np.float64], sections: NDArray[np.float64], mode: str) -> list[float]:
    axis = 0 if mode == "compat" else 1
    query = query / np.linalg.norm(query, axis=axis, keepdims=True)
    scores = []
    for section in sections:
        best = [max(math.fsum(a * b for a, b in zip(q, c, strict=True)) for c in section) for q in query]
        scores.append(math.fsum(best) if mode == "paper" else math.fsum(best) / len(best))
    return scores


@pytest.mark.parametrize("mode", ["cosine", "paper", "compat"])
def test_ragged_spans_equal_float64_brute_force(mode: ScoreMode) -> None:
    random = np.random.default_rng(0)
    queries = random.normal(size=(3, 8, 16))
    sections = random.normal(size=(9, 6, 16))
    sections /= np.linalg.norm(sections, axis=-1, keepdims=True)
    query_of, spans = [2, 0, 1, 0], [range(4, 9), range(2, 2), range(3, 4), range(0, 3)]
    tokens = stored(torch.tensor(sections).float(), tuple(span.start for span in spans))
    found = max_sim_spans(torch.tensor(queries).float(), tokens, query_of, spans, mode)
    for query, span, scores in zip(query_of, spans, found, strict=True):
        assert scores == pytest.approx(brute(queries[query], sections[span.start : span.stop], mode), abs=1e-5)


@pytest.mark.parametrize("longest", [3, 9, 768])
def test_pairs_of_a_query_in_adjacent_rows_share_a_product(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of adjacent rows, of separate rows, of the same rows for another query, and of no rows."""
    monkeypatch.setattr("retriever.kernels.maxsim_torch._LONGEST", longest)
    random = np.random.default_rng(1)
    queries, sections = random.normal(size=(2, 4, 8)), random.normal(size=(9, 3, 8))
    starts, counts, query_of = [0, 2, 5, 5, 6, 8, 0, 2], [2, 3, 0, 1, 1, 1, 2, 1], [0, 0, 0, 0, 1, 1, 0, 1]
    pairs = np.array([query_of, starts, counts])
    scores = max_sim_pairs(torch.tensor(queries).float(), torch.tensor(sections).float(), None, pairs)
    expected = [
        float((sections[row] @ queries[query].T).max(0).sum())
        for query, start, count in zip(query_of, starts, counts, strict=True)
        for row in range(start, start + count)
    ]
    assert scores.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("longest", [3, 192])
def test_packed_signs_equal_float64_brute_force(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.kernels.maxsim_torch._LONGEST", longest)
    random = np.random.default_rng(2)
    queries, bits = random.normal(size=(2, 5, 24)), random.random((6, 3, 24)) < 0.4
    tokens = torch.from_numpy(np.packbits(bits, axis=-1))
    signs = np.where(bits, 1, -1) / math.sqrt(24)
    query_of, spans = [1, 0, 0], [range(2, 6), range(0, 2), range(2, 3)]
    found = max_sim_spans(torch.tensor(queries), stored(tokens, (2, 0, 2)), query_of, spans)
    for query, span, scores in zip(query_of, spans, found, strict=True):
        assert scores == pytest.approx(brute(queries[query], signs[span.start : span.stop], "cosine"), abs=1e-6)
    with pytest.raises(ValueError, match=r"the same H, got \[2, 5, 24\] and \[6, 3, 2\] of packed signs"):
        max_sim_spans(torch.tensor(queries), stored(tokens[..., :2].contiguous()), [0], [range(1)])


def test_nothing_to_compare_and_shapes_that_do_not_fit() -> None:
    assert max_sim_spans(QUERY[None], stored(SECTIONS, ()), [], []) == []
    with pytest.raises(ValueError, match=r"must have the same H, got \[1, 2, 2\] and \[1, 2, 3\]"):
        max_sim_spans(QUERY[None], stored(torch.zeros(1, 2, 3)), [0], [range(1)])
    with pytest.raises(ValueError, match="pair 1 is query 0 with 1 rows from 2, but there are 1 queries and 2 rows"):
        max_sim_spans(QUERY[None], stored(SECTIONS, (0, 2)), [0, 0], [range(1), range(2, 3)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("mode", ["cosine", "paper", "compat"])
def test_a_device_is_waited_for_once(mode: ScoreMode, dtype: torch.dtype) -> None:
    values = torch.zeros(9, 4, 8 if dtype != torch.uint8 else 1, dtype=dtype, device=DEVICE)
    scales = torch.zeros(9, 4, dtype=torch.float16, device=DEVICE) if dtype == torch.int8 else None
    tokens = StoredTokens(values, scales, np.array([0, 4, 4, 7]))
    with UnreadDevice() as device:
        queries = torch.zeros(2, 5, 8, device=DEVICE)
        found = max_sim_spans(queries, tokens, [0, 1, 0, 1], [range(4), range(3), range(0), range(2)], mode)
    assert [len(scores) for scores in found] == [4, 3, 0, 2]
    assert device.reads == 1
