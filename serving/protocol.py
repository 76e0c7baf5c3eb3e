"""uvicorn's protocol with what it lacks: limits on slow clients that hold a connection, and on the size of headers."""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from serving.errors import ApiError
from serving.settings import ServingSettings

LONGEST_HEADERS = 64 * 1024
"""Bytes of a request's line and headers."""


def protocol_of(settings: ServingSettings) -> type[asyncio.Protocol]:
    """Returns the protocol for uvicorn's `http`, with the limits `header_timeout_s` and `upload_timeout_s`."""

    class Limited(_TimedProtocol):
        header_s, rest_s = settings.header_timeout_s, settings.upload_timeout_s

    return Limited


class _TimedProtocol(HttpToolsProtocol):
    """Closes connections whose headers are too long or take too long, or the rest of a body that has been answered.

    uvicorn itself limits only the time between two requests, and `intake` the bodies that the application reads.
    """

    header_s: ClassVar[float]
    rest_s: ClassVar[float]
    _clock: asyncio.TimerHandle | None = None
    _begun = False
    _length = 0  # of the headers after the chunk in which they begin

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time of the first headers."""
        super().connection_made(transport)
        self._limit(self.header_s)

    def on_message_begin(self) -> None:
        """Starts the time of the next headers; that of the first runs since the connection was made."""
        super().on_message_begin()
        self._begun, self._length = True, 0
        if self.cycle is not None:
            self._limit(self.header_s)

    def on_headers_complete(self) -> None:
        """Stops the clock, since all headers are there."""
        self._begun = False
        self._unlimit()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Reads data; starts the time of a body's rest, which comes after the answer."""
        self._length += len(data)
        super().data_received(data)
        if self._begun and self._length > LONGEST_HEADERS and not self.transport.is_closing():
            message = f"the headers are longer than {LONGEST_HEADERS} bytes"
            self._end(ApiError(431, "headers_too_long", message))
        if self._clock is None and self.cycle is not None and self.cycle.response_complete:
            self._limit(self.rest_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._unlimit()
        super().connection_lost(exc)

    def _limit(self, seconds: float) -> None:
        self._unlimit()
        self._clock = self.loop.call_later(seconds, self._out_of_time)

    def _unlimit(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _out_of_time(self) -> None:
        self._end(ApiError(408, "upload_timeout", f"the headers took longer than {self.header_s:g} s"))

    def _end(self, error: ApiError) -> None:
        """Closes the connection, after an error if the client waits for an answer."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._begun and not answering:  # else nothing waits for an answer, or this would end up inside of one
            text = json.dumps(error.body()).encode()
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(text)
            self.transport.write(STATUS_LINE[error.status] + head + text)
        self.transport.close()
