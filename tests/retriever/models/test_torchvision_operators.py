from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

DESCRIBES_AN_OPERATOR = """\
import torch
@torch.library.register_fake("torchvision::nms")
def nms(dets, scores, iou_threshold): return dets
"""
"""A stand-in for `import torchvision`, which fails unless the operator already exists."""


def run(code: str, path: Path | None = None) -> str:
    """Runs `code` in a fresh interpreter that searches `path` first; returns its output."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(str(p) for p in (path, ROOT) if p))
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def fake_torchvision(folder: Path) -> Path:
    package = folder / "torchvision"
    package.mkdir()
    (package / "_C.so").write_bytes(b"not a library")
    (package / "__init__.py").write_text(DESCRIBES_AN_OPERATOR)
    return folder


def test_importing_the_package_has_no_side_effects() -> None:
    code = "import sys; before = list(sys.meta_path); import retriever.pipeline, retriever.fusion\n"
    code += "print(sys.meta_path == before, 'torchvision' in sys.modules, 'retriever.models' in sys.modules)"
    assert run(code) == "True False False\n"


def test_models_and_what_needs_torchvision_import() -> None:
    pytest.importorskip("torchvision")
    code = "import sys; before = list(sys.meta_path); import retriever.models; print(sys.meta_path == before)\n"
    code += "import torchvision, torch; from transformers import CLIPModel; print(torch.ops.torchvision.nms)"
    assert run(code) == "True\ntorchvision.nms\n"


def test_a_library_that_does_not_load_is_replaced_by_declarations(tmp_path: Path) -> None:
    code = "import retriever.models, torchvision; print(torchvision.__file__)"
    assert run(code, fake_torchvision(tmp_path)).startswith(str(tmp_path))


def test_operators_that_exist_are_not_declared_again(tmp_path: Path) -> None:
    code = "import torch; torch.library.define('torchvision::nms', '(Tensor a, Tensor b, float c) -> Tensor')\n"
    code += "import retriever.models, torchvision; print(torch.ops.torchvision.nms.default._schema)"
    assert run(code, fake_torchvision(tmp_path)) == "torchvision::nms(Tensor a, Tensor b, float c) -> Tensor\n"


def test_a_cuda_build_of_pytorch_is_left_alone(tmp_path: Path) -> None:
    code = "import torch; torch.version.cuda = '13.0'; import retriever.models\n"
    code += "print(hasattr(torch.ops.torchvision, 'nms'))"
    assert run(code, fake_torchvision(tmp_path)) == "False\n"


def test_nothing_happens_without_torchvision() -> None:
    code = "import sys, importlib.util as u; u.find_spec = lambda name: None\n"
    code += "import retriever.models; print('torch' in sys.modules)"
    assert run(code) == "False\n"
