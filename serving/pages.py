"""The pages: questions at `/`, the API documentation at `/docs`. Neither loads from another host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from fastapi import FastAPI
from starlette.responses import Response

_SCRIPTS = ("answer", "history", "image", "service", "trail")
PAGES = {  # path on the service -> package, file
    "/": ("serving", "page.html"),
    **{f"/{name}": ("serving", name) for name in ("page.css", "page.js", *(f"page-{part}.js" for part in _SCRIPTS))},
    "/docs": ("serving", "docs.html"),
    "/docs.js": ("serving", "docs.js"),
    "/swagger-ui-bundle.js": ("fastapi_swagger.resources", "swagger-ui-bundle.js"),
    "/swagger-ui.css": ("fastapi_swagger.resources", "swagger-ui.css"),
}
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_pages(app: FastAPI) -> None:
    """Adds the routes of both pages to `app`, which must be created with `docs_url=None`."""
    for path, (package, name) in PAGES.items():
        app.add_api_route(path, _sender(package, name), include_in_schema=False)


def _sender(package: str, name: str) -> Callable[[], Awaitable[Response]]:
    body = resources.files(package).joinpath(name).read_bytes()

    async def send() -> Response:
        return Response(body, media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)

    return send
