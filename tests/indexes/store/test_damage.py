"""Failures around a build: full disks, read-only folders, files of another index."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from indexes.store.index import Index
from indexes.store.manifest import FILES
from tests.fakes.builds import build
from tests.fakes.knowledge_base import write_kb
from tests.paths import contents


def test_a_disk_that_is_full_at_any_moment_of_a_build(small_disk: Path, tmp_path: Path) -> None:
    """Each message names the file that did not fit, and the build resumes where it stopped."""
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "whole", candidates="combined", tokens="int8")
    out, filler, named = small_disk / "index", small_disk / "filler", set[str]()
    free = os.statvfs(small_disk)
    for blocks in range(1, 60, 2):
        filler.write_bytes(bytes((free.f_bavail - blocks) * free.f_frsize))
        try:
            build(kb, images, out, candidates="combined", tokens="int8")
        except OSError as error:
            assert "No space left on device; free space, or make the folder writable, and build again" in str(error)
            named.add(Path(error.filename).relative_to(out).as_posix())
        else:
            break
        finally:
            filler.unlink()
    assert contents(out) == contents(tmp_path / "whole")
    assert len(named) >= 5 and ".parts/entities.jsonl" in named  # the other names depend on the block size


def test_a_folder_that_became_read_only(small_disk: Path, tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, small_disk / "index", tokens="int8")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(
        OSError, match=rf"Read-only file system; .*writable, and build again.*{small_disk}/index/\.lock"
    ):
        build(kb, images, small_disk / "index", overwrite=True)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("summaries.offsets.npy", "vectors.npy")])
def test_a_file_of_another_index(tmp_path: Path, name: str) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "one", tokens="int8", search="flat")
    other = kb.read_text().replace("France", "Norway").replace("yellow", "purple").replace("Broken.png", "Lost.png")
    (tmp_path / "other.json").write_text(other)
    build(tmp_path / "other.json", images, tmp_path / "two", tokens="int8", search="flat")
    shutil.copyfile(tmp_path / "two" / name, tmp_path / "one" / name)
    with pytest.raises(
        ValueError, match=rf"{name}: (\d+ bytes, but|content differs).*; rebuild with `omgm build-index"
    ):
        Index.open(tmp_path / "one")
