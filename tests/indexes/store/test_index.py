from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import numpy as np
import pytest
import torch
from PIL import Image

from indexes.store.index import Index
from indexes.store.manifest import FILES, read_manifest
from indexes.store.published import save_index
from indexes.store.search import DeviceSearch, StoredVectors
from indexes.store.section_vectors import SECTION_VECTORS
from retriever.asking import EntityIndex
from tests.fakes.builds import build
from tests.fakes.knowledge_base import build_small_index, write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSections
from tests.paths import contents


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_index(tmp_path_factory.mktemp("store"), sections=FakeSections())


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "copy"))


def test_it_is_an_entity_index(built: Path) -> None:
    index: EntityIndex = Index.open(built, encoder=FakeEncoder(), fusion=FakeFusion(), verify=True)
    vectors = FakeEncoder().encode_texts(["green white", "yellow"])
    scores, rows = index.search(vectors, 3)
    assert scores.dtype == np.float32 and rows.dtype == np.int64 and rows.shape == (2, 3)
    # summaries: Ireland's says "green and white"; Words' "Black and yellow" gives cos 45°
    assert rows[0, 0] == 2 and scores[0, 0] == pytest.approx(1, abs=1e-3)
    assert index.entity(int(rows[1, 0])).title == "Plain"
    assert rows[1, 1] == 1 and scores[1, 1] == pytest.approx(2**-0.5, abs=1e-3)


def test_one_query_of_a_batch_or_alone(built: Path) -> None:
    index = Index.open(built)
    vectors = FakeEncoder().encode_texts(["red", "blue white", "yellow black", "nothing"])
    scores, rows = index.search(vectors, 7)
    for query in range(4):
        alone = index.search(vectors[query : query + 1], 7)
        np.testing.assert_allclose(alone[0][0], scores[query], atol=1e-6)
        assert alone[1][0].tolist() == rows[query].tolist()
    assert index.search(vectors[:0], 3)[1].shape == (0, 3)


def test_the_fingerprint_is_that_of_what_a_search_finds(built: Path, folder: Path) -> None:
    fingerprint = Index.open(built).fingerprint
    assert Index.open(folder).fingerprint == fingerprint  # a copy
    assert Index.open(built, image_weight=0.25).fingerprint != fingerprint
    manifest = read_manifest(folder)
    other = manifest.model_copy(update={"files": {**manifest.files, "report.json": manifest.files["tokens.npy"]}})
    assert Index(folder, other).fingerprint != fingerprint


def test_an_index_of_a_version_that_listed_image_problems_in_the_report(folder: Path) -> None:
    manifest = read_manifest(folder)
    files = {name: file for name, file in manifest.files.items() if name != "image_problems.jsonl"}
    (folder / "manifest.json").write_bytes(manifest.model_copy(update={"files": files}).to_json())
    (folder / "image_problems.jsonl").unlink()
    assert len(Index.open(folder, verify=True)) == 7


def test_bad_questions_to_an_index(built: Path) -> None:
    index = Index.open(built)
    with pytest.raises(ValueError, match=r"shape \(B, 7\), got \(1, 3\)"):
        index.search(torch.zeros(1, 3), 1)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        index.search(torch.zeros(1, 7), 0)
    for row in (-1, 7):
        for ask in (index.entity, index.summary, index.section_rows):
            with pytest.raises(IndexError, match=rf"within 0 to 6, got {row}"):
                ask(row)
    for row in (-1, 5):
        with pytest.raises(IndexError, match="within 0 to 4"):
            index.tokens(np.array([0, row]))


def test_tokens_are_unit_vectors_in_the_order_asked(built: Path) -> None:
    index = Index.open(built)
    tokens = index.tokens(np.array([4, 0, 4]))
    assert tokens.shape == (3, 32, 8)
    assert tokens[0].equal(tokens[2]) and not tokens[0].equal(tokens[1])
    np.testing.assert_allclose(tokens.norm(dim=-1), 1, atol=2e-3)


def test_rows_ids_and_thumbnails(built: Path) -> None:
    index = Index.open(built)
    assert [index.row_of(index.entity(row).id) for row in range(7)] == list(range(7))
    assert index.row_of("https://e.example/wiki/Nowhere") is None
    path = index.image_path(0)
    assert path is not None and index.image_path(1) is None and index.image_path(7) is None
    with Image.open(path) as image:
        assert image.size == (320, 213)  # 600 x 400 scaled to 320


