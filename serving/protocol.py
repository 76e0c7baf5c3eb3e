"""uvicorn's protocol with what it lacks: time limits on clients that send slowly and hold a connection."""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from serving.errors import ApiError
from serving.settings import ServingSettings


def protocol_of(settings: ServingSettings) -> type[asyncio.Protocol]:
    """Returns the protocol for uvicorn's `http`, with the limits `header_timeout_s` and `upload_timeout_s`."""

    class Limited(_TimedProtocol):
        header_s, rest_s = settings.header_timeout_s, settings.upload_timeout_s

    return Limited


class _TimedProtocol(HttpToolsProtocol):
    """Closes connections whose headers take too long, or the rest of a body that has been answered before its end.

    uvicorn itself limits only the time between two requests, and `intake` the bodies that the application reads.
    """

    header_s: ClassVar[float]
    rest_s: ClassVar[float]
    _clock: asyncio.TimerHandle | None = None
    _begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time of the first headers."""
        super().connection_made(transport)
        self._limit(self.header_s)

    def on_message_begin(self) -> None:
        """Starts the time of the next headers; that of the first runs since the connection was made."""
        super().on_message_begin()
        self._begun = True
        if self.cycle is not None:
            self._limit(self.header_s)

    def on_headers_complete(self) -> None:
        """Ends it."""
        self._begun = False
        self._unlimit()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Reads what comes; starts the time of what follows an answer and begins no request."""
        super().data_received(data)
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
        if self._begun:  # else the client has sent nothing that waits for an answer
            error = ApiError(408, "upload_timeout", f"the headers took longer than {self.header_s:g} s")
            text = json.dumps(error.body()).encode()
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(text)
            self.transport.write(STATUS_LINE[error.status] + head + text)
        self.transport.close()
