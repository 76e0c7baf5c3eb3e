"""An index on the loopback hub: publishing, opening by name, checksums, and its card."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import DatasetCard

from indexes.live.changes import Removal
from indexes.live.index import LiveIndex
from indexes.store import published
from indexes.store.index import Index
from indexes.store.manifest import FILES, MANIFEST, RECOGNITION, read_manifest
from indexes.store.published import open_published, push_index, save_index
from tests.examples import python_blocks
from tests.fakes.hub import UPLOADS_WARN, FakeHub, logged_in_hub
from tests.fakes.knowledge_base import build_small_index
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.paths import contents

pytestmark = pytest.mark.filterwarnings(UPLOADS_WARN)

REPO = "datasets/org/index"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with logged_in_hub(tmp_path / "cache", monkeypatch) as hub:
        yield hub


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_index(tmp_path_factory.mktemp("published"))


def replace(hub: FakeHub, name: str, content: bytes) -> None:
    """Replaces a file of the newest commit."""
    commit = list(hub.commits[REPO])[-1]
    hub.repos[REPO][name] = hub.commits[REPO][commit][name] = content


def test_push_and_open(built: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "PER_PACK", 4)
    index = Index.open(built)
    before = contents(built)
    pinned = push_index(index, "org/index", private=True)
    assert contents(built) == before and hub.private == {REPO}
    packs = {"thumbnails/00000.tar", "thumbnails/00001.tar"}
    assert {*hub.repos[REPO]} == {".gitattributes", "README.md", MANIFEST, *FILES, *packs}
    with tarfile.open(fileobj=io.BytesIO(hub.repos[REPO]["thumbnails/00000.tar"])) as pack:
        # France, Ireland and Empty have an image, Words has none
        assert pack.getnames() == ["0.jpg", "2.jpg", "3.jpg"]
    loaded = open_published(pinned, encoder=FakeEncoder(), fusion=FakeFusion(), verify=True)
    vectors = FakeEncoder().encode_texts(["green white", "yellow"])
    for found, expected in zip(loaded.search(vectors, 3), index.search(vectors, 3), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [loaded.entity(row) for row in range(7)] == [index.entity(row) for row in range(7)]
    for row in range(7):
        ours, theirs = index.image_path(row), loaded.image_path(row)
        assert (ours and ours.read_bytes()) == (theirs and theirs.read_bytes())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.log.clear()
    assert open_published("org/index", revision=pinned.partition("@")[2]).folder == loaded.folder
    assert hub.log == []
    with pytest.raises(ValueError, match="does not match this profile: encoder"):
        open_published(pinned, encoder=FakeEncoder("other"))


def test_the_manifest_is_committed_with_its_files_or_not_at_all(built: Path, hub: FakeHub) -> None:
    """An upload that dies midway leaves no commit; a retry sends only the missing files."""

    def interrupted(*arguments: object, **options: object) -> object:
        raise KeyboardInterrupt

    index = Index.open(built)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.HfApi.create_commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            push_index(index, "org/index")
    assert hub.commits == {} and hub.repos[REPO] == {".gitattributes": b""}
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        open_published("org/index")
    puts = sum(method == "PUT" for method, _, _ in hub.log)
    assert puts == len(hub.objects) > 0
    pinned = push_index(index, "org/index")
    assert sum(method == "PUT" for method, _, _ in hub.log) == puts
    assert len(open_published(pinned)) == 7
    assert push_index(index, "org/index") == pinned  # nothing is new


def test_what_another_index_left_is_deleted(built: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "PER_PACK", 2)
    first = push_index(Index.open(built), "org/index")
    assert "thumbnails/00003.tar" in hub.repos[REPO]
    replace(hub, "notes.txt", b"by hand")
    monkeypatch.setattr(published, "PER_PACK", 7)
    second = push_index(Index.open(built), "org/index")
    assert {name for name in hub.repos[REPO] if "/" in name} == {"thumbnails/00000.tar"}
    assert hub.repos[REPO]["notes.txt"] == b"by hand"
    for name in (first, second):
        assert len(open_published(name, verify=True)) == 7


@pytest.mark.parametrize("name", ["tokens.npy", "thumbnails/00000.tar", "entities.jsonl"])
def test_a_damaged_download(name: str, built: Path, hub: FakeHub) -> None:
    push_index(Index.open(built), "org/index")
    content = hub.repos[REPO][name]
    replace(hub, name, content[:-2000] + bytes(byte ^ 1 for byte in content[-2000:]) if "/" not in name else b"tar?")
    for _ in range(2):  # the second time, it must not count as complete
        with pytest.raises(
            ValueError, match=f"^org/index: damaged; remove .*datasets--org--index to .*{Path(name).name}"
        ):
            open_published("org/index")


@pytest.mark.parametrize(
    ("member", "match"), [("0.jpg", "thumbnails differ"), ("../0.jpg", r"'\.\./0\.jpg' is not a thumbnail")]
)
def test_changed_thumbnails(member: str, match: str, built: Path, hub: FakeHub, tmp_path: Path) -> None:
    push_index(Index.open(built), "org/index")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as pack:
        pack.addfile(tarfile.TarInfo(member))
    replace(hub, "thumbnails/00000.tar", buffer.getvalue())
    with pytest.raises(ValueError, match=match):
        open_published("org/index")
    assert not list(tmp_path.rglob("0.jpg"))


def test_the_card(built: Path, hub: FakeHub) -> None:
    push_index(Index.open(built), "org/index", license="cc-by-sa-4.0")
    text = hub.repos[REPO]["README.md"].decode()
    data: Any = DatasetCard(text).data
    assert data.to_dict() == {
        "license": "cc-by-sa-4.0",
        "library_name": "omgm",
        "tags": ["omgm", "knowledge-based-vqa", "multimodal-retrieval", "index"],
        "task_categories": ["visual-question-answering"],
        "viewer": False,
    }
    manifest = read_manifest(built)
    tokens = manifest.files["tokens.npy"]
    for line in (
        "# org/index",
        "| knowledge base | kb |",
        "| entities | 7 |",
        "| entities with an image | 4 |",
        "| summaries | first-sentence |",
        "| encoder, fingerprint | fake-encoder-1 |",
        "| fusion encoder, fingerprint | fake-fusion-1 |",
        "| tokens per section | 32 x 8 |",
        f"| tokens.npy | {(built / 'tokens.npy').stat().st_size:,} | `{tokens.sha256}` |",
        f"| all of them | {sum(file.bytes for file in manifest.files.values()):,} | |",
    ):
        assert line in text.splitlines(), line


def test_the_example_of_the_card_runs(built: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    push_index(Index.open(built), "org/index")
    [(_, block)] = python_blocks(hub.repos[REPO]["README.md"].decode())
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == "7 France France. The flag is blue white and red\n"


def test_what_an_index_found_about_its_recognition_goes_along(built: Path, hub: FakeHub, tmp_path: Path) -> None:
    folder = tmp_path / "calibrated"
    shutil.copytree(built, folder)
    (folder / RECOGNITION).write_text('{"bias": 1}')
    loaded = open_published(push_index(Index.open(folder), "org/index"))
    assert (loaded.folder / RECOGNITION).read_text() == '{"bias": 1}'
    save_index(loaded, tmp_path / "saved")
    assert (tmp_path / "saved" / RECOGNITION).read_text() == '{"bias": 1}'
    with closing(LiveIndex.open(folder, write=True)) as index:
        index.apply([Removal(index.entity(0).id)])
        index.compact()
    compacted = Index.open(folder)
    assert compacted.folder != folder
    push_index(compacted, "org/index")
    assert hub.repos[REPO][RECOGNITION] == b'{"bias": 1}'
    save_index(Index.open(built), tmp_path / "saved")
    assert not (tmp_path / "saved" / RECOGNITION).exists()  # of other content
    push_index(Index.open(built), "org/index")
    assert RECOGNITION not in hub.repos[REPO]


def test_save(built: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    save_index(Index.open(built), target)
    copied = contents(target)
    assert copied.pop("README.md").startswith(b"---\nlicense:") and copied == contents(built)
    (target / "README.md").write_text("# By hand\n")
    (target / "images" / "1.jpg").write_bytes(b"of another index")
    save_index(open_published(built), target)
    assert (target / "README.md").read_text() == "# By hand\n" and not (target / "images" / "1.jpg").exists()
    save_index(Index.open(target, verify=True), target)
    Index.open(target, verify=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.json").write_text(json.dumps({}))
    with pytest.raises(ValueError, match="mine: contains something other than an index"):
        save_index(Index.open(built), tmp_path / "mine")
