"""Connects to a Ray cluster or fails within seconds with a reason; Ray itself tries for minutes before it gives up."""

from __future__ import annotations

import os
import socket

_PATIENCE = 6.0
"""Seconds to wait for a connection, and for what comes over it."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How an HTTP/2 client begins, with empty settings (RFC 9113, 3.4). Ray's head speaks gRPC, which is HTTP/2."""
_SETTINGS = 4
"""The type of an HTTP/2 server's first frame."""

_START = "start one with `ray start --head` on one machine and `ray start --address HEAD:6379` on the others"
_TOKEN = "if it asks for a token, set RAY_AUTH_MODE=token and copy ~/.ray/auth_token from its head"


def connect(address: str, source: str = "--cluster") -> None:
    """Connects this process to a cluster; needs the extra `ray`.

    Args:
        address: `host:port` of its head, or "auto" for the cluster that this machine is part of.
        source: Where the address is from, for errors.

    Raises:
        ValueError: There is no such cluster, it does not let this process in, or runs nothing for it.
    """
    import ray
    from ray.exceptions import RayError

    check_address(address, source)
    try:
        ray.init(address, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise ValueError(
            f"{source} {address}: not connected ({error}); this machine has to be part of the cluster: {_START};"
            f" {_TOKEN}"
        ) from error
    try:
        # A cluster without a token accepts the connection of a process that has one, but its own calls to that process
        # are refused, and Ray reports every actor as canceled.
        ray.get(ray.remote(num_cpus=0)(_Probe).remote().answer.remote())
    except RayError as error:
        ray.shutdown()
        raise ValueError(
            f"{source} {address}: connected, but no actor starts ({last_line(error)}); each machine has to have this"
            " OMGM, and if the cluster asks for no token, set RAY_AUTH_MODE=disabled here, too"
        ) from error


class _Probe:
    def answer(self) -> None:
        """Returns once the actor runs."""


def last_line(error: Exception) -> str:
    """Returns the last line of a Ray error, which names the cause; the tracebacks of all workers come before it."""
    return str(error).strip().splitlines()[-1]


def check_address(address: str, source: str = "--cluster") -> None:
    """Checks that the head of a cluster answers; where "auto" finds one is left to Ray, unless RAY_ADDRESS says it.

    Raises:
        ValueError: It is not `host:port`, or nothing answers there, or something else than Ray's head.
    """
    named = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if named in ("", "auto"):
        return
    host, _, port = named.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f'{source} {address}: must be host:port or "auto", got {named!r}')
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                connection.sendall(_PREFACE)
                frame = connection.makefile("rb").read(9)
                if len(frame) < 9 or frame[3] != _SETTINGS:
                    raise OSError("something else than the head of a Ray cluster answers")
    except (OSError, OverflowError) as error:
        raise ValueError(f"{source} {address}: no Ray cluster at {named} ({error}); {_START}") from error
