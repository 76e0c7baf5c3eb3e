"""Builds and retrieval on a device: the results of a CPU, and at most one wait per step and batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from indexes.store.index import Index
from indexes.store.search import DeviceSearch
from retriever.pipeline import Retriever
from retriever.protocols import Finish, Step
from tests.gpu.conftest import Device
from tests.gpu.flags import Models, build_flags, flag_queries, rankings, retriever_of
from tests.gpu.pretend import Wait

TO_DEVICE = "torch/nn/modules/module.py"
"""Where a model's weights are moved to a device."""

QUERIES = flag_queries(6)
CODECS = ["float16", "int8", "bit1"]


@pytest.fixture(scope="module")
def expected(flags: Path) -> list[list[tuple[str, list[int]]]]:
    models = Models("cpu")
    index = Index.open(flags / "index", encoder=models.encoder, fusion=models.fusion)
    return rankings(retriever_of(index, models), QUERIES)


@contextmanager
def counting_steps(cuda: Device, retriever: Retriever[Index]) -> Iterator[dict[str, list[Wait]]]:
    """Yields the waits of each step, while steps start one after the other."""
    waits: dict[str, list[Wait]] = defaultdict(list)

    class Counted:
        def __init__(self, step: Step) -> None:
            self.step, self.name = step, step.name

        def start(self, queries: object) -> Finish:
            with cuda.counting() as found:
                finish = self.step.start(queries)  # type: ignore[arg-type]
            waits[self.name] += found

            def counted(candidates: object) -> object:
                with cuda.counting() as found:
                    result = finish(candidates)  # type: ignore[arg-type]
                waits[self.name] += found
                return result

            return counted  # type: ignore[return-value]

    steps = retriever.steps
    retriever.steps = [Counted(step) for step in steps]
    try:
        yield waits
    finally:
        retriever.steps = steps


@pytest.mark.parametrize("resident", [True, False])
def test_retrieval_gives_what_a_cpu_gives_and_waits_once_per_step(
    cuda: Device, flags: Path, expected: list[list[tuple[str, list[int]]]], resident: bool
) -> None:
    models = Models("cuda")
    free = 80 << 30 if resident else 1024
    with mock.patch.object(torch.cuda, "mem_get_info", lambda *_: (free, 80 << 30)):
        index = Index.open(flags / "index", encoder=models.encoder, fusion=models.fusion, device="cuda")
    retriever = retriever_of(index, models)
    assert rankings(retriever, QUERIES) == expected
    with counting_steps(cuda, retriever) as waits:
        retriever.retrieve(QUERIES)
    assert set(waits) == {"step1", "step2", "step3"}
    assert all(len(found) <= 1 for found in waits.values()), waits


@pytest.mark.slow
@pytest.mark.parametrize("tokens", CODECS)
def test_a_build_gives_what_a_cpu_gives(cuda: Device, flags: Path, tmp_path: Path, tokens: str) -> None:
    on_cpu = build_flags(flags, Models("cpu"), tmp_path / "cpu", tokens=tokens)
    with cuda.counting() as waits:
        built = build_flags(flags, Models("cuda"), tmp_path / "cuda", tokens=tokens)
    loading = [wait for wait in waits if wait.place.startswith("retriever/models/") or TO_DEVICE in wait.place]
    assert built.manifest.counts == on_cpu.manifest.counts
    rows = np.arange(built.manifest.counts.token_sections)
    close = 0.02 if tokens != "bit1" else 0.2  # signs of values near zero may differ
    difference = (built.tokens(rows) - on_cpu.tokens(rows)).abs().mean()
    assert difference < close * on_cpu.tokens(rows).abs().mean()
    # One batch of texts, one of images: vectors, the check of tokens, their values and scales.
    others = [wait for wait in waits if wait not in loading]
    assert len(others) <= (5 if tokens == "int8" else 4), others


def test_search_gives_what_float64_gives(cuda: Device) -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(5000, 64, generator=generator), dim=-1).half()
    queries = torch.nn.functional.normalize(torch.randn(7, 64, generator=generator), dim=-1)
    search = DeviceSearch(vectors.to("cuda"), torch.arange(5000).to("cuda") * 3, block=1024)
    on_device = queries.to("cuda")
    with cuda.counting() as waits:
        scores, rows = search.search(on_device, 10)
    assert len(waits) <= 1, waits
    products = queries.half().double() @ vectors.double().T
    best = products.topk(10)
    np.testing.assert_array_equal(rows, best.indices.numpy() * 3)
    np.testing.assert_allclose(scores, best.values.numpy(), atol=1e-3)
