"""Refuses requests that the service has no time for, by their headers, in front of everything else.

At ten times the capacity nine of ten requests end here, on the processor that the models need for the tenth. So a
refusal passes no other middleware, and counts and logs itself. `serving.protocol` asks before there is an ASGI request
at all, which costs a sixth on a connection that is kept; the middleware is for other servers and for CORS.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from serving.body import refuse
from serving.errors import ApiError, log_request, name_request
from serving.logs import REQUEST_ID
from serving.service import Service

WORK = ("/answer", "/retrieve", "/v1/chat/completions", "/v1/responses")
"""The routes whose requests cost the models time."""


class Overload:
    """Decides by method and path whether a request has to be refused; `take_in` asks the admission again and decides.

    Args:
        service: Its `admission` is asked.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def refusal(self, scope: Scope, path: str) -> ApiError | None:
        """Returns the error for a request, with the request's id among its headers; `None` if it may come in."""
        if scope["method"] != "POST" or path not in WORK:
            return None
        if refusal := self._service.admission.refusal():
            refusal.headers["x-request-id"] = name_request(scope)
            refusal.note(scope)
            scope["state"]["refused_route"] = path
        return refusal

    def count(self, scope: Scope, refusal: ApiError, began: float) -> None:
        """Counts and logs a refusal that has been sent; it began at `began` of `time.perf_counter`."""
        self._service.metrics.request(scope, refusal.status, time.perf_counter() - began)
        log_request(scope, refusal.status, began)

    def refuse_by_headers(self, scope: Scope, path: str) -> ApiError | None:
        """Returns the error for a request that ends with its headers, counted and logged; `None` if it may come in."""
        named = REQUEST_ID.get()
        try:
            if refusal := self.refusal(scope, path):
                self.count(scope, refusal, time.perf_counter())
            return refusal
        finally:
            REQUEST_ID.set(named)  # there is no task of its own, which would keep the id to itself


class OverloadMiddleware:
    """Asks before the rest of the application sees a request.

    Args:
        app: The application.
        overload: Is asked.
    """

    def __init__(self, app: ASGIApp, overload: Overload) -> None:
        self.app, self._overload = app, overload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application, or answers in its place."""
        if scope["type"] == "http":
            began = time.perf_counter()
            if refusal := self._overload.refusal(scope, scope["path"].removeprefix(scope.get("root_path", ""))):
                try:
                    await refuse(refusal, scope, receive, send)
                finally:
                    self._overload.count(scope, refusal, began)
                return
        await self.app(scope, receive, send)
