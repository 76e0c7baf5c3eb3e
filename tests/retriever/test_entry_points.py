"""Values of other packages are found by entry points; a wrong one is named with its package and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retriever.entry_points import declared, named, names
from tests.fakes.packages import installing


def test_values_of_other_packages_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with installing(tmp_path, monkeypatch) as install:
        install("their_numbers", "SEVEN = 7\n", "omgm.tests", "most = their_numbers:SEVEN")
        assert declared("omgm.tests", int, ("sys:maxsize",)) == (7, sys.maxsize)
        assert names("omgm.tests", ("least", "most")) == ("least", "most")
        assert named("omgm.tests", "most", {"most": "sys:maxsize"}, int) == 7
    assert declared("omgm.others", int) == ()
    assert named("omgm.others", "most", {"most": "sys:maxsize"}, int) == sys.maxsize
    with pytest.raises(ValueError, match="'least' is unknown; known are most"):
        named("omgm.others", "least", {"most": "sys:maxsize"}, int)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("their_numbers:EIGHT", r"their_numbers:EIGHT cannot be imported \(.* no attribute 'EIGHT'\); install what it"),
        ("no_numbers:SEVEN", r"no_numbers:SEVEN cannot be imported \(No module named 'no_numbers'\); install"),
        ("their_numbers:SEVEN", r"expected a str, got int; name one as module:NAME in the package's pyproject\.toml"),
    ],
)
def test_a_wrong_entry_point_is_named(
    value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installing(tmp_path, monkeypatch) as install:
        install("their_numbers", "SEVEN = 7\n", "omgm.tests", f"seven = {value}")
        with pytest.raises(ValueError, match=rf"'seven' of omgm\.tests \(their_numbers 1\.2\): {message}"):
            declared("omgm.tests", str)
