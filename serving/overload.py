"""Refuses requests that the service has no time for, by their headers, in front of everything else.

At ten times the capacity nine of ten requests end here, on the processor that the models need for the tenth. So a
refusal passes no other middleware, and counts and logs itself.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from serving.body import refuse
from serving.errors import log_request, name_request
from serving.service import Service

WORK = ("/answer", "/retrieve", "/v1/chat/completions")
"""The routes whose requests cost the models time."""


class OverloadMiddleware:
    """Asks the admission before the rest of the application sees a request; `take_in` asks again and decides.

    Args:
        app: The application.
        service: Its `admission` is asked.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application, or answers in its place."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if path in WORK and (refusal := self._service.admission.refusal()):
                began = time.perf_counter()
                refusal.headers["x-request-id"] = name_request(scope)
                scope["state"]["refused_route"] = path
                try:
                    await refuse(refusal, scope, receive, send)
                finally:
                    self._service.metrics.request(scope, refusal.status, time.perf_counter() - began)
                    log_request(scope, refusal.status, began)
                return
        await self.app(scope, receive, send)
