"""Connects to a Ray cluster, or fails with a reason within seconds; Ray itself keeps trying for minutes."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

_PATIENCE = 6.0
"""Seconds to wait for a connection, and for data on it."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""An HTTP/2 client's connection preface, with empty settings (RFC 9113, 3.4); Ray's head speaks gRPC, over HTTP/2."""
_SETTINGS = 4
"""The type of an HTTP/2 server's first frame."""

_START = "start one with `ray start --head` on one machine and `ray start --address HEAD:6379` on the others"
_TOKEN = "if it asks for a token, set RAY_AUTH_MODE=token and copy ~/.ray/auth_token from its head"


def connect(address: str, source: str = "--cluster", environment: Mapping[str, str] | None = None) -> None:
    """Connects this process to a cluster; needs the extra `ray`.

    Args:
        address: `host:port` of its head, or "auto" for the cluster that this machine is part of.
        source: Where the address comes from, for errors.
        environment: Environment variables for the actors that this process starts.

    Raises:
        ValueError: There is no such cluster, or it rejects this process or cannot run actors for it.
    """
    import ray
    from ray.exceptions import RayError

    check_address(address, source)
    try:
        ray.init(address, log_to_driver=False, runtime_env={"env_vars": {**environment}} if environment else None)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise ValueError(
            f"{source} {address}: not connected ({error}); this machine must be part of the cluster: {_START}; {_TOKEN}"
        ) from error
    try:
        # A cluster without a token accepts a connection from a process that has one, but that process rejects the
        # cluster's own calls, and Ray reports every actor as canceled.
        ray.get(ray.remote(num_cpus=0)(_Probe).remote().answer.remote())
    except RayError as error:
        ray.shutdown()
        raise ValueError(
            f"{source} {address}: connected, but no actor starts ({last_line(error)}); install this version of OMGM"
            " on every machine, and if the cluster uses no token, set RAY_AUTH_MODE=disabled here, too"
        ) from error


class _Probe:
    def answer(self) -> None:
        """Returns once the actor runs."""


def last_line(error: Exception) -> str:
    """Returns the last line of a Ray error, which names the cause; the lines before it are the workers' tracebacks."""
    return str(error).strip().splitlines()[-1]


def check_address(address: str, source: str = "--cluster") -> None:
    """Checks that the head of a cluster answers; for "auto" without RAY_ADDRESS, leaves finding a cluster to Ray.

    Raises:
        ValueError: The address is not `host:port`, or no Ray head answers there.
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
                    raise OSError("what answers is not the head of a Ray cluster")
    except (OSError, OverflowError) as error:
        raise ValueError(f"{source} {address}: no Ray cluster at {named} ({error}); {_START}") from error
