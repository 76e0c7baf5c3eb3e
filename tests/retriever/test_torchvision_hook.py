from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT


def run(code: str, path: Path | None = None) -> str:
    """Returns what `code` prints in a fresh interpreter that looks for packages in `path` first."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, filter(None, [path, ROOT]))))
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_the_package_imports_no_torch() -> None:
    assert run("import sys, retriever; print('torch' in sys.modules, 'torchvision' in sys.modules)") == "False False\n"


def test_torchvision_and_what_stands_on_it_import() -> None:
    pytest.importorskip("torchvision")
    code = "import retriever, torchvision, torch; from transformers import CLIPModel; print(torch.ops.torchvision.nms)"
    assert run(code) == "torchvision.nms\n"


def test_a_library_that_does_not_load_is_replaced_by_declarations(tmp_path: Path) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "_C.so").write_bytes(b"not a library")
    # What torchvision does while it is imported: describe an operator that must exist by then.
    (package / "__init__.py").write_text(
        "import torch\n"
        "@torch.library.register_fake('torchvision::nms')\n"
        "def nms(dets, scores, iou_threshold): return dets\n"
    )
    assert run("import retriever, torchvision; print(torchvision.__file__)", tmp_path).startswith(str(tmp_path))


def test_nothing_happens_without_torchvision(tmp_path: Path) -> None:
    code = "import sys, retriever; sys.path[:] = []; sys.path_importer_cache.clear()\n"
    code += "try: import torchvision\nexcept ModuleNotFoundError: print('missing', 'torch' in sys.modules)"
    assert run(code) == "missing False\n"
