"""Sends requests to the service and reads its errors and streams."""

from __future__ import annotations

import json
from typing import Any

import httpx

from serving.settings import ServingSettings
from tests.fakes.images import data_uri, image_bytes

RED, GREEN = "red", "green"
WHEN = "When was the treaty?"
LIMITS = ServingSettings(max_image_bytes=100_000, max_image_pixels=1_000_000, max_question_chars=100)


def ask(
    client: httpx.Client, image: bytes = b"", question: str = WHEN, path: str = "/answer", **options: Any
) -> httpx.Response:
    data = {"question": question, "options": json.dumps(options)}
    return client.post(path, files={"image": ("flag.png", image or image_bytes(RED))}, data=data)


def ask_json(client: httpx.Client, path: str = "/answer", **fields: Any) -> httpx.Response:
    return client.post(path, json={"image": data_uri(image_bytes(RED)), "question": WHEN, **fields})


def fault(response: httpx.Response) -> tuple[int, str, str | None]:
    """Returns status, code and field of an error, after checking that it has the documented shape."""
    body = response.json()
    assert list(body) == ["error"] and list(body["error"]) == ["message", "type", "param", "code"]
    status = response.status_code
    of_server = status == 424 or status >= 500
    kind = "rate_limit_error" if status == 429 else "server_error" if of_server else "invalid_request_error"
    assert body["error"]["type"] == kind
    assert body["error"]["message"]
    return status, body["error"]["code"], body["error"]["param"]


def events(response: httpx.Response) -> list[tuple[str, Any]]:
    """Returns the names and data of the events in a stream."""
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in response.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]
