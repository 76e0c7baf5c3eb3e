"""How the trial of the ways in reads the Dockerfile, .dockerignore and pip's log; the trial itself is a Make target."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.ways_in.__main__ import CPU_INDEX
from tests.ways_in.dockerfile import context, instructions
from tests.ways_in.pip_log import loaded

TEXT = """\
# syntax=docker/dockerfile:1
FROM python:3-slim AS base
ENV ONE=1 \\
    TWO="2 b"
# Between lines.
HEALTHCHECK --interval=10s --retries=3 \\
    CMD ["true"]
FROM base AS demo
run --mount=type=cache,target=/c \\
    # inside
    echo --a \\
    && echo b
FROM base AS other
CMD ["x"]
"""


def test_a_stage_is_read_with_those_that_it_builds_on() -> None:
    assert [tuple(one) for one in instructions(TEXT, "demo")] == [
        ("FROM", (), "python:3-slim AS base"),
        ("ENV", (), 'ONE=1 TWO="2 b"'),
        ("HEALTHCHECK", ("interval=10s", "retries=3"), '["true"]'),
        ("RUN", ("mount=type=cache,target=/c",), "echo --a && echo b"),
    ]
    assert [one.name for one in instructions(TEXT, "other")] == ["FROM", "ENV", "HEALTHCHECK", "CMD"]
    with pytest.raises(ValueError, match="no stage 'service', only base, demo, other"):
        instructions(TEXT, "service")


def test_the_last_rule_that_fits_decides() -> None:
    names = [
        "a.py",
        "docs/a.md",
        "kept/a.py",
        "kept/__pycache__/a.pyc",
        "kept/b/__pycache__/c",
        "keptother/x",
        "t/u.py",
    ]
    assert context(names, "*\n# all\n!kept\n!t/u.py\n**/__pycache__\n") == ["kept/a.py", "t/u.py"]
    assert context(names, "docs\nkept/*\n") == ["a.py", "keptother/x", "t/u.py"]


def test_what_pip_loaded_counts_once(tmp_path: Path) -> None:
    local, own = tmp_path / "torch-2-cp311.whl", tmp_path / "omgm-0.1.0-py3-none-any.whl"
    local.write_bytes(b"x" * 1234)
    own.write_bytes(b"x" * 99)
    log = tmp_path / "pip.log"
    lines = [
        "  Downloading anyio-4.16.0-py3-none-any.whl (134 kB)",
        "    Downloading https://host/p/anyio-4.16.0-py3-none-any.whl (134 kB)",
        "  Downloading small-1.tar.gz (512 bytes)",
        "  Downloading large-1.whl (1.5 MB)",
        "  Using cached other-1.whl (9 MB)",
        f"Processing {local} (from omgm==0.1.0)",
        f"Processing {own}",
    ]
    log.write_text("".join(f"2026-11-27T03:00:00,479 {line}\n" for line in lines))
    sizes = {"anyio-4.16.0-py3-none-any.whl": 134e3, "small-1.tar.gz": 512, "large-1.whl": 1.5e6, local.name: 1234}
    assert loaded(log) == sizes and loaded(tmp_path / "none.log") == {}


def test_every_way_installs_the_same_pytorch() -> None:
    """The notebook, the README and uv name the versions and the index of constraints.txt and the Makefile."""
    torch, vision = (ROOT / "constraints.txt").read_text().split()
    cells = json.loads((ROOT / "docs" / "omgm.ipynb").read_text(encoding="utf-8"))["cells"]
    first = next("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert f'install("{torch}", "--index-url", "{CPU_INDEX}")' in first
    assert all(line.split(" --hash")[0] in first for line in models())
    assert f"pip install {torch} --index-url {CPU_INDEX} " in (ROOT / "README.md").read_text(encoding="utf-8")
    uv = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    assert (uv["constraint-dependencies"], uv["index"][0]["url"]) == ([torch, vision], CPU_INDEX)
    for name in ("Makefile", "docker/Dockerfile", "omgm/pytorch.py"):
        assert CPU_INDEX in (ROOT / name).read_text(encoding="utf-8")


def models() -> list[str]:
    lines = (ROOT / "requirements-models.lock").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]
