"""Models of a profile whose files are damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omgm.parts import build_encoder, build_fusion
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
