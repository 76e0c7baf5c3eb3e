from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.paths import ROOT

DESCRIBES_AN_OPERATOR = """\
import torch
@torch.library.register_fake("torchvision::nms")
def nms(dets, scores, iou_threshold): return dets
"""
"""A stand-in for `import torchvision`, which fails unless the operator already exists."""


CASES = {
    "side effects": """\
before = list(sys.meta_path)
import retriever.pipeline, retriever.fusion
print(sys.meta_path == before, 'torchvision' in sys.modules, 'retriever.models' in sys.modules)""",
    "real": """\
before = list(sys.meta_path)
import retriever.models
print(sys.meta_path == before)
import torchvision; print(torch.ops.torchvision.nms)""",
    "no library": """\
sys.path.insert(0, fake)
torch.version.cuda = None
import retriever.models, torchvision; print(torchvision.__file__)""",
    "operators exist": """\
sys.path.insert(0, fake)
torch.version.cuda = None
torch.library.define('torchvision::nms', '(Tensor a, Tensor b, float c) -> Tensor')
import retriever.models, torchvision; print(torch.ops.torchvision.nms.default._schema)""",
    "CUDA build": """\
sys.path.insert(0, fake)
torch.version.cuda = '13.0'; import retriever.models
print(hasattr(torch.ops.torchvision, 'nms'))""",
}
APART = """\
import json, os, sys, torch
cases, fake = json.loads(sys.argv[1]), sys.argv[2]
for name, code in cases.items():
    print(f'== {name}', flush=True)
    if not (child := os.fork()):
        exec(code); sys.stdout.flush(); os._exit(0)
    assert not os.waitpid(child, 0)[1]
"""
"""Runs each case in a process that has imported PyTorch and nothing else."""


def run(code: str, *arguments: str) -> str:
    """Runs `code` in a fresh interpreter; returns its output."""
    result = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a torchvision whose library does not load."""
    folder = tmp_path_factory.mktemp("fake")
    package = folder / "torchvision"
    package.mkdir()
    (package / "_C.so").write_bytes(b"not a library")
    (package / "__init__.py").write_text(DESCRIBES_AN_OPERATOR)
    return folder


@pytest.fixture(scope="module")
def outputs(fake: Path) -> dict[str, str]:
    """What each case prints."""
    cases = {name: code for name, code in CASES.items() if name != "real" or find_spec("torchvision")}
    parts = run(APART, json.dumps(cases), str(fake)).split("== ")[1:]
    return dict(part.split("\n", 1) for part in parts)


def test_importing_the_package_has_no_side_effects(outputs: dict[str, str]) -> None:
    assert outputs["side effects"] == "True False False\n"


def test_models_and_what_needs_torchvision_import(outputs: dict[str, str]) -> None:
    pytest.importorskip("torchvision")
    assert outputs["real"] == "True\ntorchvision.nms\n"
    from transformers import CLIPModel  # in this process, too, retriever.models came first: see tests/conftest.py

    assert CLIPModel.__module__ == "transformers.models.clip.modeling_clip"


def test_a_library_that_does_not_load_is_replaced_by_declarations(outputs: dict[str, str], fake: Path) -> None:
    assert outputs["no library"].startswith(str(fake))


def test_operators_that_exist_are_not_declared_again(outputs: dict[str, str]) -> None:
    assert outputs["operators exist"] == "torchvision::nms(Tensor a, Tensor b, float c) -> Tensor\n"


def test_a_cuda_build_of_pytorch_is_left_alone(outputs: dict[str, str]) -> None:
    assert outputs["CUDA build"] == "False\n"


def test_nothing_happens_without_torchvision() -> None:
    code = "import sys, importlib.util as u; u.find_spec = lambda name: None\n"
    code += "import retriever.models; print('torch' in sys.modules)"
    assert run(code) == "False\n"
