from __future__ import annotations

import base64
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import pillow_heif
import pytest
from PIL import Image

from retriever.images import encoded
from serving.examples import read_examples
from serving.settings import ServingSettings
from tests.fakes.asking import GREEN, RED, WHEN, ask, ask_json, events, fault
from tests.fakes.images import image_bytes
from tests.fakes.service import World, served, wait_until
from tests.fakes.world import COLORS

# Answers


def address_of(image: Path, entity_id: str) -> str:
    return f"/entities/{hashlib.sha256(image.read_bytes()).hexdigest()[:16]}/image?id={quote(entity_id, safe='')}"


def test_answer(world: World, client: httpx.Client) -> None:
    response, image = ask(client), address_of(world.folder / "red.png", "https://kb/red")
    assert response.status_code == 200
    body = response.json()
    assert (body["answer"], body["confidence"], body["abstained"], body["generator"]) == (
        "1848",
        0.75,
        False,
        "last number",
    )
    entity = {
        "id": "https://kb/red",
        "title": "Redland",
        "url": "https://kb.example/Redland",
        "image": image,
    }
    assert body["entity"] == entity
    evidence = body["evidence"][0]
    assert (evidence["entity"], evidence["section"], evidence["section_index"]) == (entity, "History", 3)
    start, end = evidence["span"]
    assert evidence["text"][start:end] == "1848" and body["grounded"] is True
    assert body["evidence"][1]["section"] == "Wave" and body["evidence"][1]["span"] is None
    assert evidence["scores"] == {
        "sim_m": 0.75,
        "sim_t": 0.75,
        "score": 0.75,
    }  # was, the, treaty; not when
    first, last = body["candidates"][0], body["candidates"][-1]
    assert (first["entity_id"], first["title"], first["image"]) == ("https://kb/red", "Redland", image)
    assert (first["sim_c"], first["sim_m"], first["fused"]) == (1, 0.75, pytest.approx(0.9 + 0.1 * 0.75))
    assert (last["title"], last["sim_m"], last["image"]) == ("Blueland", None, None)
    assert list(body["timings_ms"]) == ["decode", "queue", "step1", "step2", "step3", "generate", "total"]
    assert (body["timings_ms"]["step1"], body["timings_ms"]["step2"]) == (1.5, 2.25)
    assert body["index"] == {"name": "three lands", "entities": 3}
    assert body["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize("format", ["HEIF", "AVIF", "JPEG2000"])
def test_what_phones_and_cameras_send_is_answered(client: httpx.Client, format: str) -> None:
    pillow_heif.register_heif_opener()
    body = ask(client, image_bytes(RED, (64, 64), format)).json()
    assert (body["answer"], body["entity"]["title"]) == ("1848", "Redland")


def test_json_is_multipart(client: httpx.Client) -> None:
    bodies = [ask(client, k=2, alpha=1, beta=0.5).json(), ask_json(client, k=2, alpha=1, beta=0.5).json()]
    for body in bodies:
        assert len(body["candidates"]) == 2
        del body["timings_ms"], body["request_id"]
    assert bodies[0] == bodies[1]


def noisy(color: str) -> bytes:
    """An image whose base64 has every character of the alphabet."""
    noise = Image.effect_noise((60, 40), 40).convert("RGB")
    return encoded(Image.blend(noise, Image.new("RGB", noise.size, color), 0.9))


def test_base64_without_data_uri(client: httpx.Client) -> None:
    data = noisy(GREEN)
    plain = base64.b64encode(data).decode()
    assert "+" in plain and "/" in plain
    url_safe = base64.urlsafe_b64encode(data).decode()
    for image in (
        plain,
        base64.encodebytes(data).decode(),
        url_safe,
        url_safe.rstrip("="),
        f"data:image/png;base64,{plain}",
    ):
        response = ask_json(client, image=image)
        assert (response.status_code, response.json()["entity"]["title"]) == (200, "Greenland")
    form = client.post("/answer", files={"image": (None, plain), "question": (None, WHEN)})
    assert form.json()["entity"]["title"] == "Greenland"


def test_the_largest_image_may_be_wrapped(tmp_path: Path) -> None:
    data = noisy(GREEN) + bytes(3_000_000)
    settings = ServingSettings(max_image_bytes=len(data))
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        assert ask_json(client, image=base64.encodebytes(data).decode()).status_code == 200


def test_retrieve(client: httpx.Client) -> None:
    body = ask(client, image_bytes(GREEN), path="/retrieve").json()
    assert body["entity"]["title"] == "Greenland" and body["evidence"][0]["span"] is None
    assert "answer" not in body and "generate" not in body["timings_ms"]


def test_abstains(client: httpx.Client) -> None:
    body = ask(client, question="What is the flag of one color?").json()
    assert (body["answer"], body["abstained"], body["confidence"]) == (None, True, 0.125)
    assert body["grounded"] is None
    assert body["evidence"][0]["section"] == "Flag"


def test_stream(client: httpx.Client) -> None:
    found = events(ask_json(client, stream=True))
    assert [name for name, _ in found] == ["retrieval", "answer", "answer", "answer", "answer", "done"]
    assert found[0][1]["entity"]["title"] == "Redland"
    assert "".join(data["text"] for name, data in found if name == "answer") == "1848"
    assert found[-1][1]["answer"] == "1848" and found[-1][1]["abstained"] is False
    assert (found[-1][1]["confidence"], found[-1][1]["grounded"]) == (0.75, True)  # as without streaming
    assert found[-1][1]["evidence"][0]["span"] == ask_json(client).json()["evidence"][0]["span"] is not None
    assert [name for name, _ in events(ask(client, path="/retrieve", stream=True))] == ["retrieval", "done"]


def test_stream_that_breaks_says_so(client: httpx.Client) -> None:
    choke = "When did the treaty break?"
    found = events(ask(client, question=choke, stream=True, on_generator_error="fail"))
    assert [name for name, _ in found] == ["retrieval", "answer", "error"]
    assert found[-1][1]["error"]["code"] == "internal_error" and "secret" not in str(found)
    found = events(ask(client, question=choke, stream=True))
    assert [name for name, _ in found] == ["retrieval", "answer", "done"]
    assert found[-1][1]["answer"] is None and found[-1][1]["generator_error"]["code"] == "internal_error"
    assert "secret" not in str(found)
    assert fault(ask(client, b"not an image", stream=True)) == (415, "not_an_image", "image")


def test_concurrent_requests_get_their_own_answers(world: World, client: httpx.Client) -> None:
    colors = COLORS * 4
    with ThreadPoolExecutor(12) as pool:
        responses = list(pool.map(lambda color: ask(client, image_bytes(color)), colors))
    assert [response.json()["entity"]["title"] for response in responses] == [
        f"{color.capitalize()}land" for color in colors
    ]


# Load and health


def test_time_out(tmp_path: Path) -> None:
    with (
        served(tmp_path, ServingSettings(timeout_s=0.5)) as world,
        httpx.Client(base_url=world.url, trust_env=False) as client,
    ):
        world.retriever.gate.clear()
        assert fault(ask(client)) == (504, "timeout", None)
        # The batch started after its request: a later 200 shows that it has ended only once it has counted as stuck.
        wait_until(lambda: client.get("/health/ready").status_code == 503)
        world.retriever.gate.set()
        wait_until(lambda: client.get("/health/ready").status_code == 200)
        wait_until(lambda: ask(client).status_code == 200)  # on a busy machine, half a second may be too short again


def test_a_full_service_turns_away_and_forgets_who_left(tmp_path: Path) -> None:
    settings = ServingSettings(max_queue=1, max_batch=1)
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        world.retriever.gate.clear()

        def wait_for(waiting: int, batches: int) -> None:
            wait_until(lambda: len(world.retriever.batches) >= batches)
            wait_until(lambda: client.get("/health/ready").json()["waiting"] == waiting)

        with ThreadPoolExecutor(2) as pool:
            running = pool.submit(ask, client, question="running")
            wait_for(waiting=0, batches=1)
            with pytest.raises(httpx.ReadTimeout):  # this caller times out and disconnects
                ask(httpx.Client(base_url=world.url, trust_env=False, timeout=0.3), question="impatient")
            wait_for(waiting=0, batches=1)
            waiting = pool.submit(ask, client, question="patient")
            wait_for(waiting=1, batches=1)
            response = ask(client, question="too many")
            assert fault(response) == (429, "queue_full", None)
            assert int(response.headers["retry-after"]) >= 1
            world.retriever.gate.set()
            assert [running.result().status_code, waiting.result().status_code] == [200, 200]
        assert world.retriever.batches == [["running"], ["patient"]]


def test_a_dead_worker_is_not_ready(tmp_path: Path) -> None:
    with served(tmp_path) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["status"], ready.json()["index"]["entities"]) == (200, "ready", 3)
        assert fault(ask(client, question="fatal")) == (503, "not_ready", None)
        response = client.get("/health/ready")
        assert fault(response) == (503, "not_ready", None)
        assert "died" in response.json()["error"]["message"]
        assert fault(ask(client)) == (503, "not_ready", None)
        assert client.get("/health/live").status_code == 200


