"""The token store: the fusion encoder's tokens of sections and labeled images, on disk and, if they fit, on a GPU."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from indexes.store.row_file import Rows, read_spans
from retriever.codecs import EncodedTokens, decode_tokens, unpack_tokens
from retriever.token_codec import TokenCodec
from retriever.types import IntArray, StoredTokens
from retriever.wording import gigabytes

_ALIGNED = 128
"""Each array begins at a multiple of this many bytes, which kernels read fastest."""


class Parcel:
    """Arrays in one buffer of host memory, to be filled and then sent.

    Nothing waits for the transfer to a GPU. The buffer is page-locked and belongs to PyTorch's allocator, which reuses
    it only after the transfer.

    Args:
        contents: Shape and dtype of each array.
        device: Where they are sent.

    Attributes:
        arrays: The arrays, uninitialized.
    """

    def __init__(self, contents: Sequence[tuple[Sequence[int], DTypeLike]], device: torch.device) -> None:
        self._device, self._places = device, list[tuple[slice, torch.dtype, Sequence[int]]]()
        end = 0
        for shape, dtype in contents:
            size = math.prod(shape) * np.dtype(dtype).itemsize
            self._places.append((slice(end, end + size), torch.from_numpy(np.empty(0, dtype)).dtype, shape))
            end = -(-(end + size) // _ALIGNED) * _ALIGNED
        if device.type == "cuda":
            self._buffer = torch.empty(end, dtype=torch.uint8, pin_memory=True)
        else:  # NumPy asks the system for huge pages; filling small ones would take several times as long
            self._buffer = torch.from_numpy(np.empty(max(end, 1), np.uint8))
        whole = self._buffer.numpy()
        kinds = (np.dtype(dtype) for _, dtype in contents)
        self.arrays: list[NDArray[np.generic]] = [
            whole[part].view(kind).reshape(shape) for kind, (part, _, shape) in zip(kinds, self._places, strict=True)
        ]

    def send(self) -> list[Tensor]:
        """Starts the transfer and returns the arrays on the device; on a CPU, they share the memory of `arrays`."""
        sent = self._buffer.to(self._device, non_blocking=self._device.type == "cuda")
        return [sent[part].view(dtype).view(tuple(shape)) for part, dtype, shape in self._places]


class HostTokens(NamedTuple):
    """Tokens in host memory, as stored.

    Attributes:
        values: [R, M, W].
        scales: Float16 [R, M], or [0, 0] for a codec without scales.
    """

    values: NDArray[Any]
    scales: NDArray[np.float16]


class TokenStore:
    """Tokens by row; a row is a section or an image. Thread-safe.

    If the device is a GPU, all tokens are kept on it as stored, provided they fit. Otherwise the rows of each batch are
    read from the files at the same time and sent to it in one transfer, for which nothing waits. Values smaller than a
    byte are unpacked there, only for the rows of the batch; on a CPU, MaxSim reads packed signs directly.

    Args:
        codec: How the tokens are stored.
        values: Of `codec.dtype`, [R, M, W].
        scales: Float16 [R, M] for a codec with scales; ignored otherwise.
        device: The device for MaxSim.

    Attributes:
        residency: Where the tokens are, and why.
    """

    def __init__(self, codec: TokenCodec, values: Rows, scales: Rows, device: torch.device | str = "cpu") -> None:
        self._codec, self._device = codec, torch.device(device)
        self._sources = [values, scales] if codec.scaled else [values]
        self._resident: EncodedTokens | None = None
        self._settling = threading.Lock()
        self.residency = Residency(0)
        self.settle()

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._sources[0])

    def settle(self) -> None:
        """Moves the tokens to the GPU if they fit; to be repeated after some of its memory was freed."""
        with self._settling:
            if self._resident is not None:
                return
            residency = Residency.on(self._device, sum(source.nbytes for source in self._sources))
            if residency.on_gpu:
                self._resident = _encoded([copied(source, self._device) for source in self._sources])
            self.residency = residency

    def gather(self, spans: Sequence[range], others: Sequence[HostTokens] = ()) -> StoredTokens:
        """Returns the tokens of spans of rows, ready for MaxSim, and where each span begins.

        Spans that overlap or touch are read once.

        Args:
            spans: Rows of the store.
            others: Tokens that are not in the store. They follow those of the spans, also in `StoredTokens.first`.
        """
        kept = self._resident
        if kept is not None and not self._codec.packed and not others:
            starts = np.array([span.start for span in spans], np.int64)
            return StoredTokens(kept.values, kept.scales, starts)  # MaxSim reads the rows in place
        joined, first = join(spans)
        found = self._sent(joined, others, kept)
        if self._codec.kind != "bit1" or self._device.type != "cpu":
            found = unpack_tokens(found, self._codec)
        ends = np.cumsum([sum(map(len, joined)), *(len(one.values) for one in others)], dtype=np.int64)
        return StoredTokens(found.values, found.scales, np.concatenate([first, ends[:-1]]))

    def stored(self, rows: range) -> HostTokens:
        """Returns tokens as stored."""
        values, *scales = self._read([rows])
        return HostTokens(values, *(scales or [np.empty((0, 0), np.float16)]))

    def read(self, rows: IntArray) -> Tensor:
        """Returns the tokens at `rows`, float32 [len(rows), M, H].

        Raises:
            IndexError: A row is out of range.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"token rows must be within 0 to {len(self) - 1}")
        joined, places = join([range(row, row + 1) for row in rows.tolist()])
        return self._decoded([array[places] for array in self._read(joined)])

    def decode(self, tokens: HostTokens) -> Tensor:
        """Returns tokens that are stored like those of this store as float32 [R, M, H]."""
        return self._decoded(tokens[: len(self._sources)])

    def _decoded(self, arrays: Sequence[NDArray[Any]]) -> Tensor:
        return decode_tokens(_encoded([torch.from_numpy(array) for array in arrays]), self._codec)

    def _read(self, spans: Sequence[range]) -> list[NDArray[Any]]:
        """Returns the rows of spans, end to end, from each of the sources."""
        count = sum(map(len, spans))
        arrays = [np.empty((count, *source.shape[1:]), source.dtype) for source in self._sources]
        read_spans([(source, spans, into) for source, into in zip(self._sources, arrays, strict=True)])
        return arrays

    def _sent(self, spans: Sequence[range], others: Sequence[HostTokens], kept: EncodedTokens | None) -> EncodedTokens:
        """Returns the tokens of spans, then others, on the device, after one transfer.

        Of tokens that are on the device, only their rows are sent.
        """
        sent = spans if kept is None else []
        start = sum(map(len, sent))
        total = start + sum(len(one.values) for one in others)
        contents = [((total, *source.shape[1:]), source.dtype) for source in self._sources]
        rows = [np.empty(0, np.int64), *(np.arange(span.start, span.stop) for span in spans if kept is not None)]
        parcel = Parcel([*contents, ((sum(map(len, rows)),), np.dtype(np.int64))], self._device)
        *arrays, places = parcel.arrays
        np.concatenate(rows, out=places)
        read_spans([(source, sent, into[:start]) for source, into in zip(self._sources, arrays, strict=True)])
        for one in others:
            part = slice(start, start := start + len(one.values))
            for into, values in zip(arrays, one, strict=False):  # without scales, if the codec has none
                into[part] = values
        *found, chosen = parcel.send()
        if kept is None:
            return _encoded(found)
        resident = [kept.values] if kept.scales is None else [kept.values, kept.scales]
        return _encoded([torch.cat([one[chosen], more]) for one, more in zip(resident, found, strict=True)])


