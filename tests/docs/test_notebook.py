"""The notebook runs from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((ROOT / "docs" / "omgm.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["language"]) == (4, "python")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "clear the outputs"
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert names["result"].answer == "three minutes" and names["result"].entity.title == "Night Train"
    assert "four" not in names["result"]._repr_html_() and "<img" in names["result"]._repr_html_()
    assert names["other"].answer is None
    shown = capsys.readouterr().out
    assert shown.startswith("6 notes\nthree minutes | Night Train |") and "\n1 Night Train " in shown
    names["omgm"].close()
