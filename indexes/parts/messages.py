"""What a front and the parts of an index say to each other: Arrow's streams of one table (extra `parts`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.extras import optional

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
_VALUES = b"values"


class Message(NamedTuple):
    """A table with some values besides.

    Attributes:
        columns: Its columns: arrays [rows] or [rows, width], or lists of bytes and `None`.
        values: The other values, as in JSON.
    """

    columns: Mapping[str, Any]
    values: Mapping[str, Any]


def write(columns: Mapping[str, NDArray[Any] | Sequence[bytes | None]], **values: Any) -> bytes:
    """Returns a message, see `Message`."""
    arrow = _arrow()
    arrays = {name: _array(arrow, column) for name, column in columns.items()}
    schema = arrow.schema([(name, array.type) for name, array in arrays.items()])
    schema = schema.with_metadata({_VALUES: json.dumps(values).encode()})
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(arrow.RecordBatch.from_arrays([*arrays.values()], schema=schema))
    return bytes(sink.getvalue())


def read(content: bytes) -> Message:
    """Returns a message; arrays share the memory of `content`.

    Raises:
        ValueError: It is none.
    """
    arrow = _arrow()
    try:
        with arrow.ipc.open_stream(content) as stream:
            batch = stream.read_next_batch()
        columns = {name: _values(batch.column(name)) for name in batch.schema.names}
        return Message(columns, json.loads(batch.schema.metadata[_VALUES]))
    except (arrow.ArrowInvalid, StopIteration, KeyError, TypeError) as error:
        raise ValueError(f"not a message of an index in parts: {error!r}") from error


def _array(arrow: Any, column: NDArray[Any] | Sequence[bytes | None]) -> Any:
    if not isinstance(column, np.ndarray):
        return arrow.array(column, arrow.large_binary())
    if column.ndim == 1:
        return arrow.array(column)
    return arrow.FixedSizeListArray.from_arrays(arrow.array(column.reshape(-1)), column.shape[1])


def _values(array: Any) -> Any:
    if hasattr(array.type, "list_size"):
        return array.flatten().to_numpy().reshape(len(array), array.type.list_size)
    if array.type.equals(_arrow().large_binary()):
        return [value.as_py() for value in array]
    return array.to_numpy()


def _arrow() -> Any:
    return optional("pyarrow", "parts", "an index in parts")
