from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.datasets import find_query_image, locate


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_flat_images_of_any_extension(tmp_path: Path) -> None:
    files = ["a1.jpg", "a2.JPG", "a3.jpeg", "a4.JPEG", "a5.png", "a6.webp"]
    touch(tmp_path, *files, "both.png", "both.jpg", "a7.txt")
    found = [find_query_image(tmp_path, one) for one in ("a1", "a2", "a3", "a4", "a5", "a6", "both")]
    assert found == [tmp_path / name for name in [*files, "both.jpg"]]
    for absent in ["a7", "a8", "", "../a1", "0/1/a/01abc"]:
        assert find_query_image(tmp_path, absent) is None
    assert find_query_image(tmp_path / "absent", "a1") is None


@pytest.mark.parametrize(
    ("layout", "file", "image_id"),
    [
        ("landmarks", "0/1/a/01abc.jpg", "01abc"),
        ("landmarks", "train/0/1/a/01abc.jpg", "01abc"),
        ("landmarks", "landmarks/0/1/a/01abc.jpg", "01abc"),
        ("landmarks", "landmarks/train/0/1/a/01abc.jpg", "01abc"),
        ("flat", "landmarks/01abc.jpg", "01abc"),
        ("flat", "inaturalist/123.jpg", "123"),
        ("oven", "oven_images/01/oven_01963180.JPEG", "oven_01963180"),
        ("oven", "04/oven_04000000.jpg", "oven_04000000"),
        ("coco", "val2014/COCO_val2014_000000297147.jpg", "COCO_val2014_000000297147"),
        ("coco", "train2017/000000299207.jpg", "299207"),
        ("coco", "000000299207.jpg", "299207"),
        ("path", "shelf/tea.jpg", "shelf/tea.jpg"),
        ("path", "shelf/tea.jpg", "https://host.example/photos/shelf/tea.jpg"),
        ("path", "tea.jpg", "tea.jpg"),
    ],
)
def test_an_image_is_found_in_every_layout(tmp_path: Path, layout: str, file: str, image_id: str) -> None:
    touch(tmp_path, file)
    assert locate(tmp_path, image_id) == (layout, tmp_path / file)


def test_linked_images_are_found_with_and_without_their_extension(tmp_path: Path) -> None:
    touch(tmp_path, "elsewhere/blob", "queries/other.jpg")
    folder = tmp_path / "queries"
    (folder / "tea.jpg").symlink_to(tmp_path / "elsewhere" / "blob")
    assert locate(folder, "tea") == ("flat", folder / "tea.jpg")
    assert locate(folder, "tea.jpg") == ("path", folder / "tea.jpg")
    assert locate(folder, "../elsewhere/blob.jpg") is None


@pytest.mark.parametrize("root", ["", "inaturalist/"])
def test_inaturalist_by_name(tmp_path: Path, root: str) -> None:
    (tmp_path / root).mkdir(exist_ok=True)
    names = {
        "train_id2name": {"7": "train/00001_Plantae/u.jpg"},
        "val_id2name": {"8": "00002_Aves/v.jpg", "9": "w.jpg"},
    }
    for stem, content in names.items():
        (tmp_path / root / f"{stem}.json").write_text(json.dumps(content))
    files = [root + "train/00001_Plantae/u.jpg", root + "val/00002_Aves/v.jpg"]
    touch(tmp_path, *files)
    assert [locate(tmp_path, one) for one in ("7", "8")] == [("inaturalist", tmp_path / file) for file in files]
    assert locate(tmp_path, "9") is None
    assert locate(tmp_path, "10") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object that maps image ids"),
        ('{"7": "../a.jpg"}', "paths inside its folder"),
    ],
)
def test_bad_names_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "val_id2name.json").write_text(text)
    with pytest.raises(ValueError, match=rf"val_id2name\.json: .*{message}"):
        locate(tmp_path, "7")
