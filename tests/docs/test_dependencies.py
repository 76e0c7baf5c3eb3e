from __future__ import annotations

import re
import tomllib
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.paths import ROOT


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| ")]
    named = {name.lower() for row in rows for name in re.findall(r"[\w-]+", row)}
    packages = {Requirement(line).name.lower() for line in project()["dependencies"]}
    assert packages - named == set()
    assert set(project()["optional-dependencies"]) - named == set()


def test_the_locked_versions_are_allowed() -> None:
    locked, constraints = versions("requirements.lock"), versions("constraints.txt")
    assert constraints.items() <= locked.items()
    [extras] = re.findall(r"^DEV := (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    optional = project()["optional-dependencies"]
    for line in [*project()["dependencies"], *(line for extra in extras.split(",") for line in optional[extra])]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), line


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def versions(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(package): version for package, _, version in (line.partition("==") for line in lines)}
