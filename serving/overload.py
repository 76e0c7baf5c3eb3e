"""Sheds load: refuses requests by their headers, in front of all other middleware.

At ten times the capacity, nine of ten requests end here, on the same CPU that the models need for the tenth. Therefore
a refusal passes through no other middleware, and is counted and logged here. `serving.protocol` refuses even before an
ASGI request exists, at half of the cost on a kept-alive connection; the middleware is for other servers and CORS.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from serving.body import refuse
from serving.errors import ApiError, log_request, name_request
from serving.logs import REQUEST_ID
from serving.service import Service

WORK = ("/answer", "/retrieve", "/v1/chat/completions", "/v1/responses")
"""The routes whose requests need the models."""


class Overload:
    """Decides by method and path whether to refuse a request; for those that pass, `take_in` makes the final decision.

    Args:
        service: The service, whose `admission` decides.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def refusal(self, scope: Scope, path: str) -> ApiError | None:
        """Returns the error for a request, with the request id in its headers; `None` if the request may pass."""
        if scope["method"] != "POST" or path not in WORK:
            return None
        if refusal := self._service.admission.refusal():
            refusal.headers["x-request-id"] = name_request(scope)
            refusal.note(scope)
            scope["state"]["refused_route"] = path
        return refusal

    def count(self, scope: Scope, refusal: ApiError, began: float) -> None:
        """Counts and logs a refusal that has been sent; `began` is a `time.perf_counter` time."""
        self._service.metrics.request(scope, refusal.status, time.perf_counter() - began)
        log_request(scope, refusal.status, began)

    def refuse_by_headers(self, scope: Scope, path: str) -> ApiError | None:
        """Returns the error for a request, already counted and logged, or `None` if the request may pass."""
        named = REQUEST_ID.get()
        try:
            if refusal := self.refusal(scope, path):
                self.count(scope, refusal, time.perf_counter())
            return refusal
        finally:
            REQUEST_ID.set(named)  # this runs outside a task, so the id would leak to other requests


class OverloadMiddleware:
    """Refuses requests before the rest of the application sees them."""

    def __init__(self, app: ASGIApp, overload: Overload) -> None:
        self.app, self._overload = app, overload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application, or responds with the refusal."""
        if scope["type"] == "http":
            began = time.perf_counter()
            if refusal := self._overload.refusal(scope, scope["path"].removeprefix(scope.get("root_path", ""))):
                try:
                    await refuse(refusal, scope, send)
                finally:
                    self._overload.count(scope, refusal, began)
                return
        await self.app(scope, receive, send)
