from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from benchmarks.archive import main


def test_articles_are_found_by_changed_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name, color in {"rose": "red", "sky": "blue", "again": "blue"}.items():
        image = Image.new("RGB", (120, 90), color)
        ImageDraw.Draw(image).rectangle((10, 10, 60 if color == "red" else 20, 50), fill="white")
        image.save(notes / f"{name}.png")
        (notes / f"{name}.md").write_text(f"# {name}\n\nText. ![]({name}.png)\n")
    (notes / "none.md").write_text("# None\n\nText.\n")
    monkeypatch.setattr(sys, "argv", ["archive", "--kb", str(notes), "--out", str(tmp_path / "out")])
    main()
    result = json.loads((tmp_path / "out" / "archive.json").read_text())
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result
    assert (result["entities"], result["images"]) == (4, 2)  # two have the same image
    assert result["recall@1"] == result["recall@5"] == 1.0 and result["self_retrieval"] is None
