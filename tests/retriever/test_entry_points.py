"""Values of other packages are found by entry points; a wrong one is named with its package and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.entry_points import declared


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Installs an example package, as pip would; returns the file of its entry points."""
    (tmp_path / "numbers-1.2.dist-info").mkdir()
    (tmp_path / "numbers-1.2.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: numbers\nVersion: 1.2\n")
    (tmp_path / "their_numbers.py").write_text("SEVEN = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "numbers-1.2.dist-info/entry_points.txt"
    sys.modules.pop("their_numbers", None)


def test_values_of_other_packages_come_first(points: Path) -> None:
    points.write_text("[omgm.tests]\nseven = their_numbers:SEVEN\n")
    assert declared("omgm.tests", int, ("sys:maxsize",)) == (7, sys.maxsize)
    assert declared("omgm.others", int) == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("their_numbers:EIGHT", r"their_numbers:EIGHT cannot be imported \(.* no attribute 'EIGHT'\); install what it"),
        ("no_numbers:SEVEN", r"cannot be imported \(No module named 'no_numbers'\); install what it needs, or uninst"),
        ("their_numbers:SEVEN", r"expected a str, got int; name one as module:NAME in the package's pyproject\.toml"),
    ],
)
def test_a_wrong_entry_point_is_named(points: Path, value: str, message: str) -> None:
    points.write_text(f"[omgm.tests]\nseven = {value}\n")
    with pytest.raises(ValueError, match=rf"'seven' of omgm\.tests \(numbers 1\.2\): {message}"):
        declared("omgm.tests", str)
