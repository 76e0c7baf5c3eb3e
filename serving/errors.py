"""The format of all errors, `{"error": {"message", "type", "param", "code"}}`, also in OpenAPI."""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retriever.key_marks import without_keys
from retriever.types import EngineError
from serving.logs import ACCESS, REQUEST_ID
from serving.schemas import ErrorOut

logger = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_SAID = {
    "missing": "is missing",
    "string_type": "must be text",
    "greater_than": "must be more than {gt:g}, got {got}",
    "greater_than_equal": "must be at least {ge:g}, got {got}",
    "less_than_equal": "must be at most {le:g}, got {got}",
    "model_type": "must be an object",
    "too_short": "must not be empty",
    "too_long": "has {actual_length} items; at most {max_length} are accepted",
}
"""Our wording of some pydantic errors, by type; the others keep pydantic's."""
_PREFIX = 3
"""Most parts of a path that clients and proxies are expected to add before a route."""


class ApiError(Exception):
    """An error as the client sees it.

    Attributes:
        status: HTTP status.
        code: A stable error code, for programs.
        message: What is wrong and how to fix it, for people.
        param: The request field at fault, if it is one.
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
        self.status, self.code = status, code
        self.message = without_keys(message)
        self.param = None if param is None else without_keys(param)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, dict[str, str | None]]:
        """Returns the error as JSON-ready data."""
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = {424: "server_error", 429: "rate_limit_error"}.get(self.status, usual)
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def note(self, scope: Scope) -> None:
        """Records in the scope that the request is answered with this error, for `error_code`."""
        scope.setdefault("state", {})["error_code"] = self.code

    def raw(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Returns the headers and the body of the error as a response."""
        text = json.dumps(self.body()).encode()
        headers = {"content-type": "application/json", "content-length": str(len(text)), **self.headers}
        return [(name.lower().encode(), value.encode()) for name, value in headers.items()], text

    def response(self, scope: Scope) -> JSONResponse:
        """Returns the error as the response to a request."""
        self.note(scope)
        return JSONResponse(self.body(), status_code=self.status, headers=self.headers)


def error_code(scope: Scope) -> str:
    """Returns the code of the error that a request was answered with, or "" if there was no error."""
    return str(scope.get("state", {}).get("error_code", ""))


async def noting_status(app: ASGIApp, scope: Scope, receive: Receive, send: Send, note: Callable[[int], None]) -> None:
    """Runs an application and passes the status of its response to `note`: 500 if it raises before responding.

    An outer middleware sends the response to the exception.
    """
    status = 0

    async def watch(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    try:
        await app(scope, receive, watch)
    except Exception:
        if not status:
            scope.setdefault("state", {})["error_code"] = "internal_error"
            status = 500
        raise
    finally:
        note(status)


def out_of_time(seconds: float) -> ApiError:
    """Returns the error for a request that was not answered in time."""
    return ApiError(504, "timeout", f"there was no answer within {seconds:g} s (serving.timeout_s)")


def late_upload(seconds: float) -> ApiError:
    """Returns the error for a request of which the body has not arrived in time."""
    return ApiError(408, "upload_timeout", f"the upload took longer than {seconds:g} s (serving.upload_timeout_s)")


def as_api_error(error: Exception, request_id: str) -> ApiError:
    """Returns `error` as clients may see it; the details of unexpected errors go only to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, EngineError):
        logger.warning("request %s: %s", request_id, error)
        what = getattr(error, "part", "a server that the retrieval depends on")  # a part of an index in parts
        return ApiError(503, "engine_unavailable", f"{what} does not answer; try again", headers={"Retry-After": "5"})
    logger.error("request %s failed", request_id, exc_info=error)
    return ApiError(500, "internal_error", f"internal error; see the server's log for request {request_id}")


def validation_message(place: str, fault: Mapping[str, Any]) -> str:
    """Returns one of pydantic's errors as a sentence about the field at `place`."""
    said = _SAID.get(fault["type"])
    if said is None:
        return f"{place} {fault['msg'].replace('Input should', 'must', 1)}"
    return f"{place} " + said.format(**fault.get("ctx", {}), got=str(fault["input"])[:20])


def install_error_handlers(app: FastAPI) -> None:
    """Gives all errors of `app` the same format, and every response a request id."""
    app.add_exception_handler(ApiError, _handle_api_error)
    app.add_exception_handler(EngineError, _handle_api_error)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_middleware(RequestIdMiddleware)


async def _handle_api_error(request: Request, error: Exception) -> JSONResponse:
    return as_api_error(error, REQUEST_ID.get()).response(request.scope)


async def _handle_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    message, headers = f"{request.method} {request.url.path[:200]}: {error.detail}", dict(error.headers or {})
    if error.status_code == 404:
        parts = [part for part in request.scope["path"].split("/") if part]
        ends = ["/" + "/".join(parts[at:]) for at in range(min(len(parts), _PREFIX + 1))]
        likely = [near for end in ends for near in (end, f"/v1{end}") if _methods_at(request, near)]
        message += f"; use {likely[0][:200]}" if likely else "; /docs lists the routes"
    elif error.status_code == 405:  # Starlette lists only the methods of the first route at this path
        headers["Allow"] = ", ".join(_methods_at(request, request.scope["path"]))
        message += f"; use {headers['Allow']}"
    return ApiError(error.status_code, code, message, headers=headers).response(request.scope)


def _methods_at(request: Request, path: str) -> list[str]:
    """Returns the methods of all routes at a path; HEAD is available wherever GET is."""
    scope = {**request.scope, "path": path}
    routes = [route for route in request.app.routes if route.matches(scope)[0] is not Match.NONE]
    methods = {method for route in routes for method in route.methods}
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def _handle_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1])
    return ApiError(422, "wrong_type", validation_message(param, first), param=param).response(request.scope)


class RequestIdMiddleware:
    """Gives every request an id, logs the request and responds to uncaught exceptions."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application with a request id in `request.state.request_id`."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = name_request(scope)
        began, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception as error:
            response = as_api_error(error, request_id).response(scope)
            if not status:
                await response(scope, receive, send_with_id)
        finally:
            log_request(scope, status, began)


def name_request(scope: Scope) -> str:
    """Gives a request an id, its own `x-request-id` if that is valid, for the log and `request.state`; returns it."""
    given = Headers(scope=scope).get("x-request-id", "")
    request_id = given if _REQUEST_ID.fullmatch(given) else f"{random.getrandbits(128):032x}"
    scope.setdefault("state", {})["request_id"] = request_id
    REQUEST_ID.set(request_id)
    return request_id


def log_request(scope: Scope, status: int, began: float) -> None:
    """Writes the log line of a request; `began` is a `time.perf_counter` time."""
    if ACCESS.isEnabledFor(logging.INFO):
        fields = {"method": scope["method"], "route": route_of(scope), "status": status}
        fields |= {"code": error_code(scope), "seconds": round(time.perf_counter() - began, 4)}
        text = " ".join(str(value) for value in fields.values() if value != "")
        ACCESS.info("request %s: %s s", scope["state"]["request_id"], text, extra=fields)


def route_of(scope: Scope) -> str:
    """Returns the route of a handled request, such as "/entities/{version}/image", or "none" if it matched no route."""
    return str(getattr(scope.get("route"), "path_format", scope.get("state", {}).get("refused_route", "none")))


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
