from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement

from tests.paths import ROOT


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| ")]
    named = {name.lower() for row in rows for name in re.findall(r"[\w-]+", row)}
    packages = {Requirement(line).name.lower() for line in project["project"]["dependencies"]}
    assert packages - named == set()
    assert set(project["project"]["optional-dependencies"]) - named == set()
