"""The token store: the fusion encoder's tokens of sections and labeled images, on disk and, if they fit, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retriever.codecs import EncodedTokens, decode_tokens, unpack_tokens
from retriever.token_codec import TokenCodec
from retriever.types import IntArray, StoredTokens


class TokenStore:
    """Tokens by row; a row is a section or an image. Thread-safe.

    If the device is a GPU, all tokens are kept on it as stored, provided they take at most half of the memory that is
    free when the store is opened. Otherwise the rows of each batch are read from the memory-mapped files and sent to
    it. Values smaller than a byte are unpacked there, only for the rows of the batch; on a CPU, MaxSim reads packed
    signs directly.

    Args:
        codec: How the tokens are stored.
        values: Of `codec.dtype`, [R, M, W].
        scales: Float16 [R, M] for a codec with scales; ignored otherwise.
        device: The device for MaxSim.
    """

    def __init__(
        self,
        codec: TokenCodec,
        values: NDArray[Any],
        scales: NDArray[np.float16],
        device: torch.device | str = "cpu",
    ) -> None:
        self._codec, self._device = codec, torch.device(device)
        self._values, self._scales = values, scales if codec.scaled else None
        self._resident: EncodedTokens | None = None
        if self._device.type == "cuda" and values.nbytes <= torch.cuda.mem_get_info(self._device)[0] // 2:
            self._resident = self._loaded(lambda array: copied(array, self._device))

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns the tokens of spans of rows, ready for MaxSim, and where each span begins."""
        kept, starts = self._resident, np.array([span.start for span in spans], np.int64)
        if kept is not None and not self._codec.packed:
            return StoredTokens(kept.values, kept.scales, starts)  # MaxSim reads the rows in place
        if kept is None:
            parts = [slice(span.start, span.stop) for span in spans]
            found = self._loaded(
                lambda array: self._sent(np.concatenate([array[:0], *(array[part] for part in parts)]))
            )
        else:
            rows = self._sent(np.array([row for span in spans for row in span], np.int64))
            found = EncodedTokens(kept.values[rows], None if kept.scales is None else kept.scales[rows])
        if self._codec.kind != "bit1" or self._device.type != "cpu":
            found = unpack_tokens(found, self._codec)
        first = np.cumsum([0, *(len(span) for span in spans)], dtype=np.int64)[:-1]
        return StoredTokens(found.values, found.scales, first)

    def stored(self, rows: range) -> tuple[NDArray[Any], NDArray[np.float16]]:
        """Returns tokens as stored: values [len(rows), M, W] and scales [len(rows), M], or [0, 0] without scales."""
        part = slice(rows.start, rows.stop)
        return self._values[part], np.empty((0, 0), np.float16) if self._scales is None else self._scales[part]

    def read(self, rows: IntArray) -> Tensor:
        """Returns the tokens at `rows`, float32 [len(rows), M, H].

        Raises:
            IndexError: A row is out of range.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self._values):
            raise IndexError(f"token rows must be within 0 to {len(self._values) - 1}")
        return decode_tokens(self._loaded(lambda array: torch.from_numpy(array[rows])), self._codec)

    def _loaded(self, load: Callable[[NDArray[Any]], Tensor]) -> EncodedTokens:
        return EncodedTokens(load(self._values), None if self._scales is None else load(self._scales))

    def _sent(self, array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(array)
        if self._device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self._device, non_blocking=True)


def copied(array: NDArray[Any], device: torch.device, rows: int = 1024) -> Tensor:
    """Copies an array to a device, [R, ...], holding only `rows` rows at a time in host memory.

    Args:
        array: [R, ...], memory-mapped or not.
        device: The device.
        rows: Rows per transfer.
    """
    whole = torch.empty(array.shape, dtype=torch.from_numpy(array[:0].copy()).dtype, device=device)
    for start in range(0, len(array), rows):
        whole[start : start + rows].copy_(torch.from_numpy(np.array(array[start : start + rows])))
    return whole
