from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from omgm.profile import load_profile
from tests.fakes.listening import free_port
from tests.fakes.processes import run_python
from tests.paths import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("given", "expected"), [(None, 1), ("2", 2)])
def test_models_of_the_embedded_service_take_one_thread_unless_told_otherwise(given: str | None, expected: int) -> None:
    threads = load_profile("embedded").serving.model_threads
    code = (
        f"from omgm.commands.serve import limit_threads; limit_threads({threads});"
        "import torch, faiss; print(torch.get_num_threads(), faiss.omp_get_max_threads())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if given is not None:
        environment["OMP_NUM_THREADS"] = given
    done = run_python("-W", "ignore", "-c", code, environment=environment, check=True)
    assert done.stdout.split() == [str(expected)] * 2


@pytest.mark.slow
def test_what_is_logged_before_the_service_runs_is_json_too() -> None:
    given = ["serve", "--kb", "nowhere.csv", "--port", str(free_port()), "--set", 'serving.log_format="json"']
    code = (
        "import logging, sys, warnings; from omgm.__main__ import main; main(sys.argv[1:]);"
        "logging.getLogger('indexes').warning('late'); warnings.warn('Corrupt EXIF data')"  # as Pillow does
    )
    done = run_python("-c", code, *given, check=True)
    error, *lines = done.stderr.splitlines()
    assert error.startswith("omgm: error: --kb")
    late, warned = (json.loads(line) for line in lines)
    assert late["message"] == "late" and "Corrupt EXIF data" in warned["message"]


@pytest.mark.slow
def test_the_log_of_a_service_has_no_query_strings(example_folder: Path) -> None:
    command = [sys.executable, "-m", "omgm", "serve", "--verbose", "--index", str(example_folder / "index")]
    command += ["--set", "serving.processes=0"]  # others take seconds to start
    port = free_port()
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as service:
        assert service.stdout is not None
        try:
            assert any(line.startswith("Serving ") for line in service.stdout)
            asked = {"x-request-id": "run-7"}
            assert httpx.get(f"http://127.0.0.1:{port}/info?api_key=omgm-secret", headers=asked).status_code == 200
        finally:
            service.terminate()
        log = service.stdout.read()
    assert service.returncode == 0
    assert "request run-7: GET /info 200 " in log and "omgm-secret" not in log
