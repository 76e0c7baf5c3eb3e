"""Serves the MCP server over HTTP: keys, allowed hosts, documents or streams, and calls that end with their client."""

from __future__ import annotations

import json

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.access import AccessMiddleware, with_cors
from serving.body import body_limit
from serving.settings import ServingSettings

_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


def http_app(server: MCPServer, settings: ServingSettings, host: str = "127.0.0.1") -> ASGIApp:
    """Returns the server as an application at `/mcp`, with the keys, limits and origins of the service.

    Args:
        server: The server.
        settings: Its keys and limits.
        host: The address that it will listen on. On loopback, requests with another host name are refused, unless it
            is in the setting `hosts`.
    """
    app = server.streamable_http_app(
        stateless_http=True,
        max_request_body_size=body_limit(settings),
        transport_security=_security(settings) if host in _LOOPBACK else None,
        host=host,
    )
    app.router.redirect_slashes = False  # behind a proxy that strips a prefix, it would lead to a wrong URL
    for path in ("/health/live", "/health/ready"):
        app.router.routes.append(Route(path, _healthy))
    app.add_middleware(_EndsWithCaller)
    app.add_middleware(_JsonIfQuick)
    app.add_middleware(AccessMiddleware, settings=settings)
    return with_cors(_without_slash(app), settings)


async def _healthy(_: Request) -> JSONResponse:
    return JSONResponse({"status": "ready"})


def _without_slash(app: ASGIApp) -> ASGIApp:
    """Returns `app`, made to answer `/mcp/` like `/mcp`."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/" and scope["path"].endswith("/"):
            scope = {**scope, "path": scope["path"].rstrip("/")}
        await app(scope, receive, send)

    return answer


class _JsonIfQuick:
    """Answers with a single JSON document, or with a stream of events once there is something to say before.

    Long calls have notifications of their progress and comments that keep a proxy's connection open; quick ones need
    no stream. Clients that do not accept a stream get only the document, and those that accept nothing else a stream.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        accept = Headers(scope=scope).get("accept") or "*/*"
        streams = "text/event-stream" in accept
        documents = not streams or "json" in accept or "*" in accept
        headers = [pair for pair in scope["headers"] if pair[0] != b"accept"]
        scope = {**scope, "headers": [*headers, (b"accept", b"application/json, text/event-stream")]}
        started: Message | None = None
        held = b""

        async def answer(message: Message) -> None:
            nonlocal started, held
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind.startswith("text/event-stream") and documents:
                    started = message
                else:
                    await send(message)
                return
            if started is None:
                await send(message)
                return
            held += message.get("body", b"")
            reply = _reply(held)
            if streams and held and reply is None:
                await send(started)
                await send({**message, "body": held})
                started = None
            elif not message.get("more_body"):
                body = reply or b""
                sent = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
                await send({**started, "status": 200 if body else 500, "headers": sent})
                await send({**message, "body": body})

        await self._app(scope, receive, answer)


def _reply(events: bytes) -> bytes | None:
    """Returns the data of the event with the reply, `None` if only notifications and comments have come."""
    for line in events.splitlines():
        if line.startswith(b"data:") and "method" not in json.loads(line[5:]):
            return line[5:].strip()
    return None


class _EndsWithCaller:
    """Cancels a request when its client disconnects; otherwise an agent would keep searching for nobody.

    Without sessions, this is the only way to cancel a call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        whole, left = anyio.Event(), anyio.Event()

        async def read() -> Message:
            if whole.is_set():  # `watch` reads from here on
                await left.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            if not message.get("more_body"):
                whole.set()
            return message

        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await whole.wait()
                while (await receive())["type"] != "http.disconnect":
                    pass
                left.set()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await self._app(scope, read, send)
            tasks.cancel_scope.cancel()


def _security(settings: ServingSettings) -> TransportSecuritySettings:
    """Returns the hosts and origins that a server on loopback accepts, on any port."""
    if "*" in settings.cors_origins:  # hosts are checked by AccessMiddleware, too
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = [f"{name}{port}" for name in (*_LOOPBACK, *settings.hosts) for port in ("", ":*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    origins += settings.cors_origins
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
