"""Connections to the public internet only, for URLs that people, pages, models and knowledge bases choose."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import httpcore

from omgm.downloads.images.reasons import Failure

_GLOBAL = IPv6Network("2000::/3")
"""The only IPv6 addresses that are routed on the internet, beside those that stand for an IPv4 address."""
_NAT64, _TRANSLATED, _COMPATIBLE = (IPv6Network(f"{prefix}/96") for prefix in ("64:ff9b::", "::ffff:0:0:0", "::"))
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_SPECIAL = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")))
"""Assignments of protocols, relays of 6to4, the host of Azure's virtual machines, and examples."""


def is_public(address: str) -> bool:
    """Returns whether an IP address is on the public internet.

    An IPv6 address that stands for an IPv4 address (mapped, compatible, translated by NAT64 or SIIT, tunneled by 6to4
    or ISATAP) is judged by that address, because it is what a gateway connects to.
    """
    found = ip_address(address.partition("%")[0])
    return all(
        one.is_global
        and not one.is_multicast
        and not any(one in network for network in _SPECIAL)
        and (one.version == 4 or one in _GLOBAL)
        for one in _reached(found)
    )


def _reached(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Yields the addresses that a connection to an address may reach."""
    if isinstance(address, IPv4Address):
        yield address
        return
    low = int(address) & 0xFFFF_FFFF
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif any(address in network for network in (_NAT64, _TRANSLATED, _COMPATIBLE)):
        yield IPv4Address(low)
    else:
        yield address
        if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
            yield IPv4Address(low)


async def public_addresses(host: str, port: int, allow_private: frozenset[str] = frozenset()) -> list[str]:
    """Resolves a host name and returns its addresses, all of which may be connected to.

    Args:
        host: A name or an IP address.
        port: The port.
        allow_private: Hosts (`name` or `name:port`) that may be on a private network.

    Raises:
        Failure: It has no address, or one that is not on the public internet.
    """
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Failure("no_connection", f"{host}: {error}") from error
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    if not {host.lower(), f"[{host.lower()}]", place.lower()} & allow_private:
        for address in addresses:
            if not is_public(address):
                raise Failure("private_address", f"{place} is {address}")
    if not addresses:
        raise Failure("no_connection", f"{host} has no address")
    return addresses


class PublicNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections for httpcore. It connects to the address that it has checked, since a name may move.

    Args:
        allow_private: Hosts (`name` or `name:port`) that may be on a private network.
    """

    def __init__(self, allow_private: frozenset[str]) -> None:
        self._allow_private = allow_private
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects to the first address of a host that accepts.

        Raises:
            Failure: The host has no address, or one that is not on the public internet.
            httpcore.ConnectError: No address accepts.
        """
        *others, last = await public_addresses(host, port, self._allow_private)
        for address in others:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Sleeps."""
        await self._network.sleep(seconds)
