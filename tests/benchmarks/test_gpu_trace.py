from __future__ import annotations

from benchmarks.gpu_trace import Gap, Kernel, gaps_of, summarize

# a: 0-2, b: 1-5 (beside it), c: 4-5 (inside b), a copy: 5-7, a again: 8-10
KERNELS = [
    Kernel("a", 0, 2),
    Kernel("b", 1, 5),
    Kernel("c", 4, 5),
    Kernel("Memcpy HtoD", 5, 7),
    Kernel("a", 8, 10),
]


def test_gaps_are_where_no_kernel_runs() -> None:
    assert gaps_of(KERNELS) == [Gap(1, "Memcpy HtoD", "a")]
    assert gaps_of(KERNELS[:3]) == gaps_of([]) == []


def test_a_summary_is_per_batch_and_copies_are_no_kernels() -> None:
    summary = summarize(KERNELS, batches=2)
    assert (summary["span_ms"], summary["idle_ms"], summary["idle_share"]) == (5, 1.5, 0.3)
    assert summary["gaps"] == [{"ms": 3, "before": "b", "after": "a"}]
    assert summary["launches"] == 2.5
    times = {row["kernel"]: (row["ms"], row["calls"]) for row in summary["kernels"]}
    assert times == {"a": (2, 1), "b": (2, 0.5), "c": (0.5, 0.5), "Memcpy HtoD": (1, 0.5)}
    assert [row["share"] for row in summary["kernels"]] == [0.3636, 0.3636, 0.1818, 0.0909]  # 4, 4, 2 and 1 of 11


def test_no_kernels() -> None:
    assert summarize([], 1)["span_ms"] == 0
