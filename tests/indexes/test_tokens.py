from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from indexes.build import build_index
from indexes.store import Index
from indexes.tokens import TokenStore, copied
from retriever.codecs import EncodedTokens, decode_tokens, encode_tokens
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.token_codec import TokenCodec
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.retriever.test_pipeline import FRANCE, IRELAND, YELLOW

MODELS: dict[str, Any] = {
    "summarizer": FakeSummarizer(),
    "encoder": FakeEncoder(),
    "fusion": FakeFusion(),
    "progress": False,
}
BOUNDS = {
    "float16": 0.0,
    "int8": 0.5 / 127 * 8**0.5,
    "int4": 0.5 / 7 * 8**0.5,
    "bit1": 2**0.5,
    "pool4+int4": 2.0,
}
"""Maximum distance that a token moves: half a scale (at most 1 / levels) in each of 8 coordinates; for signs, the chord
of a right angle, which bounds it; merged tokens can be anywhere."""


def test_spans_are_gathered_in_the_order_asked() -> None:
    values = np.arange(5 * 2 * 3, dtype=np.float16).reshape(5, 2, 3)
    store = TokenStore(TokenCodec("float16"), values, np.empty((0, 0), np.float16))
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
    store = TokenStore(TokenCodec("int8"), values, np.array([[0.5], [2.0]], np.float16))
    assert store.read(np.array([1, 0])).tolist() == [[[2, 4]], [[63.5, -32]]]
    found = store.gather([range(1, 2)])
    assert found.values.dtype == torch.int8 and found.scales is not None and found.scales.tolist() == [[2.0]]


@pytest.mark.parametrize("name", ["float16", "int8", "int4", "bit1", "pool2+int4"])
def test_a_store_in_device_memory_returns_the_same_tokens(name: str) -> None:
    codec = TokenCodec.parse(name)
    exact = torch.nn.functional.normalize(torch.randn(9, 4, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    encoded = encode_tokens(exact, codec)
    scales = np.empty((0, 0), np.float16) if encoded.scales is None else encoded.scales.numpy()
    mapped, resident = (TokenStore(codec, encoded.values.numpy(), scales) for _ in range(2))
    resident._resident = encoded  # as held in GPU memory
    spans = [range(5, 8), range(2, 2), range(0, 1), range(5, 8)]
    found = [store.gather(spans) for store in (mapped, resident)]
    for span, *firsts in zip(spans, *(stored.first.tolist() for stored in found), strict=True):
        ours, theirs = (
            EncodedTokens(
                stored.values[first : first + len(span)],
                None if stored.scales is None else stored.scales[first : first + len(span)],
            )
            for stored, first in zip(found, firsts, strict=True)
        )
        assert torch.equal(ours.values, theirs.values)
        assert (ours.scales is None) == (theirs.scales is None) == (name in ("float16", "bit1"))
        if ours.scales is not None and theirs.scales is not None:
            assert torch.equal(ours.scales, theirs.scales)
            decoded = ours.values.float() * ours.scales.float()[..., None]
            torch.testing.assert_close(decoded, mapped.read(np.array(span, np.int64)))
    assert all(len(store.gather([]).first) == 0 for store in (mapped, resident))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Index]:
    folder = tmp_path_factory.mktemp("tokens")
    kb, images = write_kb(folder)
    return {tokens: build_index(kb, images, folder / tokens, tokens=tokens, **MODELS) for tokens in BOUNDS}


@pytest.mark.parametrize("name", BOUNDS)
def test_an_index_keeps_scores_within_the_rounding(both: dict[str, Index], name: str) -> None:
    """A score changes by no more than a token moves."""
    bound = BOUNDS[name]
    results = {
        tokens: Retriever(
            [EntitySearch(FakeEncoder(), index, k=7), FusionRerank(FakeFusion(), index, alpha=0.2)], index
        ).retrieve([FRANCE, IRELAND, YELLOW])
        for tokens, index in both.items()
    }
    for a, b in zip(results["float16"], results[name], strict=True):
        scores = {c.row: c.sim_m for c in b.candidates}
        assert all(scores[c.row] == pytest.approx(c.sim_m, abs=bound + 1e-3) for c in a.candidates)


def test_int8_keeps_the_best_entity(both: dict[str, Index]) -> None:
    tops = []
    for name in ("float16", "int8"):
        steps: list[Step] = [
            EntitySearch(FakeEncoder(), both[name], k=7),
            FusionRerank(FakeFusion(), both[name], alpha=0.2),
        ]
        tops.append([found.candidates[0].row for found in Retriever(steps, both[name]).retrieve([FRANCE, IRELAND])])
    assert tops[0] == tops[1]


@pytest.mark.parametrize(
    ("name", "values", "scales"),
    [
        ("float16", 32 * 8 * 2, 0),
        ("int8", 32 * 8, 32 * 2),
        ("int4", 32 * 4, 32 * 2),
        ("bit1", 32, 0),
        ("pool4+int4", 4 * 4, 4 * 2),
    ],
)
def test_sizes_on_disk(both: dict[str, Index], name: str, values: int, scales: int) -> None:
    files, manifest = both[name].manifest.files, both[name].manifest
    assert files["tokens.npy"].bytes - 128 == 5 * values  # 128 bytes of header
    assert files["token_scales.npy"].bytes - 128 == 5 * scales
    assert manifest.inputs.codec.bytes_per_section(manifest.token_shape) == values + scales


@pytest.mark.parametrize("name", ["int4", "bit1", "pool4+int4"])
def test_an_index_holds_what_the_codec_makes_of_the_tokens(both: dict[str, Index], name: str) -> None:
    codec, exact = TokenCodec.parse(name), both["float16"].tokens(np.arange(5))
    expected = decode_tokens(encode_tokens(exact, codec), codec)
    found = both[name].tokens(np.arange(5))
    # the build encodes from float32, this from values rounded to float16, so a value may fall on the other side
    assert found.shape == expected.shape
    assert torch.isclose(found, expected, atol=1e-3).float().mean() > 0.95


def test_wrong_codecs_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    with pytest.raises(ValueError, match="token codec 'int5' is unknown: use one of float16, int8, int4, bit1"):
        build_index(kb, images, tmp_path / "out", tokens="int5", **MODELS)
    with pytest.raises(ValueError, match="token codec bit1: the length of a token must be a multiple of 8, got 9"):
        build_index(kb, images, tmp_path / "out", tokens="bit1", **MODELS | {"fusion": FakeFusion(width=9)})
    assert not (tmp_path / "out").exists()


def test_an_index_of_another_release_or_with_a_wrong_file(both: dict[str, Index], tmp_path: Path) -> None:
    folder = shutil.copytree(both["int8"].folder, tmp_path / "index")
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, words in [
        ("int2", r"inputs\.tokens: .*token codec 'int2' is unknown: use one of float16.*build-index --overwrite"),
        ("int4", r"tokens\.npy: int8, but the manifest says uint8; rebuild"),
        ("pool4+int8", r"tokens\.npy: \(5, 32, 8\), but the manifest says \(5, 4, 8\); rebuild"),
    ]:
        manifest["inputs"]["tokens"] = name
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(ValueError, match=words):
            Index.open(folder)


def test_a_build_of_the_other_type_is_told_apart(both: dict[str, Index], tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    with pytest.raises(ValueError, match="tokens: 'int8' there, 'float16' now"):
        build_index(kb, images, both["int8"].folder, **MODELS)
