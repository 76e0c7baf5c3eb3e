from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexes.parts.answering import PartAnswers
from indexes.parts.buckets import LIST, bucket_of, copy_to, fetch_copy
from indexes.parts.split import split_index
from indexes.store.index import Index
from omgm.commands.serve import _here
from tests.fakes.live import BASE, World
from tests.paths import contents


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    world = World(tmp_path_factory.mktemp("world"), BASE)
    return [*split_index(world.index, 2, world.folder / "parts")]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The address of a bucket of a real server."""
    server = pytest.importorskip("moto.server", reason="moto is not installed").ThreadedMotoServer(port=0)
    pytest.importorskip("s3fs", reason="needs the extra s3")
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patched.setenv(name, "test")
        patched.setenv("AWS_DEFAULT_REGION", "us-east-1")
        import s3fs

        s3fs.S3FileSystem().mkdir("omgm-parts")
        yield "s3://omgm-parts/of-two"
    server.stop()


def check_copy(part: Path, url: str, cache: Path) -> None:
    copy_to(part, url)
    copy_to(part, url)  # it is there
    fetched = fetch_copy(url, cache)
    assert contents(fetched) == contents(part)
    assert PartAnswers(fetched).part == PartAnswers(part).part and len(Index.open(fetched, verify=True)) > 0
    assert fetch_copy(url, cache) == fetched and [path.name for path in cache.iterdir()] == [fetched.name]


def test_a_part_in_a_folder_of_fsspec(parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_copy(parts[0], f"file://{tmp_path}/store/1-of-2", tmp_path / "cache")
    check_copy(parts[1], "memory://parts/2-of-2", tmp_path / "other")
    with pytest.raises(ValueError, match=r"1-of-2: holds something else; remove it, or name another place"):
        copy_to(parts[1], f"file://{tmp_path}/store/1-of-2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    here = _here(Path(f"file://{tmp_path}/store/1-of-2"))
    assert here.is_relative_to(tmp_path / "home") and contents(here) == contents(parts[0])
    assert _here(parts[0]) == parts[0] and _here(Path("http://a:1,http://b:2")).parts[0] == "http:"


def test_a_part_in_a_bucket(parts: list[Path], tmp_path: Path, bucket: str) -> None:
    check_copy(parts[0], bucket, tmp_path)


def test_a_killed_fetch_is_continued_and_damage_is_named(parts: list[Path], tmp_path: Path) -> None:
    store, cache = tmp_path / "store", tmp_path / "cache"
    copy_to(parts[0], f"file://{store}")
    tokens = (store / "tokens.npy").read_bytes()
    (store / "tokens.npy").write_bytes(bytes([tokens[0] ^ 1]) + tokens[1:])
    with pytest.raises(ValueError, match=r"tokens.npy: differs from its checksum in files.json"):
        fetch_copy(f"file://{store}", cache)
    [partial] = cache.iterdir()
    assert partial.suffix == ".partial"
    (store / "tokens.npy").write_bytes(tokens)
    (store / "entities.jsonl").rename(tmp_path / "fetched before")
    fetched = fetch_copy(f"file://{store}", cache)
    assert contents(fetched) == contents(parts[0]) and [*cache.iterdir()] == [fetched]
    (store / LIST).unlink()
    with pytest.raises(ValueError, match=r"no files.json: no copy of an index, or not complete; see `omgm index copy`"):
        fetch_copy(f"file://{store}", cache)
    (store / LIST).write_text('{"../evil": {"bytes": 1, "sha256": ""}}')
    with pytest.raises(ValueError, match=r"'../evil' is not the name of a file of an index"):
        fetch_copy(f"file://{store}", cache)
    with pytest.raises(ValueError, match="Protocol not known: nothing"):
        copy_to(parts[0], "nothing://a")


def test_addresses() -> None:
    paths = ("s3://b/1-of-2", "file:///a/b", "a/b", "http://a:1", "https://a,https://b")
    assert [bucket_of(Path(path)) for path in paths] == ["s3://b/1-of-2", "file:///a/b", None, None, None]
