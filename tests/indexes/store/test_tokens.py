from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from indexes.store.index import Index
from indexes.store.row_file import RowFile
from indexes.store.tokens import HostTokens, Parcel, Residency, TokenStore, copied, join
from retriever.codecs import EncodedTokens, decode_tokens, encode_tokens, unpack_tokens
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.token_codec import TokenCodec
from retriever.types import StoredTokens
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.fakes.plans import build_index
from tests.retriever.test_pipeline import FRANCE, IRELAND, YELLOW

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
    for rows in (1, 2, 5, 9):
        for source in (values, RowFile(tmp_path / "values.npy")):
            copy = copied(source, torch.device("cpu"), rows)
            assert copy.dtype == torch.int8 and copy.tolist() == values.tolist()
    assert copied(values[:0], torch.device("cpu")).shape == (0, 2, 3)


def test_int8_rows_are_read_with_their_scales() -> None:
    values = np.array([[[127, -64]], [[1, 2]]], np.int8)
    store = TokenStore(TokenCodec("int8"), values, np.array([[0.5], [2.0]], np.float16))
    assert store.read(np.array([1, 0])).tolist() == [[[2, 4]], [[63.5, -32]]]
    found = store.gather([range(1, 2)])
    assert found.values.dtype == torch.int8 and found.scales is not None and found.scales.tolist() == [[2.0]]


