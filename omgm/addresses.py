"""Checks the address of a service before the time-consuming steps of building an index and loading models."""

from __future__ import annotations

import errno
import socket


def check_address(host: str, port: int) -> None:
    """Checks that a service can listen at an address.

    Raises:
        ValueError: The port is in use, or the address does not belong to this machine.
    """
    where = f"{host}, port {port}"
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValueError(f"cannot listen at {where}: {error.strerror}; choose another host") from error
    faults = [fault for family, _, _, _, address in found if (fault := _fault(family, address)) is not None]
    if any(fault.errno == errno.EADDRINUSE for fault in faults):
        raise ValueError(f"cannot listen at {where}: something else listens there; stop it or choose another --port")
    if len(faults) == len(found):  # a name may resolve to IPv4 and IPv6, of which a machine may have only one
        raise ValueError(f"cannot listen at {where}: {faults[0].strerror}; choose another host or --port")


def _fault(family: int, address: tuple[str | int, ...] | tuple[int, bytes]) -> OSError | None:
    """Returns the error if an address cannot be bound, else `None`."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None
