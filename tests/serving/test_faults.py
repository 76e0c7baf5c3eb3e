"""Faults in the table of docs/serving.md that no other test covers."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import uvicorn

from generators.guard import GuardedGenerator
from generators.reader.reader import ExtractiveReader
from omgm.opening import open_retriever
from omgm.parts import build_generator
from omgm.profile import load_profile
from retriever.types import Evidence, Generation, GenerationRequest
from serving.app import create_app
from serving.errors import ApiError
from serving.settings import ServingSettings
from tests.fakes.service import World, listening, post, served, wait_until


def test_the_index_folder_is_removed(example_folder: Path) -> None:
    profile = load_profile("embedded")
    retriever = open_retriever(profile, example_folder / "index")
    app = create_app(retriever, build_generator(profile), ServingSettings())
    photo = next(example_folder.glob("*.jpg")).read_bytes()

    def ask(client: httpx.Client) -> httpx.Response:
        question = {"question": "What is the capital of this country?"}
        return client.post("/answer", files={"image": photo}, data=question)

    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, verify=False, timeout=30) as client:
        before = ask(client)
        assert before.status_code == 200
        image = before.json()["entity"]["image"]
        assert client.get(image).status_code == 200
        shutil.rmtree(example_folder / "index")
        after = ask(client)
        assert after.status_code == 200
        texts = [(found.json()["answer"], found.json()["evidence"][0]["text"]) for found in (before, after)]
        assert texts[0] == texts[1]
        response = client.get(image)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
        assert client.get("/health/ready").status_code == 200


class EndingReader(ExtractiveReader):
    """A reader that is `lost` while it is being replaced, as one in another process may be."""

    lost = False

    def read_all(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        if self.lost:
            raise ApiError(503, "not_ready", "the process has ended", headers={"Retry-After": "5"})
        return super().read_all(requests)


def test_the_process_that_reads_ends(tmp_path: Path) -> None:
    reader = EndingReader()
    with served(tmp_path, generator=GuardedGenerator(reader, 0.5)) as world:
        assert post(world.url).json()["answer"] == "1848"
        reader.lost = True
        failed = post(world.url).json()
        assert (failed["answer"], failed["entity"]["title"]) == (None, "Redland")
        assert failed["generator_error"]["code"] == "generator_unavailable"
        reader.lost = False
        assert post(world.url).json()["answer"] == "1848"
    evidence = Evidence("r", "Redland", "", "The treaty of Redland was signed in 1848.")
    [answer] = asyncio.run(reader.generate([GenerationRequest("When was the treaty signed?", None, evidence)]))
    assert answer.answer == "1848"  # the service used a copy of the reader, which serves others as before


def test_shutting_down_finishes_what_runs(tmp_path: Path) -> None:
    """SIGTERM sets `should_exit`, as here."""
    world = World(tmp_path)
    config = uvicorn.Config(
        world.app, host="127.0.0.1", port=0, log_level="error", loop="asyncio", timeout_graceful_shutdown=20
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    world.retriever.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(post, url, "running")
        wait_until(lambda: world.retriever.batches == [["running"]])
        waiting = pool.submit(post, url, "waiting")
        wait_until(lambda: httpx.get(f"{url}/health/ready", verify=False).json()["waiting"] == 1)
        server.should_exit = True
        time.sleep(0.3)
        with pytest.raises(httpx.ConnectError):
            post(url)
        world.retriever.gate.set()
        assert [running.result().status_code, waiting.result().status_code] == [200, 200]
    thread.join(10)
    assert not thread.is_alive()
