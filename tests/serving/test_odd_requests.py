"""Requests that are odd but legal, and other problems in operation: full disks, vanishing files."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from retriever.images import encoded
from serving.settings import ServingSettings
from tests.fakes.asking import WHEN, ask, ask_json, fault
from tests.fakes.images import noise
from tests.fakes.service import World, served


def test_a_trailing_slash_is_another_path(client: httpx.Client) -> None:
    """A redirect would lose the path prefix that a proxy strips, and the scheme that it uses."""
    response = client.post("/answer/", content=b"{}")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
    assert client.get("/health/live/").status_code == 404


def test_null_is_as_good_as_missing(client: httpx.Client) -> None:
    names = ("k", "alpha", "beta", "stream", "on_generator_error", "thoughts", "mode", "budget", "boxes")
    nulls: Any = dict.fromkeys(names)
    assert ask_json(client, **nulls).json()["answer"] == ask(client, **nulls).json()["answer"] == "1848"
    assert fault(ask_json(client, question=None)) == (422, "missing_question", "question")


def test_an_error_repeats_no_more_than_the_beginning_of_a_path(client: httpx.Client) -> None:
    response = client.get("/" + "a" * 10_000)
    assert response.json()["error"]["message"] == f"GET /{'a' * 199}: Not Found; /docs lists the routes"


@pytest.mark.parametrize("wanted", ["bytes=0-3", "bytes=999999-", "nonsense"])
def test_images_come_whole(client: httpx.Client, wanted: str) -> None:
    address = ask(client).json()["entity"]["image"]
    whole = client.get(address)
    part = client.get(address, headers={"Range": wanted})
    assert part.status_code == whole.status_code == 200 and part.content == whole.content


def test_an_example_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "queries").mkdir(parents=True)
    (folder / "test.csv").write_text(f"question,dataset_image_ids\n{WHEN},jp_0\n")
    image = folder / "queries" / "jp_0.jpg"
    Image.new("RGB", (8, 8)).save(image)
    with served(tmp_path, ServingSettings(examples_dir=folder)) as world:
        address = f"{world.url}/examples/jp_0"
        assert httpx.get(address, trust_env=False).headers["content-type"] == "image/jpeg"
        image.unlink()
        response = httpx.get(address, trust_env=False)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


def test_a_form_needs_no_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(noise(0, 800, 800))
    assert len(data) > 2**20  # Starlette would spool it to a file
    with served(tmp_path) as world:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
        files = {"image": data}
        response = httpx.post(f"{world.url}/answer", files=files, data={"question": WHEN}, trust_env=False)
    assert response.status_code == 200


def test_a_number_with_too_many_digits(client: httpx.Client) -> None:
    response = client.post(
        "/answer", content=b'{"k": 1%b}' % (b"0" * 5000), headers={"Content-Type": "application/json"}
    )
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "malformed_json")
    assert error["message"].endswith("value has 5001 digits")  # without Python's hint on raising the limit


def test_a_body_with_another_boundary(client: httpx.Client) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=YY"}
    response = client.post("/answer", content=b"--XX\r\n\r\n--XX--\r\n", headers=headers)
    message = response.json()["error"]["message"]
    assert "boundary" in message and message != "malformed multipart body: Invalid multipart data."


@pytest.mark.parametrize(
    ("address", "status"), [("127.0.0.2", 421), ("[::1]", 421), ("[::ffff:127.0.0.1]", 421), ("192.0.2.1", 200)]
)
def test_dns_rebinding_at_any_local_address(world: World, address: str, status: int) -> None:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(world.app)  # its scope says that the service listens at the URL's host
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{address}") as client:
            return await client.get("/info", headers={"Host": "evil.example"})

    assert asyncio.run(ask()).status_code == status


def test_metrics_name_routes_as_the_document_does(client: httpx.Client) -> None:
    client.get("/entities/https%3A%2F%2Fe.example%2Fnobody")
    text = client.get("/metrics").text
    routes = {line.partition('route="')[2].partition('"')[0] for line in text.splitlines() if 'route="' in line}
    assert routes - {"none", "/", "/docs"} <= json.loads(client.get("/openapi.json").text)["paths"].keys()
    assert "/entities/{entity_id}" in routes and "_created{" not in text
