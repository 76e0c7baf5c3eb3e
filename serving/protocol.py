"""Extends uvicorn's protocol: limits slow clients and the size of headers, and refuses requests by their headers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any, ClassVar, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import is_ssl

from serving.body import LINGER_BYTES, LINGER_S, declared_length
from serving.discard import WORTH_BYTES, Discard
from serving.endings import ClosingTransport, end_with_connection
from serving.errors import ApiError, late_upload
from serving.overload import WORK, Overload
from serving.settings import ServingSettings

LONGEST_HEADERS = 64 * 1024
"""Maximum bytes of a request's line and headers, and of the framing between and after the chunks of a body."""
FIRST_BYTES = 16 * 1024
"""Bytes of a longer body that must have arrived before the application is asked, and so for a place in the queue."""
KEEP_ALIVE_S = 75
"""Seconds that an idle connection is kept open: longer than many clients and proxies keep theirs (a minute), because a
request that is sent while the connection closes is lost."""


def protocol_of(settings: ServingSettings, overload: Overload | None = None) -> type[asyncio.Protocol]:
    """Returns the protocol for uvicorn's `http`.

    Args:
        settings: Uses `header_timeout_s` and `upload_timeout_s`.
        overload: Decides which requests are refused by their headers; `None` refuses none.
    """

    class Limited(_LimitedProtocol):
        header_s, rest_s = settings.header_timeout_s, settings.upload_timeout_s

    Limited.overload = overload
    return Limited


def _address(name: object) -> tuple[str, int | None] | None:
    """Returns the host and port, or the path, of asyncio's `sockname` or `peername`."""
    if isinstance(name, tuple | list):
        return str(name[0]), int(name[1])
    return (name, None) if isinstance(name, str) and name else None


