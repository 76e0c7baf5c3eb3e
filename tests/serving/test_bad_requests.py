"""Requests that are refused: each fault has its status, its code and the offending field."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from PIL import Image

from retriever.images import encoded
from tests.fakes.asking import GREEN, LIMITS, RED, WHEN, ask, ask_json, fault
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.listening import answering
from tests.fakes.service import served

# Faults of the image


def test_base64_faults(client: httpx.Client) -> None:
    response = ask_json(client, image="photo.jpg")
    assert fault(response) == (422, "bad_image_url", "image")
    message = "image must be base64, a data URI or an http(s) URL; as base64 it is malformed: "
    assert response.json()["error"]["message"].startswith(message)
    response = client.post(
        "/answer", files={"image": (None, "photo.jpg"), "question": (None, WHEN)}
    )  # without curl's @
    assert response.json()["error"]["message"].endswith("to send a file, use a form (curl: -F image=@photo.jpg)")
    assert fault(ask_json(client, image="hello")) == (422, "bad_image_url", "image")
    assert fault(ask_json(client, image="äöü=")) == (422, "bad_image_url", "image")
    assert fault(ask_json(client, image=" \n")) == (422, "missing_image", "image")
    assert fault(ask_json(client, image=base64.b64encode(b"hello, this is text").decode())) == (
        415,
        "not_an_image",
        "image",
    )
    response = ask_json(client, image="/srv/photos/1234")  # decodes, too
    assert fault(response) == (422, "bad_image_url", "image")
    assert "to send a file, use a form" in response.json()["error"]["message"]
    assert fault(ask_json(client, image=base64.b64encode(image_bytes(RED)[:60]).decode())) == (
        400,
        "broken_image",
        "image",
    )
    assert fault(ask_json(client, image="A" * 140_000)) == (413, "image_too_large", "image")
    assert fault(ask_json(client, image="A" * 1_000_000)) == (413, "image_too_large", "image")


def test_image_faults(client: httpx.Client) -> None:
    noise = Image.effect_noise((100, 100), 80)
    data = encoded(noise)
    assert fault(ask(client, b"hello")) == (415, "not_an_image", "image")
    assert fault(ask(client, data[: len(data) // 2])) == (400, "broken_image", "image")
    assert fault(ask(client, data + b"\0" * 100_000)) == (413, "image_too_large", "image")
    assert fault(ask(client, b"\0" * 1_000_000)) == (413, "image_too_large", "image")
    assert fault(ask(client, image_bytes(RED, (2000, 1000)))) == (413, "too_many_pixels", "image")
    assert fault(ask_json(client, image=data_uri(b"hello"))) == (415, "not_an_image", "image")
    assert fault(ask_json(client, image=data_uri(data[:5000]))) == (400, "broken_image", "image")
    assert fault(ask_json(client, image=data_uri(b"\0" * 110_000))) == (413, "image_too_large", "image")
    assert fault(ask_json(client, image=data_uri(b"\0" * 1_000_000))) == (413, "image_too_large", "image")
    assert fault(ask_json(client, image="data:image/png;base64,@@@")) == (400, "malformed_data_uri", "image")


def test_an_empty_image(client: httpx.Client) -> None:
    assert fault(client.post("/answer", files={"image": ("a.png", b"")}, data={"question": WHEN})) == (
        422,
        "missing_image",
        "image",
    )
    assert fault(ask_json(client, image="")) == (422, "missing_image", "image")
    assert fault(ask_json(client, image=data_uri(b""))) == (422, "missing_image", "image")
    assert fault(client.post("/answer", json={"question": WHEN, "mode": "auto"}))[1] == "mode_not_available"


def test_neither_image_nor_question(client: httpx.Client) -> None:
    for response in (
        client.post("/answer", json={"image": None}),
        client.post("/retrieve", files={"options": (None, "{}")}),
    ):
        assert fault(response) == (422, "missing_question", "question")
        message = "question is missing: send one, about an image or without an image"
        assert response.json()["error"]["message"] == message


def test_a_question_without_an_image(client: httpx.Client) -> None:
    """As JSON, null or left out, as a form, and as a stream."""
    question = "When was the treaty of Redland?"
    answers = [
        client.post("/answer", json={"question": question}),
        client.post("/answer", json={"question": question, "image": None}),
        client.post("/answer", files={"question": (None, question)}),
    ]
    assert {(answer.json()["answer"], answer.json()["entity"]["title"]) for answer in answers} == {("1848", "Redland")}
    assert list(answers[0].json()["timings_ms"]) == ["decode", "queue", "step1", "step3", "generate", "total"]
    assert client.post("/retrieve", json={"question": question}).json()["evidence"][0]["section"] == "History"
    streamed = client.post("/answer", json={"question": question, "stream": True}).text
    assert "".join(re.findall(r'"text": ?"(\d)"', streamed)) == "1848"
    assert fault(client.post("/answer", json={"question": "x" * 600})) == (422, "question_too_long", "question")


def test_an_upload_without_length_is_stopped_at_the_limit(client: httpx.Client) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        head = '--b\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        yield head.encode()
        for _ in range(20_000):
            sent += 65536
            yield b"\0" * 65536

    headers = {"content-type": "multipart/form-data; boundary=b"}
    with suppress(httpx.NetworkError):  # the server may close the connection before the client reads its answer
        assert fault(client.post("/answer", content=endless(), headers=headers)) == (413, "image_too_large", "image")
    assert sent < 100 * 2**20


@pytest.fixture
def image_host() -> Iterator[str]:
    class Images(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            moved = self.path == "/moved"
            self.send_response(302 if moved else 200 if self.path != "/none" else 404)
            if moved:
                self.send_header("Location", "/green.png")
            self.end_headers()
            self.wfile.write(b"\0" * 200_000 if self.path == "/large" else image_bytes(GREEN))

        def log_message(self, *args: object) -> None:
            """Logs nothing."""

    server = HTTPServer(("127.0.0.1", 0), Images)
    with answering(server):
        yield f"127.0.0.1:{server.server_port}"


def test_images_by_url(tmp_path: Path, client: httpx.Client, image_host: str) -> None:
    url = f"http://{image_host}"
    assert fault(ask_json(client, image=f"{url}/green.png")) == (422, "host_not_allowed", "image")
    assert fault(ask_json(client, image="file:///etc/passwd")) == (422, "bad_image_url", "image")
    assert fault(ask_json(client, image="photo.png")) == (422, "bad_image_url", "image")
    settings = LIMITS.model_copy(update={"image_hosts": (image_host,)})
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as allowed:
        assert ask_json(allowed, image=f"{url}/green.png").json()["entity"]["title"] == "Greenland"
        assert fault(ask_json(allowed, image=f"{url}/large")) == (413, "image_too_large", "image")
        assert fault(ask_json(allowed, image=f"{url}/none")) == (422, "image_fetch_failed", "image")
        assert ask_json(allowed, image=f"{url}/moved").json()["entity"]["title"] == "Greenland"
        assert fault(ask_json(allowed, image=f"http://user@{image_host}/green.png")) == (
            422,
            "bad_image_url",
            "image",
        )
        assert fault(ask_json(allowed, image="http://127.0.0.1:9/a.png")) == (422, "host_not_allowed", "image")


def test_data_uris_as_browsers_and_templates_write_them(client: httpx.Client) -> None:
    uri = data_uri(image_bytes(GREEN))
    head, _, payload = uri.partition(",")
    for image in (uri, f"\n  {uri}\n", f"{head},{quote(payload, safe='')}", f" {payload}"):
        assert ask_json(client, image=image).json()["entity"]["title"] == "Greenland"
    assert fault(ask_json(client, image=" file:///etc/passwd")) == (422, "bad_image_url", "image")
    assert fault(ask_json(client, image=f"{head},%zz")) == (400, "malformed_data_uri", "image")


# Faults of the other fields

FIELDS = [
    ({"question": ""}, 422, "empty_question", "question"),
    ({"question": " \n\t"}, 422, "empty_question", "question"),
    ({"question": "x" * 101}, 422, "question_too_long", "question"),
    ({"question": None}, 422, "missing_question", "question"),
    ({"question": 7}, 422, "wrong_type", "question"),
    ({"image": 7}, 422, "wrong_type", "image"),
    ({"k": "5"}, 422, "wrong_type", "k"),
    ({"k": 5.5}, 422, "wrong_type", "k"),
    ({"k": True}, 422, "wrong_type", "k"),
    ({"alpha": "0.5"}, 422, "wrong_type", "alpha"),
    ({"beta": [0.5]}, 422, "wrong_type", "beta"),
    ({"stream": "yes"}, 422, "wrong_type", "stream"),
    ({"on_generator_error": 1}, 422, "out_of_range", "on_generator_error"),
    ({"on_generator_error": "explode"}, 422, "out_of_range", "on_generator_error"),
    ({"k": 0}, 422, "out_of_range", "k"),
    ({"k": -1}, 422, "out_of_range", "k"),
    ({"k": 101}, 422, "out_of_range", "k"),
    ({"k": 10**30}, 422, "out_of_range", "k"),
    ({"alpha": 1.01}, 422, "out_of_range", "alpha"),
    ({"alpha": -0.01}, 422, "out_of_range", "alpha"),
    ({"beta": 2}, 422, "out_of_range", "beta"),
    ({"top_k": 5}, 422, "unknown_option", "top_k"),
]


@pytest.mark.parametrize(("fields", "status", "code", "param"), FIELDS)
def test_field_faults(client: httpx.Client, fields: dict[str, Any], status: int, code: str, param: str) -> None:
    assert fault(ask_json(client, **fields)) == (status, code, param)
    if not {"question", "image"} & set(fields):
        assert fault(ask(client, **fields)) == (status, code, param)
    elif isinstance(fields.get("question"), str):
        assert fault(ask(client, question=fields["question"])) == (status, code, param)


def test_ranges_are_said_in_words(client: httpx.Client) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"alpha": 1.5}, "alpha must be at most 1, got 1.5"),
        ({"budget": {"seconds": 0}}, "budget.seconds must be more than 0, got 0"),
        ({"budget": 3}, "budget must be an object"),
        ({"budget": {"hours": 3}}, "unknown field 'hours' in budget"),
        ({"boxes": [[0.0] * 4] * 51}, "boxes has 51 items; at most 50 are accepted"),
    ]
    for fields, message in cases:
        assert ask_json(client, **fields).json()["error"]["message"] == message


def test_limits_themselves_pass(client: httpx.Client) -> None:
    for fields in (
        {"question": "x" * 100},
        {"k": 100},
        {"k": 1},
        {"alpha": 0},
        {"beta": 1.0},
        {"alpha": None, "k": None},
    ):
        assert ask_json(client, **fields).status_code == 200


def test_not_a_number(client: httpx.Client) -> None:
    for text in ("NaN", "Infinity", "-Infinity"):
        response = client.post(
            "/answer", files={"image": image_bytes(RED)}, data={"question": WHEN, "options": f'{{"alpha": {text}}}'}
        )
        assert fault(response) == (422, "out_of_range", "alpha")


def test_lone_surrogate(client: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    body = b'{"image": "data:", "question": "\\ud800"}'
    assert fault(client.post("/answer", content=body, headers=headers)) == (422, "wrong_type", "question")
    assert fault(client.post("/answer", content=b'{"\\ud800": 1}', headers=headers)) == (422, "unknown_option", "?")


def test_unknown_options_name_the_known(client: httpx.Client) -> None:
    message = ask(client, kk=1).json()["error"]["message"]
    known = "alpha, before, beta, boxes, budget, entity, filter, k, mode, on_generator_error, stream, thoughts"
    assert message == f"unknown field 'kk'; known fields are {known}"
    message = ask_json(client, kk=1).json()["error"]["message"]
    known = "alpha, before, beta, boxes, budget, entity, filter, image, images, k, mode, on_generator_error, question"
    assert message == f"unknown field 'kk'; known fields are {known}, stream, thoughts"
    response = client.post("/answer", files={"image": image_bytes(RED)}, data={"question": WHEN, "k": "5"})
    assert fault(response) == (422, "unknown_option", "k")
    assert response.json()["error"]["message"].endswith(
        'options, question; write k into options, such as options={"k": …}'
    )


def test_malformed_bodies(client: httpx.Client) -> None:
    def post(body: bytes, kind: str) -> tuple[int, str, str | None]:
        return fault(client.post("/answer", content=body, headers={"content-type": kind}))

    assert post(b"{", "application/json") == (400, "malformed_json", None)
    assert post(b"\xff\xfe{", "application/json") == (400, "malformed_json", None)
    assert post(b"[" * 100_000, "application/json") == (400, "malformed_json", None)
    assert post(b'{"question": "a", "question": "b"}', "application/json") == (400, "malformed_json", None)
    assert post(b"[]", "application/json") == (422, "wrong_type", None)
    assert post(b"{}", "application/json; charset=utf-8") == (422, "missing_question", "question")
    assert post(b"hello", "multipart/form-data") == (400, "malformed_multipart", None)
    assert post(b"hello", "multipart/form-data; boundary=b") == (400, "malformed_multipart", None)
    cut = b'--b\r\nContent-Disposition: form-data; name="question"\r\n\r\nWhen'
    assert post(cut, "multipart/form-data; boundary=b") == (400, "malformed_multipart", None)
    assert post(b"", "multipart/form-data; boundary=b") == (400, "malformed_multipart", None)
    assert post(b"question=a", "application/x-www-form-urlencoded") == (415, "unsupported_media_type", None)
    assert fault(client.post("/answer")) == (415, "unsupported_media_type", None)
    files = {"image": image_bytes(RED)}
    assert fault(client.post("/answer", files=files, data={"question": WHEN, "options": "{"})) == (
        400,
        "malformed_json",
        "options",
    )
    assert fault(client.post("/answer", files=files, data={"question": WHEN, "options": "5"})) == (
        422,
        "wrong_type",
        "options",
    )
    assert fault(client.post("/answer", files=files, data={"question": ["a", "b"]})) == (
        422,
        "duplicate_field",
        "question",
    )
    assert fault(client.post("/answer", files=files)) == (422, "missing_question", "question")
    for path in ("/answer?k=5", "/retrieve?k=5&a=b"):
        assert fault(client.post(path, files=files, data={"question": WHEN})) == (422, "unknown_option", "k")
    response = client.post(
        "/answer", files=files, data={"question": WHEN}, headers={"content-type": "multipart/form-data"}
    )
    assert fault(response) == (400, "malformed_multipart", None)
    assert response.json()["error"]["message"].startswith("the content type has no boundary; ")
    both: Any = [("image", image_bytes(RED)), ("question", (None, WHEN)), ("question", (None, WHEN))]
    assert fault(client.post("/answer", files=both)) == (422, "duplicate_field", "question")
    assert fault(client.post("/answer", files=files | {"question": ("q", b"When?")})) == (422, "wrong_type", "question")
    assert fault(client.post("/answer", files={"question": ("q.txt", b"When?")})) == (422, "wrong_type", "question")
    assert post(b"{}", "text/json") == (415, "unsupported_media_type", None)


def test_compressed_bodies(client: httpx.Client) -> None:
    row = {"image": data_uri(image_bytes(RED)), "question": WHEN}
    for path in ("/answer", "/retrieve"):
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        response = client.post(path, content=gzip.compress(json.dumps(row).encode()), headers=headers)
        assert fault(response) == (415, "unsupported_media_type", None)
        assert "gzip" in response.json()["error"]["message"] and response.headers["accept-encoding"] == "identity"
        assert client.post(path, json=row, headers={"content-encoding": "identity"}).status_code == 200


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream"])
@pytest.mark.parametrize("name", ["", "; filename*=UTF-8''%C3%BC.png"])
def test_a_file_without_a_plain_name(client: httpx.Client, kind: str, name: str) -> None:
    """As sent by Apache's and aiohttp's clients, and by those that encode names according to RFC 5987."""
    head = f'--b\r\nContent-Disposition: form-data; name="image"{name}\r\nContent-Type: {kind}\r\n\r\n'
    options = '--b\r\nContent-Disposition: form-data; name="options"\r\nContent-Type: application/json\r\n\r\n{"k": 2}'
    question = f'\r\n--b\r\nContent-Disposition: form-data; name="question"\r\n\r\n{WHEN}\r\n--b--\r\n'
    body = head.encode() + image_bytes(GREEN) + f"\r\n{options}{question}".encode()
    response = client.post("/answer", content=body, headers={"content-type": "multipart/form-data; boundary=b"})
    assert response.json()["entity"]["title"] == "Greenland" and len(response.json()["candidates"]) == 2


def test_a_file_that_says_nothing_of_itself(client: httpx.Client) -> None:
    body = b"--b\r\nContent-Type: image/png\r\n\r\n" + image_bytes(GREEN) + b"\r\n--b--\r\n"
    response = client.post("/answer", content=body, headers={"content-type": "multipart/form-data; boundary=b"})
    assert fault(response) == (400, "malformed_multipart", None)


def test_text_that_is_not_utf8(client: httpx.Client) -> None:
    for field in ("question", "options"):
        parts: dict[str, Any] = {"image": ("a.png", image_bytes(RED)), "question": (None, WHEN)}
        parts[field] = (None, "Где?".encode("cp1251"))
        response = client.post("/answer", files=parts)
        assert fault(response) == (400, "malformed_multipart", field)
        assert response.json()["error"]["message"].startswith(f"{field} is not UTF-8; ")


def test_unknown_paths_and_methods(client: httpx.Client) -> None:
    response = client.get("/nothing")
    assert fault(response) == (404, "not_found", None)
    assert response.json()["error"]["message"] == "GET /nothing: Not Found; /docs lists the routes"
    chat = "/v1/chat/completions"
    for path, advice in (
        ("/chat/completions", chat), ("/v1//chat/completions", chat), ("/v1/v1/chat/completions", chat),
        ("/api/chat/completions/", chat), ("/openai/deployments/omgm/chat/completions", chat), ("/answer/", "/answer"),
        ("/omgm/answer", "/answer"),
    ):  # fmt: skip
        assert client.post(path).json()["error"]["message"] == f"POST {path}: Not Found; use {advice}"
    response = client.get("/answer")
    assert fault(response) == (405, "method_not_allowed", None)
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["message"] == "GET /answer: Method Not Allowed; use POST"
    response = client.patch("/entities/a")  # three routes
    assert (response.status_code, response.headers["allow"]) == (405, "DELETE, GET, HEAD, PUT")


def test_head_is_get_without_its_body(client: httpx.Client) -> None:
    for path in (
        "/",
        "/docs",
        "/info",
        "/health/live",
        "/v1/models",
        "/openapi.json",
        ask(client).json()["entity"]["image"],
    ):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.content))
    assert client.head("/answer").status_code == 405
    assert client.head("/nothing").status_code == 404


def test_internal_errors_keep_their_internals(client: httpx.Client) -> None:
    response = ask(client, question="poison")
    assert fault(response) == (500, "internal_error", None)
    assert "secret" not in response.text and response.headers["x-request-id"] in response.text
    assert ask(client).status_code == 200
