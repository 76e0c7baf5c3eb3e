from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from omgm.profile import load_profile
from tests.paths import ROOT


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
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(expected)] * 2


def test_what_is_logged_before_the_service_runs_is_json_too() -> None:
    code = (
        "import logging; from omgm.__main__ import main;"
        """main(["serve", "--kb", "nowhere.csv", "--set", 'serving.log_format="json"']);"""
        "logging.getLogger('indexes').warning('late')"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    error, line = done.stderr.splitlines()
    assert error.startswith("omgm: error: --kb") and json.loads(line)["message"] == "late"
