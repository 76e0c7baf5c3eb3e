"""Models of a profile: where they run, and damaged files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from omgm.opening import open_retriever
from omgm.parts import build_encoder, build_fusion, placement
from omgm.profile import load_profile
from omgm.settings import Profile
from tests.paths import ROOT

WEIGHTS = ROOT / "weights" / "embedded"


@pytest.mark.parametrize(("section", "build"), [("encoder", build_encoder), ("fusion", build_fusion)])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_of_a_model_is_told(
    section: str, build: Callable[[Profile], object], name: str, tmp_path: Path
) -> None:
    folder = tmp_path / section
    shutil.copytree(WEIGHTS / section, folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    told = rf"profile embedded: {section}\.model: {folder}.*: (a file is damaged|not JSON) \(.*\); .* again"
    with pytest.raises(ValueError, match=told):
        build(load_profile("embedded", {f"{section}.model": folder}))


@pytest.mark.parametrize(("device", "gpu", "expected"), [("auto", True, "cuda"), ("auto", False, "cpu")])
def test_auto_is_the_gpu_if_there_is_one(
    device: str, gpu: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert placement(load_profile("embedded", [f"device={device}"]))[0] == expected


def test_a_profile_for_the_cpu_does_not_ask_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking initializes CUDA."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("asked"))
    assert placement(load_profile("embedded", ["device=cpu"]))[0] == "cpu"


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device: 'cuda', but PyTorch sees no GPU; see `omgm doctor`"):
        placement(load_profile("embedded", ["device=cuda"]))


def test_the_library_that_searches_reaches_the_index(example_folder: Path) -> None:
    profile = load_profile("embedded", ["search.gpu=faiss", "device=cpu"])
    for live in (False, True):
        with pytest.raises(ValueError, match=r'search.gpu = "faiss" needs a GPU, but the device is the CPU'):
            open_retriever(profile, example_folder / "index", live=live)
