"""PyTorch's CPU build, from an index on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import venv
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from omgm import machine, pytorch
from tests.paths import ROOT


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Yields the address of a package index that has nothing but torch 2.13.0+cpu."""
    folder = tmp_path / "simple" / "torch"
    folder.mkdir(parents=True)
    info = "torch-2.13.0+cpu.dist-info"
    with zipfile.ZipFile(folder / "torch-2.13.0+cpu-py3-none-any.whl", "w") as wheel:
        wheel.writestr("torch/__init__.py", "")
        named = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\nRequires-Dist: sympy\n"
        wheel.writestr(f"{info}/METADATA", named)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (folder / "index.html").write_text('<a href="torch-2.13.0%2Bcpu-py3-none-any.whl">torch</a>')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "simple")))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Returns the Python of an environment that has nothing but pip."""
    if pytorch.nvidia_driver() or sys.platform != "linux":
        pytest.skip("the ordinary PyTorch is right here")
    pip = find_spec("pip")
    if pip is None or pip.origin is None:
        pytest.skip("pip is not installed")
    venv.create(tmp_path / "env", with_pip=False)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pip").symlink_to(Path(pip.origin).parent)
    return tmp_path / "env" / "bin" / "python"


def run(python: Path, *arguments: str) -> str:
    """Runs the file as `make` does, and returns what it prints."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(python.parents[2] / "path"), "no_proxy": "*"}
    environment["PIP_CONFIG_FILE"] = os.devnull
    command = [str(python), str(ROOT / "omgm" / "pytorch.py"), *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_cpu_build_is_taken_first(python: Path, index: str) -> None:
    said = run(python, "--index", index, "torch")
    assert said == f"No NVIDIA driver is here: PyTorch's CPU build is loaded from {index}, {pytorch.SMALL}.\n"
    [packages] = python.parents[1].glob("lib/python*/site-packages")
    assert sorted(path.name for path in packages.glob("torch*")) == ["torch", "torch-2.13.0+cpu.dist-info"]
    assert run(python, "--index", index, "torch") == ""  # nothing left to do
    assert run(python, "--index", index, "torch", "torchvision").startswith("No NVIDIA driver")


def test_an_index_that_cannot_be_used(python: Path, index: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        said = run(python, "--index", address, "torch")
    assert said == f"{address} cannot be used ([Errno 111] Connection refused): {pytorch.ordinary()}\n"
    assert "2.7 GB to download" in said
    said = run(python, "--index", f"{index}/none", "torch")
    assert said == f"{index}/none cannot be used (status 404): {pytorch.ordinary()}\n"


def test_an_index_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "PATIENCE", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        problem = pytorch.unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}/torch/")
    assert problem in ("timed out", "no answer within 0.2 s")
    assert pytorch.unreachable("nonsense") == "unknown url type: 'nonsense'"


def test_with_a_driver_the_ordinary_build_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pytorch, "find_spec", lambda name: None)
    monkeypatch.setattr(pytorch, "nvidia_driver", lambda: "/dev/nvidiactl")
    monkeypatch.setattr(sys, "platform", "linux")
    pytorch.main(["torch"])
    said = "An NVIDIA driver is here (/dev/nvidiactl): PyTorch with CUDA follows, 2.7 GB to download, 4.7 GB on disk.\n"
    assert capsys.readouterr().out == said


def test_versions_are_those_of_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("torchvision==0.28.0\ntorch==2.13.0\n")
    assert [pytorch.locked(name, lock) for name in ("torch", "torchvision", "numpy")] == [
        "torch==2.13.0",
        "torchvision==0.28.0",
        "numpy",
    ]
    assert pytorch.locked("torch", tmp_path / "none") == "torch"


@pytest.mark.parametrize(("cuda", "status"), [(None, "ok"), ("13.0", "warn")])
def test_the_doctor_sees_cuda_without_a_card(monkeypatch: pytest.MonkeyPatch, cuda: str | None, status: str) -> None:
    monkeypatch.setattr("torch.version.cuda", cuda)
    torch, gpu = machine.torch_findings([], None)
    assert (torch.status, gpu.status) == (status, "ok")
    assert not cuda or (pytorch.INDEX in torch.fix and "no NVIDIA driver" in torch.found)
