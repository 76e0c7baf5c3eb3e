"""The token store: the fusion encoder's tokens of every section, on disk and, if they fit, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retriever.quantize import dequantize
from retriever.types import IntArray, StoredTokens

TokenType = Literal["float16", "int8"]
"""How tokens are stored: 32 tokens of length 768 take 48 KiB per section as float16, 24.1 KiB as int8 with scales."""


class TokenStore:
    """Tokens by section row, readable from any number of threads.

    With a GPU as the device, all tokens are kept on it if they take at most half of the memory that is free when the
    store is opened. Otherwise the sections of each batch are read from the memory-mapped files and sent to it.

    Args:
        values: [R, M, H], float16 or int8.
        scales: Float16 [R, M] for int8; ignored otherwise.
        device: Where tokens are compared.
    """

    def __init__(self, values: NDArray[Any], scales: NDArray[np.float16], device: torch.device | str = "cpu") -> None:
        self._values, self._device = values, torch.device(device)
        self._scales = scales if values.dtype == np.int8 else None
        self._resident: StoredTokens | None = None
        if self._device.type == "cuda" and values.nbytes <= torch.cuda.mem_get_info(self._device)[0] // 2:
            self._resident = self._loaded()

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns the tokens of spans of rows, and where each span begins."""
        if self._resident is not None:
            first = np.array([span.start for span in spans], np.int64)
            return StoredTokens(self._resident.values, self._resident.scales, first)
        lengths = np.array([0, *(len(span) for span in spans)], np.int64)
        found = self._on_device([slice(span.start, span.stop) for span in spans])
        return StoredTokens(found.values, found.scales, np.cumsum(lengths)[:-1])

    def read(self, rows: IntArray) -> Tensor:
        """Returns the tokens at `rows`, float32 [len(rows), M, H].

        Raises:
            IndexError: A row is out of range.
        """
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self._values):
            raise IndexError(f"token rows must be within 0 to {len(self._values) - 1}")
        values = torch.from_numpy(self._values[rows])
        if self._scales is None:
            return values.float()
        return dequantize(values, torch.from_numpy(self._scales[rows]))

    def _loaded(self) -> StoredTokens:
        scales = None if self._scales is None else copied(self._scales, self._device)
        return StoredTokens(copied(self._values, self._device), scales, np.zeros(0, np.int64))

    def _on_device(self, parts: Sequence[slice]) -> StoredTokens:
        scales = None if self._scales is None else self._send(self._scales, parts)
        return StoredTokens(self._send(self._values, parts), scales, np.zeros(0, np.int64))

    def _send(self, array: NDArray[Any], parts: Sequence[slice]) -> Tensor:
        gathered = torch.from_numpy(np.concatenate([array[part] for part in parts] or [array[:0]]))
        if self._device.type == "cuda":
            gathered = gathered.pin_memory()
        return gathered.to(self._device, non_blocking=True)


def copied(array: NDArray[Any], device: torch.device, rows: int = 1024) -> Tensor:
    """Copies an array to a device, [R, ...]; only `rows` rows at a time pass through the host's memory.

    Args:
        array: [R, ...], memory-mapped or not.
        device: The device.
        rows: Rows per transfer.
    """
    whole = torch.empty(array.shape, dtype=torch.from_numpy(array[:0].copy()).dtype, device=device)
    for start in range(0, len(array), rows):
        whole[start : start + rows].copy_(torch.from_numpy(np.array(array[start : start + rows])))
    return whole
