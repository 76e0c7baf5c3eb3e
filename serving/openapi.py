"""OpenAPI descriptions of a route's errors: those of every route, those that several routes share, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.schemas import ErrorOut

_REFUSALS = {
    401: "The service has keys, and none of them was sent.",
    403: "The key that was sent is for writing where one for reading is needed, or vice versa.",
    421: "A local service without keys was asked under the name of a site.",
}
"""Statuses of `AccessMiddleware`, besides 429."""
_SHARED = {
    400: "The body is malformed or the image is broken.",
    408: "The upload took too long.",
    413: "The image has too many bytes or pixels.",
    415: "The image or the body has an unsupported format.",
    429: "The queue is full or a limit is reached; see the header Retry-After.",
    503: "The service is not ready.",
    504: "The answer took too long.",
}

Responses = dict[int | str, dict[str, Any]]


def errors(*shared: int, own: Mapping[int, str] | None = None, access: bool = True) -> Responses:
    """Returns the errors of a route as FastAPI's `responses`.

    Args:
        shared: Statuses that mean the same for several routes.
        own: Further statuses with their meanings for this route.
        access: Whether `AccessMiddleware` checks this route.
    """
    described = _REFUSALS if access else {}
    described = described | {status: _SHARED[status] for status in shared} | dict(own or {})
    return {status: {"model": ErrorOut, "description": text} for status, text in sorted(described.items())}
