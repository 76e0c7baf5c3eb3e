"""The paper profile from an empty cache to an answer: tiny random weights in the true formats, everything else real.

A loopback hub serves the four repositories and `omgm download` fetches them; then `omgm build-index`, `omgm doctor` and
`omgm serve`, in a process of its own, run on them without a network; `transformers serve` stands in for vLLM.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from transformers import CLIPTokenizer

from omgm.__main__ import main
from tests.fakes.hub import COMMIT, FakeHub, be_the_only_hub, serve_hub
from tests.fakes.images import image_bytes
from tests.fakes.knowledge_base import write_kb
from tests.fakes.listening import free_port
from tests.generators.test_openai_server import pytestmark, served  # noqa: F401  a fixture, and when it can run
from tests.paths import ROOT
from tests.retriever.models.test_cross_encoder import xlm_roberta
from tests.retriever.models.test_eva_clip import as_on_the_hub, golden, write


def eva_clip(folder: Path) -> Path:
    """Writes EVA-CLIP's hub layout with a CLIP tokenizer of letters, whose end of text is the highest of 40 ids."""
    settings, state, _ = golden("8b")
    write(folder, *as_on_the_hub(settings, state), shards=3)
    letters = "abcdefghilmnoprstu"
    pieces = [*letters, *(letter + "</w>" for letter in letters), "y", "y</w>", "<|startoftext|>", "<|endoftext|>"]
    CLIPTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]).save_pretrained(folder)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@contextmanager
def running(command: list[str], environment: dict[str, str], url: str) -> Iterator[None]:
    """Runs a server during the block, after waiting until it is ready."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"{url}/health/ready").is_success:
                    break
            except httpx.TransportError:
                assert process.poll() is None and time.monotonic() < deadline, "the service did not start"
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.slow
def test_from_an_empty_cache_to_an_answer(
    tmp_path: Path,
    blip2_folder: Path,
    served: tuple[str, str],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, llama = served
    repositories = {
        "org/eva": files(eva_clip(tmp_path / "eva")),
        "org/blip2": files(blip2_folder),
        "org/bge": files(xlm_roberta(tmp_path / "bge")),
        "org/llama": files(Path(llama)),
    }
    chat = f'base_url = "{server}"\nmodel = "{llama}"\ntokenizer = "org/llama@{COMMIT}"\n'
    profile = tmp_path / "small-paper.toml"
    profile.write_text(
        f'extends = "{ROOT / "configs" / "paper.toml"}"\ndevice = "cpu"\ndtype = "float32"\n'
        f'[encoder]\nmodel = "org/eva@refs/pr/1"\n[fusion]\nmodel = "org/blip2@{COMMIT}"\n'
        f'[sections]\nmodel = "org/bge@{COMMIT}"\n'
        f"[summarizer]\n{chat}max_tokens = 8\n[generator]\n{chat}max_tokens = 8\nmax_context_tokens = 5\n"
    )
    kb, images = write_kb(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    given = ["--profile", str(profile)]

    with serve_hub(FakeHub(repositories)) as hub:
        be_the_only_hub(hub, tmp_path / "cache", monkeypatch)
        assert main(["download", *given]) == 0
        # the weights of three models, and only the tokenizer of the generator
        models = [repositories[name] for name in ("org/eva", "org/blip2", "org/bge")]
        fetched = [name for name in hub.contents_asked() if name.endswith(".safetensors")]
        assert sorted(fetched) == sorted(name for model in models for name in model if name.endswith(".safetensors"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    index = ["--index", str(tmp_path / "index")]

    capsys.readouterr()
    sources = ["--kb", str(kb), "--images", str(images), "--out", index[1], "--json"]
    assert main(["build-index", *given, *sources]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"]["tokens"] == "int8"
    assert main(["doctor", *given, *index, "--json"]) == 0, capsys.readouterr().out

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "omgm", "serve", *given, *index]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_HUB_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with running([*command, "--port", str(port)], environment, url):
        asked = {"question": "How large is the area it covers?", "options": '{"k": 3}'}
        answer = httpx.post(f"{url}/answer", data=asked, files={"image": image_bytes("red")}, timeout=60)
    body = answer.json()
    assert answer.status_code == 200, body
    assert body["generator_error"] is None and body["generator"] == llama
    assert len(body["candidates"]) == 3 and body["evidence"][0]["text"]
    assert 0 <= body["evidence"][0]["scores"]["sim_t"] <= 1
    assert {"step1", "step2", "step3", "generate"} <= set(body["timings_ms"])
