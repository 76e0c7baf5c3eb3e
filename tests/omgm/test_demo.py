from __future__ import annotations

from pathlib import Path

from omgm.demo import DRAWN, write_demo


def test_right_files_are_left_alone_and_others_are_replaced(tmp_path: Path) -> None:
    write_demo(tmp_path)
    kept, changed, missing = (tmp_path / f"images/flag/{code}.png" for code in ("fr", "jp", "np"))
    content = {file: file.read_bytes() for file in (kept, changed, missing)}
    (tmp_path / DRAWN).write_text("{}")
    write_demo(tmp_path)
    assert (tmp_path / DRAWN).exists()
    before = kept.stat().st_mtime_ns
    changed.write_bytes(b"\0" + content[changed][1:])
    missing.unlink()
    write_demo(tmp_path)
    assert {file: file.read_bytes() for file in content} == content and kept.stat().st_mtime_ns == before
    assert not (tmp_path / DRAWN).exists()