def join(spans: Sequence[range]) -> tuple[list[range], IntArray]:
    """Joins spans that overlap or touch.

    Returns:
        The joined spans, in the order in which the first part of each occurs, and where each of `spans` begins if they
        are laid end to end, int64.
    """
    parts: list[range] = []
    for span in sorted({span for span in spans if span}, key=lambda span: span.start):
        if parts and span.start <= parts[-1].stop:
            parts[-1] = range(parts[-1].start, max(parts[-1].stop, span.stop))
        else:
            parts.append(span)
    starts = [part.start for part in parts]
    joined: list[range] = []
    places, end, first = dict[int, int](), 0, list[int]()
    for span in spans:
        if not span:
            first.append(end)
            continue
        part = parts[bisect_right(starts, span.start) - 1]
        if part.start not in places:
            joined.append(part)
            places[part.start], end = end, end + len(part)
        first.append(places[part.start] + span.start - part.start)
    return joined, np.array(first, np.int64)


def copied(source: Rows, device: torch.device, rows: int = 1024) -> Tensor:
    """Copies an array to a device, [R, ...], holding only `rows` rows at a time in host memory.

    Args:
        source: [R, ...], in memory or in a file.
        device: The device.
        rows: Rows per transfer.
    """
    block = np.empty((min(rows, len(source)), *source.shape[1:]), source.dtype)
    whole = torch.empty(source.shape, dtype=torch.from_numpy(block).dtype, device=device)
    for start in range(0, len(source), rows):
        span = range(start, min(start + rows, len(source)))
        read_spans([(source, [span], block[: len(span)])])
        whole[start : span.stop].copy_(torch.from_numpy(block[: len(span)]))
    return whole


def _encoded(arrays: Sequence[Tensor]) -> EncodedTokens:
    """Returns values, and scales if there are any."""
    return EncodedTokens(arrays[0], arrays[1] if len(arrays) > 1 else None)


class Residency(NamedTuple):
    """Where tokens are and why; as text, a message for people.

    Attributes:
        needed: Bytes that the tokens take.
        free: Bytes of GPU memory that this process can allocate; `None` if the device is a CPU.
    """

    needed: int
    free: int | None = None

    @classmethod
    def on(cls, device: torch.device, needed: int) -> Self:
        """Returns the residency of tokens on a device as it is now."""
        if device.type != "cuda":
            return cls(needed)
        reused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # PyTorch's, of freed tensors
        return cls(needed, torch.cuda.mem_get_info(device)[0] + reused)

    @property
    def on_gpu(self) -> bool:
        """Whether the tokens are kept on the GPU: they take at most half of the free memory; batches need some, too."""
        return self.free is not None and self.needed <= self.free // 2

    def __str__(self) -> str:
        """Returns a message like "tokens take 490.0 GB, half of the free GPU memory is 8.5 GB: read from disk …"."""
        half = "" if self.free is None else f", half of the free GPU memory is {gigabytes(self.free // 2)}"
        place = "kept on the GPU" if self.on_gpu else "read from disk for each batch"
        return f"tokens take {gigabytes(self.needed)}{half}: {place}"
