"""Checks the address of a service before it takes the time to build an index and load models."""

from __future__ import annotations

import errno
import socket


def check_address(host: str, port: int) -> None:
    """Checks that a service can listen at an address.

    Raises:
        ValueError: Something listens there already, or the address is none of this machine's.
    """
    where = f"{host}, port {port}"
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValueError(f"cannot listen at {where}: {error.strerror}; choose another --host") from error
    faults = [fault for family, _, _, _, address in found if (fault := _fault(family, address)) is not None]
    if any(fault.errno == errno.EADDRINUSE for fault in faults):
        raise ValueError(f"cannot listen at {where}: something else listens there; stop it or choose another --port")
    if len(faults) == len(found):  # a machine may lack one of the protocols that a name stands for
        raise ValueError(f"cannot listen at {where}: {faults[0].strerror}; choose another --host or --port")


def _fault(family: int, address: tuple[str | int, ...] | tuple[int, bytes]) -> OSError | None:
    """Returns why an address cannot be bound, `None` if it can."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None
