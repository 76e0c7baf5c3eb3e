"""uvicorn's protocol with what it lacks: limits on slow clients and on the size of headers, and refusals by headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any, ClassVar, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.utils import is_ssl

from serving.body import LINGER_BYTES, LINGER_S, declared_length
from serving.errors import ApiError
from serving.overload import Overload
from serving.settings import ServingSettings

LONGEST_HEADERS = 64 * 1024
"""Bytes of a request's line and headers."""
KEEP_ALIVE_S = 75
"""Seconds that a connection is kept without a request. A client or proxy that thinks it open for longer loses the
request that it sends as it closes, and many keep theirs for a minute."""


def protocol_of(settings: ServingSettings, overload: Overload | None = None) -> type[asyncio.Protocol]:
    """Returns the protocol for uvicorn's `http`.

    Args:
        settings: Its limits `header_timeout_s` and `upload_timeout_s` apply.
        overload: Decides which requests are refused by their headers; `None` refuses none.
    """

    class Limited(_LimitedProtocol):
        header_s, rest_s = settings.header_timeout_s, settings.upload_timeout_s

    Limited.overload = overload
    return Limited


def _address(name: object) -> tuple[str, int | None] | None:
    """Returns the host and port, or the path, of what asyncio calls a `sockname` or `peername`."""
    if isinstance(name, tuple | list):
        return str(name[0]), int(name[1])
    return (name, None) if isinstance(name, str) and name else None


class _LimitedProtocol(HttpToolsProtocol):
    """Closes connections whose headers are too long or take too long, or the rest of a body that has been answered.

    uvicorn itself limits only the time between two requests, and `intake` the bodies that the application reads.
    """

    header_s: ClassVar[float]
    rest_s: ClassVar[float]
    overload: ClassVar[Overload | None]
    _clock: asyncio.TimerHandle | None = None
    _begun = False
    _length = 0  # of the headers after the chunk in which they begin
    _refused = False  # the request whose body comes now
    _last = False  # and that the connection ends with it
    _thrown = 0  # bytes of its body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time of the first headers.

        The rest is what uvicorn does, except that uvicorn asks the socket for both addresses. Each of these calls
        releases Python's lock, and while models run it takes a while to get it back: a third of a refusal's time.
        """
        self.connections.add(self)
        self.transport, self.flow = transport, FlowControl(transport)
        self.server = _address(transport.get_extra_info("sockname"))
        self.client = cast(tuple[str, int] | None, _address(transport.get_extra_info("peername")))
        self.scheme = "https" if is_ssl(transport) else "http"
        self._limit(self.header_s)

    def on_message_begin(self) -> None:
        """Starts the time of the next headers; that of the first runs since the connection was made."""
        super().on_message_begin()
        self._unset_keepalive_if_required()  # a refused request may have ended in the same chunk
        if self._refused or self.cycle is not None:
            self._limit(self.header_s)
        self._begun, self._refused, self._length = True, False, 0

    def on_headers_complete(self) -> None:
        """Stops the clock, since all headers are there; the application sees the request unless it is refused."""
        if self.parser.should_upgrade():
            return
        self._check_host()
        self._begun = False
        self._unlimit()
        if self.overload is None or not self._idle():
            super().on_headers_complete()
            return
        self.scope["method"] = self.parser.get_method().decode("ascii")
        path = self.url.partition(b"?")[0].decode("latin-1")
        if refusal := self.overload.refuse_by_headers(self._scope(), path):
            self._refuse(refusal)
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body, which is thrown away if the request was refused."""
        if not self._refused:
            super().on_body(body)
            return
        self._thrown += len(body)
        if self._thrown > LINGER_BYTES:
            self.transport.close()

    def on_message_complete(self) -> None:
        """Ends a request; one that was refused closes its connection unless that is kept."""
        if self.parser.should_upgrade():
            return
        if not self._refused:
            super().on_message_complete()
        elif self._last:
            self.transport.close()
        else:
            self._unlimit()
            self.on_response_complete()  # starts the time until the next request

    def data_received(self, data: bytes) -> None:
        """Reads data; starts the time of a body's rest, which comes after the answer."""
        self._length += len(data)
        self._parse(memoryview(data))
        if self._begun and self._length > LONGEST_HEADERS and not self.transport.is_closing():
            message = f"the headers are longer than {LONGEST_HEADERS} bytes"
            self._end(ApiError(431, "headers_too_long", message))
        if self._clock is None and self.cycle is not None and self.cycle.response_complete and not self._refused:
            self._limit(self.rest_s)

    def _parse(self, data: memoryview) -> None:
        """Feeds the parser as uvicorn does, but ignores upgrades, as RFC 9110 (section 7.8) permits.

        The parser ends after the headers of a request that asks for one, and takes its body for the other protocol. So
        another parser gets the headers again, without the header Upgrade; the callbacks pass over the first time.
        """
        self._unset_keepalive_if_required()
        try:
            while data:
                try:
                    self.parser.feed_data(data)
                    return
                except httptools.HttpParserUpgrade as upgrade:
                    data, head = data[upgrade.args[0] :], self._head_without_upgrade()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
                self.parser.feed_data(head)
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback raised
            message = cause.message if isinstance(cause, ApiError) else "Invalid HTTP request received."
            self.logger.warning(message)
            self.send_400_response(message)

    def _check_host(self) -> None:
        """Checks that the request names one host, as RFC 9112 (section 3.2) asks of a server.

        Raises:
            ApiError: 400 if it names several, or none in HTTP/1.1.
        """
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise ApiError(400, "malformed_http", f"a request must have one Host header, got {hosts}")

    def _head_without_upgrade(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":  # asks for another protocol by itself
            raise httptools.HttpParserInvalidMethodError("CONNECT is for proxies")
        lines = [b"%s %s HTTP/%s\r\n" % (method, self.url, version)]
        lines += [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        return b"".join([*lines, b"\r\n"])

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP in the shape of all errors, unless an answer has begun; closes the connection."""
        if self._idle() and not self._last and not self.transport.is_closing():
            self._write(ApiError(400, "malformed_http", msg), close=True)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._unlimit()
        super().connection_lost(exc)

    def _scope(self) -> MutableMapping[str, Any]:
        return cast(MutableMapping[str, Any], self.scope)  # uvicorn has a type of its own

    def _idle(self) -> bool:
        """Returns whether no earlier request of this connection is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _refuse(self, error: ApiError) -> None:
        """Answers in the application's place; what comes of the body is thrown away, as `serving.body.refuse` does."""
        kept = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        # A client that asks before it sends its body (Expect) may leave it out now, or send it nevertheless.
        kept = kept and not self.expect_100_continue and declared_length(self._scope()) <= LINGER_BYTES
        self._refused, self._last, self._thrown = True, not kept, 0
        self._write(error, close=self._last)
        self._limit(LINGER_S if self._last else self.rest_s)

    def _write(self, error: ApiError, close: bool) -> None:
        text = json.dumps(error.body()).encode()
        lines = [STATUS_LINE[error.status]]
        lines += [b"%s: %s\r\n" % header for header in self.server_state.default_headers]
        lines += [b"%s: %s\r\n" % (name.lower().encode(), value.encode()) for name, value in error.headers.items()]
        lines += [b"content-type: application/json\r\ncontent-length: %d\r\n" % len(text)]
        lines += [b"connection: close\r\n\r\n" if close else b"\r\n", text]
        self.transport.write(b"".join(lines))

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
        if self._begun and self._idle():  # else nothing waits for an answer, or this would end up inside of one
            self._write(error, close=True)
        self.transport.close()
