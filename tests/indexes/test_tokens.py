from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from indexes.build import build_index
from indexes.store import Index
from indexes.tokens import TokenStore, copied
from retriever.pipeline import Retriever
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.retriever.test_pipeline import FRANCE, IRELAND, YELLOW


def test_spans_are_gathered_in_the_order_asked() -> None:
    values = np.arange(5 * 2 * 3, dtype=np.float16).reshape(5, 2, 3)
    store = TokenStore(values, np.empty((0, 0), np.float16))
    found = store.gather([range(3, 5), range(1, 1), range(0, 1)])
    assert found.scales is None and found.first.tolist() == [0, 2, 2]
    np.testing.assert_array_equal(found.values, values[[3, 4, 0]])
    assert store.gather([]).values.shape == (0, 2, 3)


def test_a_store_is_copied_in_parts(tmp_path: Path) -> None:
    values = np.arange(5 * 2 * 3, dtype=np.int8).reshape(5, 2, 3)
    np.save(tmp_path / "values.npy", values)
    mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
    for rows in (1, 2, 5, 9):
        copy = copied(mapped, torch.device("cpu"), rows)
        assert copy.dtype == torch.int8 and copy.tolist() == values.tolist()
    assert copied(values[:0], torch.device("cpu")).shape == (0, 2, 3)


def test_int8_rows_are_read_with_their_scales() -> None:
    values = np.array([[[127, -64]], [[1, 2]]], np.int8)
    store = TokenStore(values, np.array([[0.5], [2.0]], np.float16))
    assert store.read(np.array([1, 0])).tolist() == [[[2, 4]], [[63.5, -32]]]
    found = store.gather([range(1, 2)])
    assert found.values.dtype == torch.int8 and found.scales is not None and found.scales.tolist() == [[2.0]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Index]:
    folder = tmp_path_factory.mktemp("tokens")
    kb, images = write_kb(folder)
    models = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion(), "progress": False}
    return {
        tokens: build_index(kb, images, folder / tokens, tokens=tokens, **models)  # type: ignore[arg-type]
        for tokens in ("float16", "int8")
    }


def test_an_int8_index_keeps_scores_within_the_rounding(both: dict[str, Index]) -> None:
    """A coordinate is off by at most half a scale, and a scale is at most 1/127 of a unit vector's length."""
    rows = np.arange(5)
    exact, rounded = both["float16"].tokens(rows), both["int8"].tokens(rows)
    assert (exact - rounded).abs().max() <= 0.5 / 127 + 1e-3
    results = {
        tokens: Retriever(
            [EntitySearch(FakeEncoder(), index, k=7), FusionRerank(FakeFusion(), index, alpha=0.2)], index
        ).retrieve([FRANCE, IRELAND, YELLOW])
        for tokens, index in both.items()
    }
    for a, b in zip(results["float16"], results["int8"], strict=True):
        scores = {c.row: c.sim_m for c in b.candidates}
        assert all(scores[c.row] == pytest.approx(c.sim_m, abs=0.5 / 127 * 8**0.5) for c in a.candidates)
        assert a.candidates[0].row == b.candidates[0].row


def test_sizes_on_disk(both: dict[str, Index]) -> None:
    sizes = {tokens: index.manifest.files["tokens.npy"].bytes - 128 for tokens, index in both.items()}
    assert sizes == {"float16": 5 * 32 * 8 * 2, "int8": 5 * 32 * 8}  # 128 bytes of header
    assert both["int8"].manifest.files["token_scales.npy"].bytes - 128 == 5 * 32 * 2


def test_a_build_of_the_other_type_is_told_apart(both: dict[str, Index], tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    with pytest.raises(ValueError, match="tokens: 'int8' there, 'float16' now"):
        build_index(
            kb,
            images,
            both["int8"].folder,
            summarizer=FakeSummarizer(),
            encoder=FakeEncoder(),
            fusion=FakeFusion(),
            progress=False,
        )
