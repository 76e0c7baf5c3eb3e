"""Discards what a client still sends although nobody reads it, without copying it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

WORTH_BYTES = 256 * 1024
"""Bytes from which this costs less than reading them as usual."""
_BUFFER = bytearray(2**20)  # Linux discards bytes without writing them here; other systems may write them


class Discard:
    """Reads a number of bytes from a connection whose transport does not read meanwhile.

    A photograph of 3 MB would be copied three times by the event loop and the parser, at five times the cost of a
    refusal. Linux discards without copying (`MSG_TRUNC`), but only through the socket, of which this has a duplicate,
    because event loops reserve a transport's own.

    Args:
        loop: The event loop.
        source: The connection's socket.
        count: The number of bytes.
        done: Called when they have been read: with `True`, or with `False` if the connection has ended before.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, source: socket.socket, count: int, done: Callable[[bool], None]
    ) -> None:
        self._loop, self._left, self._done = loop, count, done
        self._socket = socket.fromfd(source.fileno(), source.family, source.type)
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._read)

    @property
    def closed(self) -> bool:
        """Whether it has stopped reading."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Stops reading."""
        if not self.closed:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _read(self) -> None:
        try:
            count = self._socket.recv_into(_BUFFER, min(self._left, len(_BUFFER)), socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        self._left -= count
        if not count or not self._left:
            self.close()
            self._done(count > 0)