def test_request_ids(client: httpx.Client) -> None:
    given = client.get("/health/live", headers={"x-request-id": "run-7.a"})
    assert given.headers["x-request-id"] == "run-7.a"
    for bad in ("a b", "x" * 65, ""):
        assert len(client.get("/nothing", headers={"x-request-id": bad}).headers["x-request-id"]) == 32


# Images, examples, documents


def test_entity_images(world: World, client: httpx.Client) -> None:
    address = address_of(world.folder / "red.png", "https://kb/red")
    response = client.get(address)
    assert (response.status_code, response.headers["content-type"]) == (200, "image/png")
    assert response.content == (world.folder / "red.png").read_bytes()
    assert "sandbox" in response.headers["content-security-policy"]
    assert response.headers["cache-control"] == "no-store"  # so that one that is removed is nowhere any more
    another = address.replace("red", "green")
    for wrong in (another, address.replace("red", "blue"), address.partition("?")[0], "/entities/0/image"):
        assert fault(client.get(wrong)) == (404, "not_found", "id")


def test_info(client: httpx.Client) -> None:
    found = client.get("/info").json()
    assert re.fullmatch(r"\d+\.\d+.*", found.pop("version"))
    limits = {"max_image_bytes": 100_000, "max_image_pixels": 1_000_000, "max_question_chars": 100, "max_k": 100}
    assert found == {
        "index": {"name": "three lands", "entities": 3},
        "generator": "last number",
        "limits": {**limits, "max_images": 4, "timeout_s": 30.0},
        "modes": ["retrieve"],
        "agent_limits": None,
    }


