"""Files are written atomically, with the permissions that the umask allows."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from retriever.files import read_object, replace_with, replacing, write_whole
from retriever.models.checkpoints import convert_checkpoint
from tests.retriever.models.test_encoder import small_encoder
from tests.retriever.models.test_qformer import small_fusion


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    """Sets the umask; returns the permissions that a new file gets under it."""
    before = os.umask(request.param)
    yield 0o666 & ~request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(partial: Path) -> None:
        partial.write_bytes(b"ne")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_with(path, fail)
    assert path.read_bytes() == b"old"


def test_private_temporary_files_do_not_stay_private(tmp_path: Path, mode: int) -> None:
    replace_with(tmp_path / "a.safetensors", lambda partial: save_file({"a": torch.ones(2)}, partial))
    write_whole(tmp_path / "b", b"b")
    assert modes(tmp_path) == {"a.safetensors": mode, "b": mode}


def test_permissions_that_are_not_private_stay(tmp_path: Path) -> None:
    def write(partial: Path) -> None:
        partial.touch()
        partial.chmod(0o755)

    replace_with(tmp_path / "tool", write)
    assert modes(tmp_path) == {"tool": 0o755}


def test_saved_models_respect_the_umask(tmp_path: Path, mode: int) -> None:
    small_encoder().save(tmp_path / "encoder")
    small_fusion(layers=3, seed=0).save(tmp_path / "fusion")
    torch.save({"a": torch.ones(2)}, tmp_path / "checkpoint.pt")
    convert_checkpoint(tmp_path / "checkpoint.pt", tmp_path / "imported")
    for name, count in (("encoder", 5), ("fusion", 5), ("imported", 2)):
        assert len(modes(tmp_path / name)) == count
        assert set(modes(tmp_path / name).values()) == {mode}, name


def test_a_file_appears_at_the_end_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    with replacing(path) as partial:
        partial.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), replacing(path) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert path.read_text() == "before"


def test_a_file_that_holds_no_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: expected a JSON object, got list"):
        read_object(path)
    path.write_bytes(b"{\xff")
    with pytest.raises(ValueError, match=r"config\.json: not JSON"):
        read_object(path)
    path.write_text('{"a": 1}', encoding="utf-8")
    assert read_object(path) == {"a": 1}
