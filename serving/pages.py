"""The pages: questions at `/`, with examples, the API documentation at `/docs`. Neither loads from another host."""

from __future__ import annotations

import csv
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

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


_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    """An image and a question about it."""

    path: Path
    question: str


def read_examples(folder: Path | None) -> dict[str, ExampleQuestion]:
    """Returns up to 12 examples by name, each image once: first ones of `examples.csv`, or spread over `test.csv`.

    Raises:
        ValueError: Both are missing, or the table lacks a column.
    """
    if folder is None:
        return {}
    chosen = folder / "examples.csv"
    table = chosen if chosen.is_file() else folder / "test.csv"
    if not table.is_file():
        raise ValueError(f"examples_dir: {table} does not exist; it must have the columns question, dataset_image_ids")
    images = {path.stem: path for path in sorted((folder / "queries").glob("*.jpg"))}
    found: dict[str, ExampleQuestion] = {}
    with table.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if not {"question", "dataset_image_ids"} <= set(reader.fieldnames or ()):
            raise ValueError(f"examples_dir: {table} must have the columns question, dataset_image_ids")
        for row in reader:
            name = row["dataset_image_ids"].split("|")[0].removesuffix(".jpg")
            if name in images and name not in found:
                found[name] = ExampleQuestion(images[name], row["question"])
    names = list(found)
    step = 1 if table == chosen else max(len(names) / _SHOWN, 1)
    return {name: found[name] for name in (names[int(i * step)] for i in range(min(_SHOWN, len(names))))}
