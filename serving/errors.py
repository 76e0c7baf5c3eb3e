"""One error shape for everything that goes wrong: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}


class ApiError(Exception):
    """A fault with the status and code that the caller is told.

    Attributes:
        status: HTTP status.
        code: Stable short name, for programs.
        message: What is wrong and how to mend it, for people.
        param: The request field at fault, if one is.
        headers: Response headers, such as Retry-After.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, dict[str, str | None]]:
        """Returns the error as JSON-ready data."""
        kind = "invalid_request_error"
        if self.status >= 500 or self.status == 424:
            kind = "server_error"
        elif self.status == 429:
            kind = "rate_limit_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """Returns the error as an HTTP response."""
        return JSONResponse(self.body(), status_code=self.status, headers=self.headers)


def as_api_error(error: Exception, request_id: str) -> ApiError:
    """Returns `error` as the caller may see it; an unexpected one is logged and keeps its internals to itself."""
    if isinstance(error, ApiError):
        return error
    log.error("request %s failed", request_id, exc_info=error)
    return ApiError(500, "internal_error", f"internal error; the log has it under request id {request_id}")


def install_error_handlers(app: FastAPI) -> None:
    """Gives every fault inside `app` the one error shape, and every response its request id."""
    app.add_exception_handler(ApiError, _own)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_middleware(RequestIdMiddleware)


async def _own(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return error.response()


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _HTTP_CODES.get(error.status_code, "http_error")
    message = f"{request.method} {request.url.path}: {error.detail}"
    return ApiError(error.status_code, code, message, headers=error.headers).response()


async def _validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1])
    return ApiError(422, "wrong_type", f"{param}: {first['msg']}", param=param).response()


class RequestIdMiddleware:
    """Names every request: takes `x-request-id` where it is sane, returns it, and answers what nobody else caught."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application with a request id in `request.state.request_id`."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def named(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            await self.app(scope, receive, named)
        except Exception as error:
            response = as_api_error(error, request_id).response()
            if not started:
                await response(scope, receive, named)
