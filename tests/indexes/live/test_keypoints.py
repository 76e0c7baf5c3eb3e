"""The column of keypoints: built and changed, and what candidates are verified with."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexes.keypoints import KEYPOINTS, KeypointModel, decode_keypoints, encode_keypoints, verifier
from indexes.store.index import Index
from retriever.image_cache import set_content
from retriever.models.keypoints import DIMENSION, Keypoints, find_keypoints
from tests.fakes import live
from tests.fakes.live import World, article, painting


@pytest.fixture(autouse=True)
def _images_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "hash_of", lambda name: zlib.crc32(name.encode()))


ARTICLES = [article("a"), article("bb", further=2), article("none", image=None), article("c")]
MODELS = {"keypoints": KeypointModel()}


def large(image: Image.Image) -> Image.Image:
    return image.resize((256, 256), Image.Resampling.BICUBIC)


def test_keypoints_survive_being_stored() -> None:
    points = find_keypoints(large(painting(3)))
    assert len(points.places) > 20
    again = decode_keypoints(encode_keypoints(points))
    assert again.places == pytest.approx(points.places, abs=2e-3)
    assert (again.descriptors * points.descriptors).sum(1).min() > 0.999
    none = Keypoints(np.empty((0, 4), np.float32), np.empty((0, DIMENSION), np.float32))
    assert (
        encode_keypoints(none).shape == (0, KeypointModel.dimension)
        and len(decode_keypoints(encode_keypoints(none))[0]) == 0
    )


class Parted:
    """An index whose sample is of the parts that answer."""

    def __init__(self, index: Index) -> None:
        self.entity, self.column = index.entity, index.column
        self.up: frozenset[int] = frozenset()
        self.sampled: list[frozenset[int]] = []

    def sample(self, most: int) -> list[int]:
        self.sampled.append(self.up)
        return sorted(self.up)


def test_a_sample_belongs_to_the_parts_that_answered(tmp_path: Path) -> None:
    world = World(tmp_path, [article("a"), article("b"), article("c")], columns=MODELS)
    index = Index.open(world.index, columns=MODELS)
    parted, photo = Parted(index), large(Image.open(world.images / "of-a-0.png"))
    verify = verifier(parted, KeypointModel())
    alone = verify(photo, [1])  # nothing else is known
    assert verify(photo, [0])[0] > 10
    parted.up = frozenset({0, 2})  # the image's own entity is another one now
    assert verify(photo, [0])[0] > 10 and verify(photo, [1]) == alone == [0]
    assert parted.sampled == [frozenset(), parted.up]


def test_a_photograph_of_any_image_of_an_entity_verifies_it(tmp_path: Path) -> None:
    world = World(tmp_path, ARTICLES, columns=MODELS, image_keys=3)
    index = Index.open(world.index, columns=MODELS, verify=True)
    verify = verifier(index, KeypointModel())
    for row, file in ((0, "of-a-0.png"), (1, "of-bb-0.png"), (1, "bb-0/1.png"), (3, "of-c-0.png")):
        photo = large(Image.open(world.images / file)).rotate(20, Image.Resampling.BICUBIC, expand=True)
        places = verify(photo, range(4))
        assert places[row] > 10 and places[2] == 0
        assert max(places[other] for other in range(4) if other != row) < 5
    assert verify(Image.new("RGB", (50, 50)), [0, 1]) == [0, 0]
    photo = large(painting(0))
    set_content(photo, "a query")
    assert verify(photo, [0]) == verify(photo, [0])  # also if its keypoints are kept


def test_changes_are_verified(tmp_path: Path) -> None:
    world = World(tmp_path, ARTICLES, columns=MODELS, image_keys=3)
    editor = world.editor(columns=MODELS)
    world.put(editor, article("a", 7), article("new", 1, further=1))
    editor.remove(["kb/c"])
    index = editor.index
    verify = verifier(index, KeypointModel())
    rows = {index.entity(row).id: row for row in index.rows()}
    for name, file in (("kb/a", "of-a-7.png"), ("kb/new", "new-1/0.png"), ("kb/bb", "of-bb-0.png")):
        photo = large(Image.open(world.images / file))
        assert verify(photo, [rows[name]])[0] > 10
    assert KEYPOINTS.name in index.manifest.inputs.columns
    editor.close()
