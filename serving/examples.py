"""Example images with questions, which the page shows."""

from __future__ import annotations

import csv
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response

from retriever.views import View
from serving.app import IMAGE_RESPONSES, image_file
from serving.errors import ApiError, errors
from serving.service import Service

_SHOWN = 12


def read_examples(folder: Path | None) -> dict[str, tuple[Path, str]]:
    """Returns up to 12 images by name, each with one question: first of `examples.csv`, or spread over `test.csv`.

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
    found = dict[str, tuple[Path, str]]()
    with table.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if not {"question", "dataset_image_ids"} <= set(reader.fieldnames or ()):
            raise ValueError(f"examples_dir: {table} must have the columns question, dataset_image_ids")
        for row in reader:
            name = row["dataset_image_ids"].split("|")[0].removesuffix(".jpg")
            if name in images and name not in found:
                found[name] = images[name], row["question"]
    names = list(found)
    step = 1 if table == chosen else max(len(names) / _SHOWN, 1)
    return {name: found[name] for name in (names[int(i * step)] for i in range(min(_SHOWN, len(names))))}


class ExampleOut(View):
    """An example image with a question."""

    image: str
    """Path of the image on this service."""
    question: str


def add_example_routes(app: FastAPI, service: Service) -> None:
    """Adds the routes of the examples in `serving.examples_dir` to `app`; raises as `read_examples`."""
    examples = read_examples(service.settings.examples_dir)

    @app.get("/examples", responses=errors())
    async def list_examples() -> list[ExampleOut]:
        """Lists example images with a question each."""
        return [ExampleOut(image=f"/examples/{name}", question=question) for name, (_, question) in examples.items()]

    @app.get("/examples/{name}", response_class=Response, responses=IMAGE_RESPONSES)
    async def example_image(name: str) -> Response:
        """Returns the image of an example."""
        missing = ApiError(404, "not_found", f"there is no example {name[:40]!r}", param="name")
        return await image_file(examples[name][0] if name in examples else None, missing)
