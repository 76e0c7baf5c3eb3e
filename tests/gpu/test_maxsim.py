"""Both kernels against float64 brute force. Triton's runs on the CPU in its interpreter, in a separate process: the
interpreter must be enabled before Triton is imported, and other tests import Triton through other packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from retriever.codecs import encode_tokens
from retriever.kernels import max_sim_pairs, maxsim_torch
from retriever.token_codec import TokenCodec
from tests.paths import ROOT

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
GPU = torch.cuda.is_available() and find_spec("triton") is not None and not INTERPRETED
ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not GPU, reason="needs a CUDA device and triton")]
KERNELS = ["interpreter"] if INTERPRETED else ["torch", pytest.param("gpu", marks=ON_GPU)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8]


@dataclass(frozen=True)
class Case:
    """Pairs are (query, first row, number of sections); N query tokens, M stored ones, of length H."""

    pairs: list[tuple[int, int, int]]
    n: int = 32
    m: int = 32
    h: int = 64
    batch: int = 3
    rows: int = 24


CASES = {
    "one section": Case([(0, 0, 1)], batch=1, rows=1),
    "ragged": Case([(0, 0, 3), (0, 3, 9), (1, 12, 1), (2, 13, 4), (2, 17, 5)]),
    "unsorted, sharing rows": Case([(2, 8, 5), (0, 4, 8), (1, 8, 5), (0, 8, 5), (2, 0, 2)]),
    "empty first and last": Case([(0, 0, 0), (0, 2, 3), (1, 0, 0), (1, 4, 2), (2, 7, 0)]),
    "all empty": Case([(0, 0, 0), (1, 24, 0)]),
    "no pairs": Case([]),
    "end of the store": Case([(0, 23, 1), (1, 19, 5), (2, 21, 3)]),
    "odd sizes": Case([(0, 0, 5), (1, 23, 1), (0, 5, 0), (1, 5, 6)], n=5, m=7, h=19, batch=2),
    "more than a block": Case([(0, 1, 3), (1, 20, 4)], n=33, m=40, h=130, batch=2),
    "paper profile": Case([(0, 0, 1), (0, 1, 6)], h=768, batch=1, rows=8),
}


@dataclass(frozen=True)
class Problem:
    """What a kernel gets, and what it must give: section scores pair after pair."""

    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
    pairs: NDArray[np.int64]
    scores: NDArray[np.float64]


def problem(case: Case, dtype: torch.dtype, change: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> Problem:
    """Random unit vectors. Queries are exact in float16; rows that no pair refers to would spoil any score."""
    generator = torch.Generator().manual_seed(1)
    queries = torch.nn.functional.normalize(torch.randn(case.batch, case.n, case.h, generator=generator), dim=-1)
    queries = change(queries).half().float()
    exact = change(torch.nn.functional.normalize(torch.randn(case.rows, case.m, case.h, generator=generator), dim=-1))
    scales = None
    if dtype == torch.int8:
        encoded = encode_tokens(exact, TokenCodec("int8"))
        tokens, scales = encoded.values, encoded.scales
        assert scales is not None
        factors = scales.double().numpy()
    else:
        tokens, factors = exact.to(dtype), np.ones((case.rows, case.m))
    stored = tokens.double().numpy() * factors[..., None]
    named = {row for _, first, count in case.pairs for row in range(first, first + count)}
    for row in set(range(case.rows)) - named:
        tokens[row] = 127 if dtype == torch.int8 else float("nan")

    scores = []
    for query, first, count in case.pairs:
        products = stored[first : first + count] @ queries[query].double().numpy().T
        scores += [sum(max(column) for column in section.T) for section in products]
    return Problem((queries, tokens, scales), np.array(case.pairs, np.int64).reshape(-1, 3).T, np.array(scores))


def run(kernel: str, given: Problem) -> torch.Tensor:
    if kernel != "interpreter":
        return max_sim_pairs(*moved(given, "cuda" if kernel == "gpu" else "cpu"), given.pairs)
    return triton_scores(given, "cpu")


def moved(given: Problem, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    queries, tokens, scales = given.tensors
    return queries.to(device), tokens.to(device), None if scales is None else scales.to(device)


def triton_scores(given: Problem, device: str, dtype: type = np.int64) -> torch.Tensor:
    """Calls Triton's kernel itself, without the function that chooses it."""
    from retriever.kernels import maxsim_triton

    indexes = torch.from_numpy(np.ascontiguousarray(given.pairs.astype(dtype))).to(device)
    total, most = int(given.pairs[2].sum()), int(given.pairs[2].max(initial=0))
    return maxsim_triton.max_sim_pairs(*moved(given, device), *indexes, total=total, most=most)


