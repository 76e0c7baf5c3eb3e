"""Connections to the public internet for agents: everything else is refused, wherever a page or a model points."""

from __future__ import annotations

import asyncio
import socket

from agents.browsing.proxy import Connect
from omgm.downloads.images.hosts import check_public
from omgm.downloads.images.reasons import Failure


def public_connect(allow_private: frozenset[str] = frozenset()) -> Connect:
    """Returns what opens connections to public addresses alone.

    Args:
        allow_private: Hosts (`name` or `name:port`) that may be on a private network.
    """

    async def connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        place = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if not {host.lower(), place.lower()} & allow_private:
            for address in addresses:
                try:
                    check_public(address, place)
                except Failure as failure:
                    raise ValueError(str(failure)) from failure
        return await asyncio.open_connection(addresses[0], port)  # the address that was checked, not the name

    return connect