def test_threads_read_the_same(built: Path) -> None:
    index = Index.open(built)
    expected = [index.entity(row) for row in range(7)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(Index.open(built).entity, list(range(7)) * 20)) == expected * 20


def test_models_that_do_not_fit(built: Path) -> None:
    with pytest.raises(ValueError, match=r"encoder 'other' now, 'fake-encoder-1' when it was built.*build-index"):
        Index.open(built, encoder=FakeEncoder(fingerprint="other"))
    with pytest.raises(ValueError, match=r"fusion encoder 'other' now, 'fake-fusion-1' when it was built"):
        Index.open(built, fusion=FakeFusion(fingerprint="other"))
    with pytest.raises(ValueError, match=r"fusion token shape \(32, 9\) now, \(32, 8\) when it was built"):
        Index.open(built, fusion=FakeFusion(width=9))
    wide = FakeEncoder()
    wide.dimension = 8
    with pytest.raises(ValueError, match="encoder dimension 8 now, 7 when"):
        Index.open(built, encoder=wide)


@pytest.mark.parametrize("name", [*FILES, *SECTION_VECTORS.files])
def test_a_damaged_file_is_found(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: content differs"):
        Index.open(folder)
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(ValueError, match=rf"{name}: {len(content) - 1} bytes, but the manifest says {len(content)}"):
        Index.open(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{name}: missing"):
        Index.open(folder)


def test_a_large_damaged_file_is_found_by_verify(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.store.manifest.SMALL", 100)
    content = bytearray((folder / "tokens.npy").read_bytes())
    content[-1] ^= 1
    (folder / "tokens.npy").write_bytes(content)
    Index.open(folder)
    with pytest.raises(ValueError, match=r"tokens\.npy: content differs"):
        Index.open(folder, verify=True)


@pytest.mark.parametrize("damage", [b"other", None])
def test_thumbnails_are_verified(folder: Path, damage: bytes | None) -> None:
    if damage is None:
        (folder / "images" / "2.jpg").unlink()
    else:
        (folder / "images" / "2.jpg").write_bytes(damage)
    with pytest.raises(ValueError, match="images: thumbnails differ"):
        Index.open(folder, verify=True)


def test_manifests_that_cannot_be_used(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        Index.open(tmp_path)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"format_version": 99}))
    with pytest.raises(ValueError, match="format version 99, this release reads 2 to 4"):
        Index.open(folder)
    path.write_text(json.dumps(manifest | {"dimension": "7"}))
    with pytest.raises(ValueError, match=r"manifest\.json: .*dimension"):
        Index.open(folder)
    path.write_text(json.dumps(manifest | {"dimension": 8}))
    with pytest.raises(ValueError, match=r"entities\.faiss: \(7, 7\), but the manifest says \(7, 8\)"):
        Index.open(folder)
    for text in ["{", "[]"]:
        path.write_text(text)
        with pytest.raises(ValueError, match=r"manifest\.json: damaged"):
            Index.open(folder)


def test_an_index_of_format_version_2_keeps_opening(folder: Path) -> None:
    """As written by an earlier release: no `vectors.npy`, no search settings in the manifest, float32 vectors."""
    expected = Index.open(folder).search(FakeEncoder().encode_texts(["green white", "yellow"]), 3)
    flat = faiss.IndexIDMap2(faiss.IndexFlatIP(7))
    stored = StoredVectors(folder, read_manifest(folder).search)
    flat.add_with_ids(stored.read(0, 7).astype(np.float32), stored.rows)
    faiss.write_index(flat, str(folder / "entities.faiss"))
    (folder / "vectors.npy").unlink()
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | {"format_version": 2}
    del manifest["search"], manifest["inputs"]["search"], manifest["files"]["vectors.npy"]
    content = (folder / "entities.faiss").read_bytes()
    manifest["files"]["entities.faiss"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(manifest))
    index = Index.open(folder, encoder=FakeEncoder(), fusion=FakeFusion(), verify=True)
    assert index.manifest.search is None and index.manifest.inputs.search == "flat"
    scores, rows = index.search(FakeEncoder().encode_texts(["green white", "yellow"]), 3)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(scores, expected[0], atol=1e-3)
    on_device = DeviceSearch.read(folder, None, "cpu").search(FakeEncoder().encode_texts(["green white", "yellow"]), 3)
    np.testing.assert_array_equal(on_device[1][:, :2], rows[:, :2])  # the third ones are equal
    save_index(index, folder.parent / "saved")
    assert Index.open(folder.parent / "saved", verify=True).manifest == index.manifest


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