def test_examples(tmp_path: Path, client: httpx.Client) -> None:
    assert client.get("/examples").json() == []
    folder = tmp_path / "demo"
    (folder / "queries").mkdir(parents=True)
    for name in ("a", "b"):
        (folder / "queries" / f"{name}.jpg").write_bytes(image_bytes(RED, format="JPEG"))
    rows = 'question,answer,dataset_image_ids\n"When, then?",1,a|b\nWho?,2,a\nWhere?,3,b\nGone?,4,c\n'
    (folder / "test.csv").write_text(rows, encoding="utf-8")
    settings = ServingSettings(examples_dir=folder)
    with served(tmp_path, settings) as world, httpx.Client(base_url=world.url, trust_env=False) as other:
        examples = other.get("/examples").json()
        assert examples == [
            {"image": "/examples/a", "question": "When, then?"},
            {"image": "/examples/b", "question": "Where?"},
        ]
        assert other.get("/examples/a").headers["content-type"] == "image/jpeg"
        assert fault(other.get("/examples/c")) == (404, "not_found", "name")
        assert other.get("/examples/..%2Ftest.csv").status_code == 404
    (folder / "examples.csv").write_text("question,dataset_image_ids\nWho?,b\n", encoding="utf-8")  # all of them
    assert {name: question for name, (_, question) in read_examples(folder).items()} == {"b": "Who?"}


def test_examples_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"test\.csv does not exist"):
        World(tmp_path, ServingSettings(examples_dir=tmp_path))
    (tmp_path / "test.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must have the columns question, dataset_image_ids"):
        World(tmp_path, ServingSettings(examples_dir=tmp_path))


def test_documents(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/answer", "/retrieve", "/health/live", "/health/ready", "/entities/{version}/image", "/examples"} <= set(
        paths
    )
    content = paths["/answer"]["post"]["requestBody"]["content"]
    assert set(content) == {"multipart/form-data", "application/json"}
    choice = content["application/json"]["schema"]["properties"]["on_generator_error"]
    assert (choice["enum"], choice["default"]) == (["degrade", "fail"], "degrade")
    assert "on_generator_error" in str(content["multipart/form-data"])
    assert "424" in paths["/answer"]["post"]["responses"]
    assert paths["/entities/{version}/image"]["get"]["responses"].keys() == {"200", "401", "403", "404", "421", "422"}
    assert "HTTPValidationError" not in client.get("/openapi.json").text  # all errors have the same shape


def test_pages_are_self_contained(client: httpx.Client) -> None:
    """In the browser, the content security policy enforces that nothing is loaded from elsewhere (test_page.py)."""
    files = {
        "/": ["page.css", "page.js"],
        "/docs": ["swagger-ui.css", "swagger-ui-bundle.js", "docs.js"],
    }
    for path, parts in files.items():
        page = client.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert page.headers["content-type"].startswith("text/html")
        loaded = re.findall(r'(?:src|href)="(?!data:|docs")([^"]+)"', page.text)
        assert loaded == parts
        for part in parts:
            expected = "text/css" if part.endswith(".css") else "text/javascript"
            assert client.get(f"/{part}").headers["content-type"].startswith(expected)
    assert client.get("/redoc").status_code == 404  # FastAPI's page would load scripts from a CDN


def test_index_without_candidates(tmp_path: Path) -> None:
    with served(tmp_path) as world, httpx.Client(base_url=world.url, trust_env=False) as client:
        found = np.empty((1, 0), np.float32), np.empty((1, 0), np.int64)
        world.index.search = lambda vectors, k, filter=(): found  # type: ignore[method-assign]
        body = ask(client).json()
        assert (body["answer"], body["abstained"], body["entity"]) == (None, True, None)
        assert (body["evidence"], body["candidates"]) == ([], [])