class _LimitedProtocol(HttpToolsProtocol):
    """Closes connections with too long or too slow headers, with a slow rest of a body, or with an unread response.

    uvicorn itself limits only the time between two requests, and `intake` limits only bodies that the application
    reads. The rest of a body is what arrives after its request has been answered.

    A client that is still sending gets its response whatever ends the connection. Closing a connection with unread
    bytes would reset it, so the service closes only its own side after the response, and discards what it receives
    until the client closes the other (RFC 9112, section 9.6).
    """

    header_s: ClassVar[float]
    rest_s: ClassVar[float]
    overload: ClassVar[Overload | None]
    _clock: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _begun = False  # whether headers are being read
    _length = 0  # bytes since the headers began, or since the last piece of a body that is read
    _refused = False  # whether the incoming body belongs to a refused request
    _rest = 0  # bytes of the incoming body that have not arrived yet; negative if unknown
    _left: int | None = None  # bytes that may still come once everything is discarded; `None` before
    _discard: Discard | None = None
    _takes_place = False  # whether the incoming request is one for the models
    _held: tuple[RequestResponseCycle, ASGI3Application] | None = None  # a request of which too little has arrived

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time until the first headers begin.

        Otherwise the same as in uvicorn, except that uvicorn asks the socket for both addresses. Each of these calls
        releases Python's lock, and regaining it takes a while when models run: a third of the time of a refusal.
        """
        self.connections.add(self)
        self._unanswered: deque[RequestResponseCycle] = deque()  # the first is being answered
        self.transport, self.flow = transport, FlowControl(transport)
        self.server = _address(transport.get_extra_info("sockname"))
        self.client = cast(tuple[str, int] | None, _address(transport.get_extra_info("peername")))
        self.scheme = "https" if is_ssl(transport) else "http"
        self._limit(self.header_s)

    def on_message_begin(self) -> None:
        """Starts the time of the headers."""
        super().on_message_begin()
        self._unset_keepalive_if_required()  # a refused request may have ended in the same chunk
        self._limit(self.header_s)
        self._begun, self._refused, self._length = True, False, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Stores a header; ignores trailers, which come after the body (RFC 9110, section 6.5.1)."""
        if self._begun:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stops the clock, and passes the request to the application unless it is refused."""
        if self.parser.should_upgrade():
            return
        self._check_headers()
        self._unlimit()
        scope = cast(MutableMapping[str, Any], self.scope)  # uvicorn has its own type
        self._rest = declared_length(scope)
        scope["method"] = self.parser.get_method().decode("ascii")
        path = self.url.partition(b"?")[0].decode("latin-1")
        self._takes_place = scope["method"] == "POST" and path in WORK
        decides = self.overload if self._takes_place and self._idle() else None
        if decides is not None and (refusal := decides.refuse_by_headers(scope, path)):
            self._refuse(refusal)
        if not self._refused:
            self._pass_on()
        self._begun, self._length = False, 0

    def on_body(self, body: bytes) -> None:
        """Passes on a part of the body, or discards it if the request was refused."""
        self._rest -= len(body)
        if not self._refused:
            self._length = 0
            super().on_body(body)
            self._start_held()

    def on_message_complete(self) -> None:
        """Ends a request."""
        if self.parser.should_upgrade():
            return
        self._length = 0
        if not self._refused:
            super().on_message_complete()
            self._start_held()
        else:
            self._unlimit()
            self.on_response_complete()  # starts the time until the next request

    def data_received(self, data: bytes) -> None:
        """Parses data, or discards it; starts the time of the rest of a body after its request has been answered."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self.transport.close()
            return
        self._length += len(data)
        self._parse(memoryview(data))
        if self._length > (LINGER_BYTES if self._refused else LONGEST_HEADERS):
            self._end(_too_long())
        if self._clock is None and self.cycle is not None and self.cycle.response_complete and not self._refused:
            self._limit(self.rest_s)
        if self._idle() and self._left is None:  # nobody reads the rest of a body
            self._skip(self._rest, self._skipped)

    def _parse(self, data: memoryview) -> None:
        """Feeds the parser as uvicorn does, but ignores upgrades, as RFC 9110 (section 7.8) permits.

        The parser stops after the headers of a request that asks for an upgrade, and takes the body for the other
        protocol. So a new parser gets the headers again without `Upgrade`; the callbacks ignore the first pass.
        """
        self._unset_keepalive_if_required()
        try:
            while data:
                try:
                    self.parser.feed_data(data)
                    return
                except httptools.HttpParserUpgrade as upgrade:
                    data, head = data[upgrade.args[0] :], self._head_without_upgrade()
                self._renew_parser()
                self.parser.feed_data(head)
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback raised
            if not isinstance(cause, ApiError):
                cause = ApiError(400, "malformed_http", "Invalid HTTP request received.")
                self.logger.warning(cause.message)
            self._end(cause)

    def _renew_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def _skip(self, count: int, done: Callable[[bool], None]) -> None:
        """Discards the rest of a body if that is cheaper than reading it; the parser does not see it."""
        if self._rest < WORTH_BYTES or self.scheme == "https" or self.transport.is_closing():
            return
        if source := self.transport.get_extra_info("socket"):
            self.flow.pause_reading()
            self._discard = Discard(self.loop, source, count, done)

    def _skipped(self, complete: bool) -> None:
        """Continues behind a body that has been discarded."""
        if not complete:
            self.transport.close()
            return
        self._rest = 0
        self._renew_parser()
        self.flow.resume_reading()
        self.on_message_complete()

    def _check_headers(self) -> None:
        """Checks the length of the headers, and that they name one host, as RFC 9112 (section 3.2) requires.

        Raises:
            ApiError: 431 if they are too long, 400 if they name several hosts, or none in HTTP/1.1.
        """
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > LONGEST_HEADERS:
            raise _too_long()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise ApiError(400, "malformed_http", f"a request must have one Host header, got {hosts}")

    def _head_without_upgrade(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":  # implies another protocol
            raise httptools.HttpParserInvalidMethodError("CONNECT is for proxies")
        lines = [b"%s %s HTTP/%s\r\n" % (method, self.url, version)]
        lines += [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        return b"".join([*lines, b"\r\n"])

    def pause_writing(self) -> None:
        """Starts the time in which the client has to read, because the connection's buffer is full."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.rest_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stops the time in which the client has to read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clocks, and notifies the requests that are being answered."""
        self._unlimit()
        if self._discard is not None:
            self._discard.close()
        self.resume_writing()
        self._disconnect()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Continues with the next request."""
        if self._unanswered and self._unanswered[0].response_complete:
            self._unanswered.popleft()
        super().on_response_complete()

    def _idle(self) -> bool:
        """Returns whether no earlier request of this connection is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Starts the application, but waits for the body to arrive: a client that hardly sends must hold no place."""
        if self._takes_place and cycle.more_body and not cycle.waiting_for_100_continue:
            self._held = cycle, app
            self._limit(self.rest_s, lambda: self._end(late_upload(self.rest_s)))
            self._start_held()
        else:
            super()._start_asgi_task(cycle, app)

    def _start_held(self) -> None:
        if self._held is not None and not (self._held[0].more_body and len(self._held[0].body) < FIRST_BYTES):
            held, self._held = self._held, None
            self._unlimit()
            super()._start_asgi_task(*held)

    def _pass_on(self) -> None:
        """Hands the request to the application, which starts at the event loop's next turn."""
        super().on_headers_complete()
        self._unanswered.append(cycle := self.cycle)
        cycle.transport = cast(asyncio.Transport, ClosingTransport(self.transport, partial(self._close_after, cycle)))
        if self.parser.get_http_version() == "1.0":
            end_with_connection(cycle)

    def _close_after(self, cycle: RequestResponseCycle) -> None:
        """Closes the connection after an answer, but first lets the client finish if it may still be sending."""
        if (cycle.more_body or self._left is not None) and not self.transport.is_closing():
            self._linger()
        else:
            self.transport.close()

    def _refuse(self, error: ApiError) -> None:
        """Answers instead of the application, and discards the body as it arrives, as `serving.body.refuse` does.

        Raises:
            ApiError: `error`, if the connection cannot be kept after it.
        """
        kept = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        # A client that sent `Expect: 100-continue` may now omit its body, or send it anyway.
        if not kept or self.expect_100_continue or self._rest > LINGER_BYTES:
            raise error
        self._refused = True
        self._write(error, close=False)
        self._limit(self.rest_s)

    def _write(self, error: ApiError, close: bool) -> None:
        headers, text = error.raw()
        headers += [(b"connection", b"close")] if close else []
        lines = [b"%s: %s\r\n" % header for header in (*self.server_state.default_headers, *headers)]
        self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"\r\n", text]))

    def _limit(self, seconds: float, call: Callable[[], None] | None = None) -> None:
        self._unlimit()
        self._clock = self.loop.call_later(seconds, call or self._out_of_time)

    def _unlimit(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _out_of_time(self) -> None:
        self._end(ApiError(408, "upload_timeout", f"the headers took longer than {self.header_s:g} s"))

    def _end(self, error: ApiError) -> None:
        """Stops reading, and closes the connection after the responses to complete requests, or after an error.

        The error is not sent if the client is not waiting for a response, or if another response has begun.
        """
        if self.transport.is_closing() or self._left is not None:
            return
        if not self._idle() and not self.cycle.more_body:
            self.cycle.keep_alive, self._left = False, LINGER_BYTES
            self._unlimit()
        elif self._begun if self._idle() else not self.cycle.response_started and not self.pipeline:
            self._write(error, close=True)
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Closes the service's side, and the whole connection if the client does not close its own side in time."""
        self._left = LINGER_BYTES
        self._disconnect()
        self._limit(LINGER_S, self.transport.close)
        self.transport.write_eof()
        self.flow.resume_reading()
        self._skip(min(self._rest, LINGER_BYTES), lambda _: self.transport.close())

    def _disconnect(self) -> None:
        """Notifies all requests that are being answered that the client has gone; uvicorn notifies only the last."""
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()


def _too_long() -> ApiError:
    return ApiError(431, "headers_too_long", f"the headers are longer than {LONGEST_HEADERS} bytes")
