"""A real OpenAI-compatible server: `transformers serve`, standing in for vLLM."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.fakes.listening import free_port
from tests.paths import ROOT

# `retriever.models` first: it makes transformers importable with a torchvision built for another PyTorch.
COMMAND = "import sys, retriever.models; from transformers.cli.transformers import main; sys.exit(main())"
MISSING = [name for name in ("openai", "accelerate", "fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
needs_server = pytest.mark.skipif(bool(MISSING), reason=f"needs transformers[serving]; missing: {MISSING}")


@contextmanager
def transformers_serve(folder: Path) -> Iterator[str]:
    """Yields the address of a server that loads the model folder named in a request; its own files go to `folder`."""
    port = free_port()
    options = ["--device", "cpu", "--port", str(port), "--host", "127.0.0.1"]
    command = [sys.executable, "-c", COMMAND, "serve", *options]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    (folder / "home" / "hub").mkdir(parents=True)  # listing models fails without it
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=ROOT)
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 90
            while not _healthy(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"transformers serve did not start: {(folder / 'log.txt').read_text()[-2000:]}")
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=1).is_success
    except httpx.HTTPError:
        return False
