"""Thumbnails: their checksum, and main images shared by several entities."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexes.store.thumbnails import checksum, hash_thumbnails, plain_images, shared_images
from retriever.types import Entity


def write(folder: Path, thumbnails: dict[int, bytes]) -> Path:
    (folder / "images").mkdir()
    for row, content in thumbnails.items():
        (folder / f"images/{row}.jpg").write_bytes(content)
    return folder


def entity(number: int) -> Entity:
    return Entity(id=f"e{number}", url="", title=f"Entity {number}", image=f"{number}.png", sections=())


def test_the_checksum_names_each_row_with_its_hash(tmp_path: Path) -> None:
    hashes = hash_thumbnails(write(tmp_path, {0: b"a", 2: b"c"}), 3)
    lines = f"0 {hashlib.sha256(b'a').hexdigest()}\n1 -\n2 {hashlib.sha256(b'c').hexdigest()}\n"
    assert hashes.shape == (3, 32) and not hashes[1].any()
    assert checksum(hashes) == hashlib.sha256(lines.encode()).hexdigest()


def test_images_of_several_entities_are_listed_the_most_frequent_first(tmp_path: Path) -> None:
    shown = {0: b"own", 1: b"twice", 2: b"flag", 4: b"flag", 5: b"twice", 6: b"flag"}  # row 3 has none
    hashes = hash_thumbnails(write(tmp_path, shown), 8)
    found = shared_images(hashes, [entity(number) for number in range(8)])
    flag = {"image": "2.png", "entities": 3, "ids": ["e2", "e4", "e6"]}
    twice = {"image": "1.png", "entities": 2, "ids": ["e1", "e5"]}
    assert found == {"images": 2, "entities": 5, "most_frequent": [flag, twice]}


def test_many_shared_images_are_counted_and_some_listed() -> None:
    hashes = np.repeat(np.arange(1, 121, dtype=np.uint8), 7).repeat(32).reshape(-1, 32)
    found = shared_images(hashes, [entity(number) for number in range(len(hashes))])
    assert (found["images"], found["entities"], len(found["most_frequent"])) == (120, 840, 100)
    assert found["most_frequent"][1] == {"image": "7.png", "entities": 7, "ids": ["e7", "e8", "e9", "e10", "e11"]}


def test_an_index_without_images_shares_none(tmp_path: Path) -> None:
    hashes = hash_thumbnails(tmp_path, 2)
    assert shared_images(hashes, [entity(0), entity(1)]) == {"images": 0, "entities": 0, "most_frequent": []}


@pytest.mark.parametrize(("painted", "count"), [((40, 40, 40), 1), ((200, 40, 40), 0)])
def test_images_of_one_color_are_counted_and_named(painted: tuple[int, int, int], count: int, tmp_path: Path) -> None:
    write(tmp_path, {})
    image = Image.new("RGB", (256, 256), (40, 40, 40))
    image.paste(painted, (0, 0, 64, 256))
    image.save(tmp_path / "images/1.jpg")
    found = plain_images(tmp_path, [entity(0), entity(1)])
    assert found == {"count": count, "entries": [{"id": "e1", "image": "1.png"}][:count]}
