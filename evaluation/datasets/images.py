"""Finds the images of questions in any data set's folder layout."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from indexes.image_paths import find_image

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")
SOURCES = ("inaturalist", "landmarks")
"""Subfolders that E-VQA's images may be in, named after its column `dataset_name`."""


def find_query_image(folder: Path, image_id: str) -> Path | None:
    """Returns the path of a question's image, `None` if there is none; see `locate` for the layouts."""
    located = locate(folder, image_id)
    return located[1] if located else None


def locate(folder: Path, image_id: str) -> tuple[str, Path] | None:
    """Returns the layout and the path of a question's image, `None` if there is none.

    The layouts are tried in this order, for E-VQA also in the subfolders `inaturalist/` and `landmarks/`:

    - `flat`: `ID.jpg`, or any other of `EXTENSIONS` in either case;
    - `landmarks`: Google Landmarks' `a/b/c/abc….jpg`, also under `train/`;
    - `oven`: `oven_images/01/oven_01….jpg`, or `01/oven_01….jpg`;
    - `coco`: `val2014/COCO_val2014_….jpg`; for a number also `000000000123.jpg`, in the folder or in `val2017/`;
    - `inaturalist`: the file that `val_id2name.json` or `train_id2name.json` names for the id;
    - `path`: a file name (it may be a link), or the longest suffix of a path or URL, like the images of a knowledge
      base.

    Listings of folders are cached until `forget_listings`.
    """
    if os.path.basename(image_id) == image_id and os.path.isfile(named := os.path.join(folder, image_id)):
        return "path", Path(named)
    for layout, place in _places(folder, image_id):
        if file := _listing(place).get(image_id):
            return layout, file
    if image_id.isdecimal():
        for place in (folder, *(folder / f"{split}2017" for split in ("val", "train", "test"))):
            if file := _listing(place).get(f"{image_id:0>12}"):
                return "coco", file
        for root in _roots(folder):
            if file := _by_name(root, image_id):
                return "inaturalist", file
    if "." in image_id and (file := find_image(folder, image_id)):
        return "path", file
    return None


def forget_listings() -> None:
    """Drops cached folder listings, so that images added since are found."""
    _listing.cache_clear()
    _names.cache_clear()


def _roots(folder: Path) -> Iterator[Path]:
    yield folder
    for source in SOURCES:
        yield folder / source


def _places(folder: Path, image_id: str) -> Iterator[tuple[str, Path]]:
    for root in _roots(folder):
        yield "flat", root
    if len(image_id) > 3 and image_id[:3].isalnum():
        for root in _roots(folder):
            for start in (root, root / "train"):
                yield "landmarks", start / image_id[0] / image_id[1] / image_id[2]
    if image_id.startswith("oven_") and image_id[5:7].isalnum():
        yield "oven", folder / "oven_images" / image_id[5:7]
        yield "oven", folder / image_id[5:7]
    if image_id.startswith("COCO_") and (split := image_id.split("_")[1]).isalnum():
        yield "coco", folder / split


def _by_name(root: Path, image_id: str) -> Path | None:
    for split in ("val", "train"):
        name = _names(root / f"{split}_id2name.json").get(image_id)
        if name:
            for file in (root / name, root / split / name):
                if file.is_file():
                    return file
    return None


@functools.cache
def _names(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    if not isinstance(content, dict) or not all(isinstance(n, str) and _is_inside(n) for n in content.values()):
        raise ValueError(f"{path}: must be an object that maps image ids to paths inside its folder")
    return content


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


@functools.cache
def _listing(folder: Path) -> dict[str, Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    stems = [(os.path.splitext(name), name) for name in names]
    ranked = [
        (EXTENSIONS.index(extension.lower()), stem, name)
        for (stem, extension), name in stems
        if extension.lower() in EXTENSIONS
    ]
    return {stem: folder / name for _, stem, name in sorted(ranked, reverse=True)}
