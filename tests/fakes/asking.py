"""Requests to the service, and the errors that it answers."""

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
    body = response.json()
    assert list(body) == ["error"] and list(body["error"]) == ["message", "type", "param", "code"]
    expected = {429: "rate_limit_error", 500: "server_error", 503: "server_error", 504: "server_error"}
    assert body["error"]["type"] == expected.get(response.status_code, "invalid_request_error")
    assert body["error"]["message"]
    return response.status_code, body["error"]["code"], body["error"]["param"]