def check(scores: torch.Tensor, given: Problem, tolerance: float = 2e-5) -> None:
    assert scores.dtype == torch.float32
    assert scores.shape == given.scores.shape
    np.testing.assert_allclose(scores.cpu(), given.scores, atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_equals_brute_force(kernel: str, name: str, dtype: torch.dtype) -> None:
    given = problem(CASES[name], dtype)
    check(run(kernel, given), given)


@pytest.mark.parametrize("kernel", KERNELS)
def test_negative_scores_are_not_taken_for_padding(kernel: str) -> None:
    sign = iter([1, -1])  # queries, then tokens
    given = problem(Case([(0, 0, 9), (1, 9, 1)], n=5, m=7, h=19), torch.float16, lambda x: next(sign) * x.abs())
    assert given.scores.max() < 0
    check(run(kernel, given), given)


@pytest.mark.parametrize("kernel", KERNELS)
def test_int32_indexes_float32_scales_and_half_queries(kernel: str) -> None:
    given = problem(CASES["odd sizes"], torch.int8)
    queries, tokens, scales = given.tensors
    assert scales is not None
    narrow = Problem((queries.half(), tokens, scales.float()), given.pairs, given.scores)
    check(run(kernel, narrow), narrow)
    if kernel != "torch":
        check(triton_scores(narrow, "cuda" if kernel == "gpu" else "cpu", np.int32), narrow)


@pytest.mark.parametrize("kernel", KERNELS)
def test_queries_of_full_precision_are_rounded_by_a_float16_at_most(kernel: str) -> None:
    given = problem(CASES["ragged"], torch.float16)
    queries, *others = given.tensors
    # relative to 1, by less than half a float16 step (2^-11): no product of unit vectors changes by more
    longer: Any = (queries * (1 + 2**-12), *others)
    check(run(kernel, Problem(longer, given.pairs, given.scores)), given, tolerance=32 * 2**-11)


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="is the test that starts this process")
def test_the_triton_kernel_on_the_cpu() -> None:
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "interpreter", __file__]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"{len(CASES) * len(DTYPES) + 3} passed" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="the interpreter does not compile")
@pytest.mark.parametrize(("dtype", "capability"), [("i8", 80), ("i8", 90), ("fp16", 90), ("fp32", 90)])
def test_compiles_for_a_gpu_that_is_not_here(
    dtype: str, capability: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from retriever.kernels import maxsim_triton

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    names = maxsim_triton.kernel.arg_names
    unit = "fp32" if dtype == "fp32" else "fp16"
    pointers = {"queries": unit, "tokens": dtype, "scores": "fp32"}
    pointers |= dict.fromkeys(["query_of", "first", "counts", "ends"], "i64")
    constants: dict[str, Any] = maxsim_triton.blocks(32, 32, 768, 1 if dtype == "i8" else 2, maxsim_triton.TILE)
    if dtype == "i8":
        pointers["scales"] = "fp16"
    else:
        constants["scales"] = None
    types = {name: f"*{pointers[name]}" if name in pointers else "constexpr" for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in pointers}
    source = ASTSource(
        maxsim_triton.kernel, types, {(names.index(name),): value for name, value in constants.items()}, aligned
    )
    options = {"num_warps": maxsim_triton.WARPS, "num_stages": maxsim_triton.STAGES}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert "cp.async" in compiled.asm["ptx"]  # the next iteration's loads overlap with this one's products
    assert compiled.metadata.shared <= 100 * 1024  # two programs per multiprocessor on both


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a CUDA device and triton")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning")
def test_waits_for_nothing_and_can_be_captured() -> None:
    given = problem(CASES["ragged"], torch.int8)
    tensors, indexes = moved(given, "cuda"), torch.from_numpy(given.pairs.copy()).cuda()
    check(max_sim_pairs(*tensors, given.pairs), given)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        eager = max_sim_pairs(*tensors, given.pairs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    from retriever.kernels import maxsim_triton

    graph, counts = torch.cuda.CUDAGraph(), given.pairs[2]
    with torch.cuda.graph(graph):
        captured = maxsim_triton.max_sim_pairs(*tensors, *indexes, total=int(counts.sum()), most=int(counts.max()))
    tensors[0].mul_(2)
    graph.replay()
    torch.cuda.synchronize()
    check(eager, given)
    check(captured / 2, given)


def arguments(**changed: Any) -> dict[str, Any]:
    given = problem(Case([(0, 0, 2), (1, 2, 1)], n=3, m=4, h=8, batch=2, rows=3), torch.float16)
    return dict(zip(["queries", "tokens", "scales"], given.tensors, strict=True)) | {"pairs": given.pairs} | changed


def pairs(*found: tuple[int, int, int]) -> NDArray[np.int64]:
    return np.array(found, np.int64).T


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"queries": torch.zeros(2, 3, 9)}, "must have the same H"),
        ({"queries": torch.zeros(3, 8)}, "must have the same H"),
        ({"queries": torch.zeros(2, 3, 8, dtype=torch.int8)}, "queries must be floating point"),
        ({"tokens": torch.zeros(3, 4, 8, dtype=torch.float64)}, "tokens float16"),
        ({"tokens": torch.zeros(3, 4, 8, dtype=torch.int8)}, "scales: must be given for int8"),
        ({"scales": torch.ones(3, 4)}, "scales: must be given for int8"),
        ({"tokens": torch.zeros(3, 4, 8, dtype=torch.int8), "scales": torch.ones(3, 5)}, r"scales: must be .*\[3, 4\]"),
        ({"tokens": torch.zeros(3, 4, 8, device="meta")}, "tokens: on meta, but queries are on cpu"),
        ({"tokens": torch.zeros(3, 8, 4, dtype=torch.float16).mT}, "tokens: must be contiguous"),
        ({"pairs": np.zeros((3, 2))}, r"pairs: must be int64 \[3, P\], got float64 \[3, 2\]"),
        ({"pairs": np.zeros((2, 2), np.int64)}, r"pairs: must be int64 \[3, P\], got int64 \[2, 2\]"),
        ({"pairs": pairs((0, 0, 2), (1, 3, 1))}, "query 1 with 1 rows from 3, but there are 2 queries and 3 rows"),
        ({"pairs": pairs((0, -1, 2), (1, 0, 1))}, "pair 0 is query 0 with 2 rows from -1"),
        ({"pairs": pairs((0, 0, 1), (0, 0, 4))}, "pair 1 is query 0 with 4 rows from 0"),
        ({"pairs": pairs((0, 0, 1), (0, 0, -1))}, "pair 1 is query 0 with -1 rows"),
        ({"pairs": pairs((2, 0, 1))}, "pair 0 is query 2 "),
        ({"pairs": pairs((0, 0, 1), (-1, 0, 1))}, "pair 1 is query -1 "),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        max_sim_pairs(**arguments(**changed))


def test_tensors_on_a_cpu_take_the_torch_path() -> None:
    given = arguments()
    assert torch.equal(max_sim_pairs(**given), maxsim_torch.max_sim_pairs(**given))
