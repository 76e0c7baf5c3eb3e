"""Runs an ASGI application until it is stopped, and announces when it accepts requests."""

from __future__ import annotations

import math
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

from omgm.hangups import exit_if_hung_up, outlive_hangups
from omgm.warm_up import freeze_objects
from serving.protocol import KEEP_ALIVE_S
from serving.settings import ServingSettings


class AnnouncedServer(uvicorn.Server):
    """A server that calls `announce` once it is listening, so that clients that wait for it can connect.

    Attributes:
        asked: Whether a signal asked it to end.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce
        self.asked = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server, also on a SIGINT that the process ignores otherwise, as those that a script starts do."""
        self.asked = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening; `started` stays false if the application cannot start."""
        await super().startup(sockets)
        freeze_objects()
        if self.started:
            self._announce()


def server_options(settings: ServingSettings, verbose: bool) -> dict[str, Any]:
    """Returns the service's options for uvicorn, except address and protocol."""
    return {
        "ws": "none",  # there are no WebSockets, and an upgraded connection would escape the protocol's limits
        "log_config": None if settings.log_format == "json" else uvicorn.config.LOGGING_CONFIG,
        "log_level": "info" if verbose else "warning",
        "access_log": False,  # the service writes its own, without query strings
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": math.ceil(settings.timeout_s),  # after SIGTERM, requests in progress are finished
    }


def run_server(config: uvicorn.Config, announce: Callable[[], None]) -> None:
    """Serves until SIGINT or SIGTERM.

    Raises:
        SystemExit: The application cannot start, or the address is in use (uvicorn has logged why), or the service ends
            although nobody asked for it.
    """
    server = AnnouncedServer(config, announce)
    outlive_hangups()
    # After shutting down, uvicorn raises the signal again; by default, that would end the process before the caller can
    # clean up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        server.run()
    exit_if_hung_up()
    if not (server.started and server.asked):
        sys.exit(3)  # uvicorn's own status for this
