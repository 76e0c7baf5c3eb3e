"""An index whose tokens do not fit on the GPU, or do, and one that changes: no batch waits for a transfer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from indexes.live import following
from indexes.live.index import LiveIndex
from indexes.store.row_file import RowFile
from indexes.store.tokens import HostTokens, TokenStore
from retriever.codecs import EncodedTokens, decode_tokens, encode_tokens
from retriever.token_codec import TokenCodec
from retriever.types import StoredTokens
from tests.fakes.live import BASE, World, article, painting
from tests.fakes.models import FakeEncoder
from tests.gpu.conftest import Device

SPANS = [range(5, 8), range(2, 2), range(0, 1), range(5, 8), range(30, 40), range(8, 9)]
GB = 10**9


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many bytes are free on the device."""
    for function in ("memory_reserved", "memory_allocated"):
        monkeypatch.setattr(torch.cuda, function, lambda *_: 0)
    return lambda count: monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (count, count))


@pytest.mark.parametrize("on_gpu", [True, False])
@pytest.mark.parametrize("name", ["float16", "int8", "int4", "bit1", "pool2+int4"])
def test_tokens_are_the_same_on_the_gpu(
    cuda: Device, free: Callable[[int], None], tmp_path: Path, name: str, on_gpu: bool
) -> None:
    codec = TokenCodec.parse(name)
    exact = torch.nn.functional.normalize(torch.randn(40, 4, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    encoded = encode_tokens(exact, codec)
    scales = np.empty((0, 0), np.float16) if encoded.scales is None else encoded.scales.numpy()
    arrays = HostTokens(encoded.values.numpy(), scales)
    np.save(tmp_path / "values.npy", arrays.values)
    np.save(tmp_path / "scales.npy", arrays.scales)
    needed = arrays.values.nbytes + arrays.scales.nbytes
    free(2 * needed - (0 if on_gpu else 1))
    store = TokenStore(codec, RowFile(tmp_path / "values.npy"), RowFile(tmp_path / "scales.npy"), "cuda")
    assert store.residency.on_gpu is on_gpu
    other = store.stored(range(3, 5))
    store.gather(SPANS)  # copies the table of bits to the device, once
    for others in ([], [other]):
        with cuda.counting() as waits:
            found = store.gather(SPANS, others)
        assert not waits
        assert found.values.is_cuda and found.values.is_contiguous() and (found.scales is None or found.scales.is_cuda)
        expected = [exact[span.start : span.stop] for span in (*SPANS, *(range(3, 5) for _ in others))]
        for first, tokens in zip(found.first.tolist(), expected, strict=True):
            own = decode_tokens(encode_tokens(tokens, codec), codec)
            assert torch.equal(decoded(found, first, len(tokens)), own)


def decoded(found: StoredTokens, first: int, count: int) -> torch.Tensor:
    """Returns some of the tokens that MaxSim gets, as float32 in host memory."""
    scales = None if found.scales is None else found.scales[first : first + count]
    unpacked = EncodedTokens(found.values[first : first + count], scales)
    return decode_tokens(unpacked, TokenCodec("float16" if scales is None else "int8")).cpu()


@pytest.mark.parametrize("on_gpu", [True, False])
def test_changes_are_searched_and_read_without_waiting(
    cuda: Device, free: Callable[[int], None], tmp_path: Path, on_gpu: bool
) -> None:
    world = World(tmp_path, BASE)
    editor, expected = world.editor(), world.open()
    world.put(editor, article("a", 1), article("f"), article("g", sections=0))
    assert expected.refresh()
    free(80 * GB if on_gpu else 0)
    index = LiveIndex.open(world.index, device="cuda")
    assert index.residency.on_gpu is on_gpu
    query = FakeEncoder().encode_images([painting(1), painting(2)])
    sent = query.pin_memory().to("cuda", non_blocking=True)
    index.version.base.search(sent, 6)
    with cuda.counting() as of_files:
        index.version.base.search(sent, 6)
    with cuda.counting() as of_all:
        scores, rows = index.search(sent, 6)
    assert len(of_all) == len(of_files)
    reference = expected.search(query, 6)
    np.testing.assert_allclose(scores, reference[0], atol=1e-3)
    assert rows.tolist() == reference[1].tolist()
    spans = [index.token_rows(row) for row in rows.flatten().tolist()]
    with cuda.counting() as waits:
        found = index.gather(spans)
    assert not waits
    wanted = expected.gather(spans)
    for first, other, span in zip(found.first.tolist(), wanted.first.tolist(), spans, strict=True):
        assert torch.equal(decoded(found, first, len(span)), decoded(wanted, other, len(span)))
    assert torch.equal(index.tokens(np.array(spans[0])), expected.tokens(np.array(spans[0])))
    editor.index.close()


def test_only_changes_are_searchable(cuda: Device, tmp_path: Path) -> None:
    """Then no search of files waits until the scores of the changes have been copied."""
    world = World(tmp_path, BASE[:1], candidates="image")
    editor = world.editor()
    editor.remove(["kb/a"])
    assert editor.index.compact()
    world.put(editor, article("f"), article("g"))
    index = LiveIndex.open(world.index, device="cuda")
    query = FakeEncoder().encode_images([painting(1)])
    scores, rows = index.search(query.to("cuda"), 3)
    expected = world.open().search(query, 3)
    assert rows.tolist() == expected[1].tolist() and rows[0, 2] == -1
    np.testing.assert_allclose(scores, expected[0], atol=1e-3)
    editor.index.close()


def test_tokens_move_to_the_gpu_when_those_of_the_old_files_are_gone(
    cuda: Device,
    free: Callable[[int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    held: list[object] = []
    monkeypatch.setattr(following, "hold", held.append)
    monkeypatch.setattr(following, "_FREED", 0.0)
    caplog.set_level(logging.INFO)
    world = World(tmp_path, BASE)
    free(80 * GB)
    reader, editor = LiveIndex.open(world.index, device="cuda"), world.editor()
    assert reader.residency.on_gpu
    free(0)  # the tokens of both do not fit
    world.put(editor, article("f"))
    assert editor.index.compact() and reader.refresh()
    assert not reader.residency.on_gpu
    free(80 * GB)
    earlier = set(threading.enumerate())
    held.clear()
    for thread in set(threading.enumerate()) - earlier:
        thread.join()
    assert reader.residency.on_gpu
    told = [record.getMessage() for record in caplog.records]
    messages = [message for message in told if "half of the free GPU memory" in message]
    assert [message.rpartition(": ")[2] for message in messages] == [
        "kept on the GPU",
        "read from disk for each batch",
        "kept on the GPU",
    ]
    spans = [reader.token_rows(row) for row in reader.rows()]
    assert reader.gather(spans).values.is_cuda
    editor.index.close()
