"""The embedded profile starts without libraries that only larger profiles, or other commands, need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.processes import run_python

CODE = """
import os, sys
from evaluation.recognition import Trial, fit
from omgm.__main__ import main
from retriever.recognition import Signs

os.chdir(sys.argv[1])
assert main(["build-index", "--kb", "kb.json", "--images", "images", "--out", "new"]) == 0
assert main(["ask", "--index", "new", "photo.jpg", "What is the capital of this country?"]) == 0
fit([Trial(f"{number}", Signs(lead=number % 3), True, number % 2 == 0) for number in range(9)])  # as larger builds do
unused = {"transformers", "torch._dynamo", "torchvision", "sklearn", "scipy", "pandas", "fastapi", "huggingface_hub"}
print("imported:", sorted(unused & set(sys.modules)))
"""


@pytest.mark.slow
def test_a_build_and_an_answer_import_no_model_library_but_pytorch(example_folder: Path) -> None:
    done = run_python("-c", CODE, example_folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported: []"
