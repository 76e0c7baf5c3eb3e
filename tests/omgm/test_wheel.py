"""A wheel's content, and that it works outside the repository; `.ci/run` installs one in a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.paths import ROOT

pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e .[dev]")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-W", "ignore", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_holds_all_packages(unpacked: Path) -> None:
    top = {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")}
    packages = {
        "chat_models",
        "evaluation",
        "generators",
        "indexes",
        "omgm",
        "retriever",
        "search_agents",
        "serving",
        "training",
    }
    assert top == packages
    for needed in (
        "omgm/configs/embedded.toml",
        "omgm/configs/paper.toml",
        "omgm/weights/embedded/encoder/model.safetensors",
        "omgm/weights/embedded/fusion/tokenizer.json",
        "serving/page.html",
        "serving/page-trail.js",
        "evaluation/report.html",
        "evaluation/tables/paper.toml",
        "generators/reader/weights.safetensors",
        "retriever/base_models.toml",
        "omgm/demo.zip",
    ):
        assert (unpacked / needed).is_file(), needed


def test_the_readme_has_no_link_that_leads_nowhere(unpacked: Path) -> None:
    [file] = unpacked.glob("*.dist-info/METADATA")
    readme = file.read_text(encoding="utf-8").partition("\n\n")[2]
    assert readme.startswith("# OMGM\n") and "](https://arxiv.org/abs/2505.07879)" in readme
    assert "](docs/" not in readme and 'src="docs/' not in readme and "[contributing]" not in readme


def test_the_readme_gets_the_address_of_the_repository() -> None:
    from hatch_build import with_addresses  # needs hatchling

    text = '![A tin](docs/a.gif) [more](docs/b.md#c), [d](https://d.org), [e](#e)\n<img src="docs/f.png" width="9">'
    assert with_addresses(text, "https://git.org/o/n/") == (
        "![A tin](https://git.org/o/n/raw/HEAD/docs/a.gif) [more](https://git.org/o/n/blob/HEAD/docs/b.md#c), "
        '[d](https://d.org), [e](#e)\n<img src="https://git.org/o/n/raw/HEAD/docs/f.png" width="9">'
    )
    assert with_addresses(text, "") == " more, [d](https://d.org), [e](#e)\n"


@pytest.mark.slow
def test_works_outside_the_repository(unpacked: Path, tmp_path: Path) -> None:
    code = """
from pathlib import Path
import omgm.profile, omgm.parts, omgm.demo
omgm.demo.write_demo(Path("demo"))
profile = omgm.profile.load_profile("embedded")
print(omgm.profile.__file__, omgm.parts.build_encoder(profile).dimension)
"""
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == str(unpacked / "omgm" / "profile.py")
    assert int(done.stdout.split()[1]) > 0
    assert len(list((tmp_path / "demo/images/flag").iterdir())) == 196
