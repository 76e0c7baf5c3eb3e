from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image

from omgm.demo import ARCHIVE
from pretraining.demo import ship
from pretraining.demo.build import write_demo


@pytest.mark.slow
def test_what_is_shipped_is_what_the_code_draws(tmp_path: Path) -> None:
    """All of it is drawn again; if this fails, run `python -m pretraining.demo.ship` and look at what has changed."""
    write_demo(tmp_path, examples_only=True)
    drawn = {file.relative_to(tmp_path).as_posix(): file for file in tmp_path.rglob("*") if file.is_file()}
    with ZipFile(ARCHIVE) as archive:
        assert drawn.keys() == set(archive.namelist())
        shipped = {name: archive.read(name) for name in drawn}
    assert [name for name, file in drawn.items() if not is_same(name, file.read_bytes(), shipped[name])] == []


def is_same(name: str, drawn: bytes, shipped: bytes) -> bool:
    """Compares bytes; images whose bytes differ, as by another Pillow or processor, may differ by single roundings."""
    if drawn == shipped or not name.endswith((".jpg", ".png")):
        return drawn == shipped
    one, other = (np.asarray(Image.open(io.BytesIO(content)), np.int16) for content in (drawn, shipped))
    return one.shape == other.shape and int(np.abs(one - other).max()) <= 8 * name.endswith(".jpg")


def test_equal_files_make_equal_archives(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c.csv").write_text("x,y\n")
    (tmp_path / "a/d.csv").write_text("z\n")
    ship.pack(tmp_path / "a", tmp_path / "1.zip")
    (tmp_path / "a/d.csv").touch()
    ship.pack(tmp_path / "a", tmp_path / "2.zip")
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    with ZipFile(tmp_path / "1.zip") as archive:
        assert archive.namelist() == ["b/c.csv", "d.csv"] and archive.read("d.csv") == b"z\n"
