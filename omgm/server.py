"""Runs an ASGI application until it is stopped, and announces it when it takes requests."""

from __future__ import annotations

import gc
import math
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn

from serving.protocol import KEEP_ALIVE_S
from serving.settings import ServingSettings


class AnnouncedServer(uvicorn.Server):
    """A server that calls `announce` once it listens: a client that waits for the announcement is never refused.

    Args:
        config: The application and how it is served.
        announce: Called once.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen; `started` stays false if the application cannot start."""
        await super().startup(sockets)
        freeze_objects()
        if self.started:
            self._announce()


def freeze_objects() -> None:
    """Exempts all objects from garbage collection: models, index and modules live as long as the process.

    Under load a full collection would stop everything for 0.2 s every ten seconds, to look through half a million of
    them. An object without references is freed nevertheless, unless it is part of a cycle.
    """
    gc.collect()
    gc.freeze()


def server_options(settings: ServingSettings, verbose: bool) -> dict[str, Any]:
    """Returns the options of uvicorn with which the service runs, apart from its address and protocol."""
    return {
        "ws": "none",  # there are no WebSockets, and an upgrade would leave the protocol with its limits
        "log_config": None if settings.log_format == "json" else uvicorn.config.LOGGING_CONFIG,
        "log_level": "info" if verbose else "warning",
        "access_log": False,  # the service writes its own, without query strings
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": math.ceil(settings.timeout_s),  # after SIGTERM, what runs is finished
    }


def run_server(config: uvicorn.Config, announce: Callable[[], None]) -> None:
    """Serves until SIGINT or SIGTERM.

    Raises:
        SystemExit: The application cannot start, or the address is in use; uvicorn has logged why.
    """
    server = AnnouncedServer(config, announce)
    # Once uvicorn has shut down, it raises the signal again; by default, that would end the process before the caller
    # has closed what it opened.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(3)  # uvicorn's own status for this
