"""Closes connections: after the rest of an upload, or in HTTP/1.0 to mark the end of a response of unknown length."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class ClosingTransport:
    """The transport of one response, with its own way to close the connection.

    Args:
        transport: The transport to write to.
        close: Called when the response is complete and the connection is not kept alive.
    """

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write, self.is_closing, self.close = transport.write, transport.is_closing, close


def end_with_connection(cycle: RequestResponseCycle) -> None:
    """Sends responses of unknown length without chunked encoding, which HTTP/1.0 lacks (RFC 9112, section 6.1)."""
    send = cycle.send

    async def send_plainly(message: Any) -> None:
        if message["type"] == "http.response.start":
            if all(name.lower() != b"content-length" for name, _ in message.get("headers", [])):
                cycle.chunked_encoding, cycle.expected_content_length = False, sys.maxsize
        elif not message.get("more_body") and cycle.expected_content_length > sys.maxsize // 2:
            cycle.expected_content_length = len(message.get("body", b""))  # uvicorn checks the length
        await send(message)

    cycle.send = send_plainly  # type: ignore[method-assign]
