from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from retriever.digests import MISSING, digests_of
from retriever.identity import Items, agree, files_as_items


def labels(**entities: str) -> Items:
    return Items(entities.items(), "image", "another entity")


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"labels": labels(a="Peru", b="Oman"), "steps": 6}, "labels: 2 of 2 images have another entity"),
        ({"labels": labels(a="Oman", b="Oman"), "steps": 6}, "labels: 1 of 2 images has another entity"),
        ({"labels": labels(a="Oman"), "steps": 6}, "labels: 1 image is gone"),
        ({"labels": labels(a="Oman", b="Peru", c="Fiji", d="Cuba"), "steps": 6}, "labels: 2 images are new"),
        ({"labels": labels(b="Peru", a="Oman"), "steps": 6}, "labels: another order"),
        ({"labels": labels(a="Oman", b="Peru"), "steps": 7}, "steps was 6 and is now 7"),
        ({"labels": labels(a="Oman", b="Peru"), "steps": None}, "steps was 6 and is now not given"),
        ({"steps": 6}, "labels was .* and is now not given"),
        (
            {"labels": labels(a="Oman", c="Peru"), "steps": 6},
            "labels: 1 image is new, 1 image is gone",
        ),
    ],
)
def test_a_difference_is_named_in_words_and_nothing_is_written(
    tmp_path: Path, now: Mapping[str, Any], said: str
) -> None:
    note, work = tmp_path / "inputs.json", tmp_path / "weights"
    before = {"labels": labels(a="Oman", b="Peru"), "steps": 6}
    assert not agree(note, before, work=[work])
    work.write_text("trained")
    assert agree(note, before, work=[work])
    written = files_of(tmp_path)
    with pytest.raises(ValueError, match=f"made from other inputs .{said}.; choose another --out, or pass --overwrite"):
        agree(note, now, work=[work])
    assert files_of(tmp_path) == written
    assert not agree(note, now, work=[work], overwrite=True) and not work.exists()
    work.touch()
    assert agree(note, now, work=[work])


def test_hashes_are_not_shown(tmp_path: Path) -> None:
    agree(tmp_path / "n.json", {"weights": "0123456789abcdef", "profile": {"k": 1, "fitted": "f" * 16}})
    with pytest.raises(ValueError, match=r"\(weights: other content; profile.k was 1 and is now 2\)"):
        agree(tmp_path / "n.json", {"weights": "fedcba9876543210", "profile": {"k": 2, "fitted": "f" * 16}})


def test_work_of_unknown_inputs_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "weights").touch()
    with pytest.raises(ValueError, match="missing, but there is weights, whose inputs are unknown"):
        agree(tmp_path / "n.json", {"a": 1}, work=[tmp_path / "weights"])


def test_missing_files_may_turn_up(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    files = {"a": tmp_path / "a", "b": tmp_path / "b"}
    agree(tmp_path / "n.json", {"images": files_as_items(files.items(), "image")})
    (tmp_path / "b").write_bytes(b"b")
    assert agree(tmp_path / "n.json", {"images": files_as_items(files.items(), "image")})
    (tmp_path / "b").write_bytes(b"c")
    with pytest.raises(ValueError, match="images: 1 of 2 images has other bytes"):
        agree(tmp_path / "n.json", {"images": files_as_items(files.items(), "image")})


def test_the_same_bytes_have_one_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "deep").mkdir()
    shutil.copy(tmp_path / "a", tmp_path / "deep" / "b")
    os.utime(tmp_path / "deep" / "b", (1, 1))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    paths: list[Path | bytes] = [tmp_path / "a", tmp_path / "deep" / "b", tmp_path / "link", b"content"]
    assert len(set(digests_of(paths, tmp_path / "cache" / "c.sqlite"))) == 1
    assert list(digests_of([None, tmp_path / "none", tmp_path], tmp_path / "c.sqlite")) == [MISSING] * 3


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files count as settled at once."""
    monkeypatch.setattr("retriever.digests._SETTLED", -3_600_000_000_000)
    yield


@pytest.mark.usefixtures("settled")
def test_a_file_is_read_again_only_if_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, cache = [tmp_path / str(number) for number in range(1200)], tmp_path / "cache.sqlite"
    for path in paths:
        path.write_text(path.name)
    first = list(digests_of(paths, cache))
    read: list[Path] = []

    def noted(path: Path) -> bytes:
        read.append(path)
        return b"new"

    monkeypatch.setattr("retriever.digests._read", noted)
    assert list(digests_of(paths, cache)) == first and not read
    times = paths[7].stat()
    paths[7].write_text("8")  # as long, and with the time of before
    os.utime(paths[7], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert list(digests_of(paths, cache)) == [*first[:7], b"new", *first[8:]] and read == [paths[7]]


def test_without_a_cache_every_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "damaged").write_text("no database" * 99)
    [expected] = digests_of([b"a"])
    for cache in (tmp_path / "damaged", tmp_path / "a" / "below a file"):
        assert list(digests_of([tmp_path / "a"], cache)) == [expected]