def stores(name: str, rows: int, folder: Path) -> tuple[dict[str, TokenStore], HostTokens]:
    """Returns a store of random tokens in files, the same in memory, and as if on a GPU, and the tokens as stored."""
    codec = TokenCodec.parse(name)
    exact = torch.nn.functional.normalize(torch.randn(rows, 4, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    encoded = encode_tokens(exact, codec)
    scales = np.empty((0, 0), np.float16) if encoded.scales is None else encoded.scales.numpy()
    arrays = HostTokens(encoded.values.numpy(), scales)
    paths = folder / "tokens.npy", folder / "token_scales.npy"
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    resident = TokenStore(codec, *arrays)
    resident._resident = encoded  # as held in GPU memory
    return {
        "files": TokenStore(codec, RowFile(paths[0]), RowFile(paths[1])),
        "memory": TokenStore(codec, *arrays),
        "resident": resident,
    }, arrays


def some_spans(generator: np.random.Generator, rows: int) -> list[range]:
    """Returns empty, repeated, touching, overlapping and nested spans, some at both ends, in any order."""
    cuts = np.sort(generator.integers(0, rows + 1, 6)).tolist()
    spans = [range(start, stop) for start, stop in itertools.pairwise([0, *cuts, rows])]
    spans += [range(rows - 1, rows), range(rows, rows), range(cuts[1], cuts[4]), range(cuts[2], cuts[2])]
    chosen = generator.choice(len(spans), generator.integers(0, 12)).tolist()
    return [spans[one] for one in chosen]


def part_of(stored: StoredTokens, first: int, count: int) -> EncodedTokens:
    """Returns the tokens of one span."""
    scales = None if stored.scales is None else stored.scales[first : first + count]
    return EncodedTokens(stored.values[first : first + count], scales)


@pytest.mark.parametrize("name", ["float16", "int8", "int4", "bit1", "pool2+int4", "pool2+float16"])
def test_every_store_returns_what_is_stored(name: str, tmp_path: Path) -> None:
    """However spans overlap, and together with tokens from elsewhere."""
    rows, codec = 40, TokenCodec.parse(name)
    found, arrays = stores(name, rows, tmp_path)
    others = [
        HostTokens(arrays.values[:n] ^ 1 if codec.packed else -arrays.values[:n], arrays.scales[:n]) for n in (3, 0, 1)
    ]
    generator = np.random.default_rng(0)
    for trial in range(60):
        spans, more = some_spans(generator, rows), others[: trial % 4]
        expected = [HostTokens(arrays.values[s.start : s.stop], arrays.scales[s.start : s.stop]) for s in spans] + more
        for store in found.values():
            stored = store.gather(spans, more)
            assert len(stored.first) == len(expected) and stored.values.is_contiguous()
            for first, (values, scales) in zip(stored.first.tolist(), expected, strict=True):
                part = EncodedTokens(torch.from_numpy(values), torch.from_numpy(scales) if codec.scaled else None)
                wanted = part if codec.kind == "bit1" else unpack_tokens(part, codec)
                own = part_of(stored, first, len(values))
                assert torch.equal(own.values, wanted.values)
                assert (own.scales is None) == (wanted.scales is None)
                assert own.scales is None or wanted.scales is None or torch.equal(own.scales, wanted.scales)


@pytest.mark.parametrize("name", ["float16", "int8", "int4", "bit1"])
def test_rows_are_decoded_from_every_store(name: str, tmp_path: Path) -> None:
    found, arrays = stores(name, 9, tmp_path)
    whole = found["memory"].decode(arrays)
    for store in found.values():
        for rows in ([], [8], [3, 3, 0, 8, 4], range(9)):
            assert torch.equal(store.read(np.array(rows, np.int64)), whole[list(rows)])
        for span in (range(0), range(2, 9), range(8, 9)):
            assert all(map(np.array_equal, store.stored(span), found["memory"].stored(span)))
            assert torch.equal(store.decode(store.stored(span)), whole[span.start : span.stop])
        with pytest.raises(IndexError, match="within 0 to 8"):
            store.read(np.array([0, 9]))


def test_what_overlaps_or_touches_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked = stores("int8", 40, tmp_path)[0]["files"], list[tuple[int, int]]()
    real = os.preadv

    def counted(file: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        asked.append((offset, buffers[0].nbytes))
        return real(file, buffers, offset)

    monkeypatch.setattr(os, "preadv", counted)
    spans = [range(20, 24), range(24, 30), range(3, 5), range(20, 24), range(22, 26), range(5, 5), range(0, 3)]
    store.gather(spans)
    values, scales = 4 * 16, 4 * 2  # bytes per row
    assert asked == [
        (128 + 20 * values, 10 * values),
        (128, 5 * values),
        (128 + 20 * scales, 10 * scales),
        (128, 5 * scales),
    ]


def test_spans_are_joined_in_the_order_of_their_parts() -> None:
    joined, first = join([range(7, 9), range(1, 1), range(0, 2), range(5, 7), range(2, 3), range(0, 1)])
    assert joined == [range(5, 9), range(0, 3)]
    assert first.tolist() == [2, 4, 4, 0, 6, 4]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Index]:
    folder = tmp_path_factory.mktemp("tokens")
    kb, images = write_kb(folder)
    return {tokens: build_index(kb, images, folder / tokens, tokens=tokens) for tokens in BOUNDS}


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
        build_index(kb, images, tmp_path / "out", tokens="int5")
    with pytest.raises(ValueError, match="token codec bit1: the length of a token must be a multiple of 8, got 9"):
        build_index(kb, images, tmp_path / "out", tokens="bit1", fusion=FakeFusion(width=9))
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
    with pytest.raises(ValueError, match=r"tokens was .int8. and is now .float16."):
        build_index(kb, images, both["int8"].folder)


GB = 10**9


@pytest.mark.parametrize(
    ("needed", "free", "reserved", "allocated", "on_gpu"),
    [
        (8 * GB, 16 * GB, 0, 0, True),
        (8 * GB + 1, 16 * GB, 0, 0, False),
        (8 * GB, 2 * GB, 30 * GB, 16 * GB, True),  # 14 GB are PyTorch's, of freed tensors
        (8 * GB, 2 * GB, 30 * GB, 17 * GB, False),
        (490 * GB, 79 * GB, 0, 0, False),
        (0, 0, GB, GB, True),
    ],
)
def test_tokens_are_kept_if_they_take_half_of_what_is_free(
    monkeypatch: pytest.MonkeyPatch, needed: int, free: int, reserved: int, allocated: int, on_gpu: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 80 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: reserved)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: allocated)
    assert Residency.on(torch.device("cuda"), needed).on_gpu is on_gpu


def test_messages() -> None:
    assert str(Residency(490 * GB, 17 * GB)) == (
        "tokens take 490.0 GB, half of the free GPU memory is 8.5 GB: read from disk for each batch"
    )
    assert str(Residency(5 * GB, 17 * GB)) == (
        "tokens take 5.0 GB, half of the free GPU memory is 8.5 GB: kept on the GPU"
    )
    assert str(Residency.on(torch.device("cpu"), 2_500_000)) == "tokens take 2.5 MB: read from disk for each batch"


CPU = torch.device("cpu")


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_arrays_arrive_as_they_were_filled(rows: int) -> None:
    shapes: list[tuple[tuple[int, ...], str]] = [((rows, 5, 3), "int8"), ((rows, 5), "float16"), ((7,), "int64")]
    parcel = Parcel([*shapes, ((2, 0), "uint8")], CPU)
    expected = []
    for number, array in enumerate(parcel.arrays):
        array[...] = np.arange(array.size).reshape(array.shape) + number
        expected.append(array.copy())
    sent = parcel.send()
    assert [tensor.dtype for tensor in sent] == [torch.int8, torch.float16, torch.int64, torch.uint8]
    assert all(tensor.is_contiguous() for tensor in sent)
    assert all(tensor.data_ptr() % 16 == 0 for tensor in sent if tensor.numel())
    for tensor, array in zip(sent, expected, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_an_empty_parcel() -> None:
    assert Parcel([], CPU).send() == []
