"""The column of copies of images: built, changed and compacted, and which image each copy is of."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexes.image_source import thumbnail
from indexes.live.drafts import DraftEditor
from indexes.store.index import Index
from indexes.thumbnails import ThumbnailModel
from retriever.types import ArticleImage, Entity
from tests.fakes import live
from tests.fakes.live import World, article, data_of, painting


@pytest.fixture(autouse=True)
def _images_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "hash_of", lambda name: zlib.crc32(name.encode()))


MODELS = {"thumbnails": ThumbnailModel()}


def shown(name: str, *urls: str, image: str | None = None) -> Entity:
    """Returns an article whose images are of its sections in turn."""
    return replace(article(name, image=image), images=tuple(ArticleImage(url, i % 2) for i, url in enumerate(urls)))


NAMED = shown("named", "m-1.png", "n.png", image="m-1.png")
ONE = shown("one", "o-1.png", image="o-1.png")
STANDS_IN = shown("c", "gone.png", "p.png", "q.png")
ARTICLES = [article("a", further=3), NAMED, ONE, STANDS_IN, article("none", image=None)]


class WorldWithoutOne(World):
    """A world in which `gone.png` is gone."""

    def paint(self, entities: Iterable[Entity]) -> None:
        """Writes the others."""
        super().paint(entities)
        (self.images / "gone.png").unlink(missing_ok=True)


def copies(index: Index, row: int) -> dict[str, bytes]:
    return dict(index.thumbnails(row))


def expected(name: str) -> bytes:
    return thumbnail(painting(zlib.crc32(name.encode())), 512, 85)


def test_each_image_has_its_own_copy(tmp_path: Path) -> None:
    world = WorldWithoutOne(tmp_path, ARTICLES, columns=MODELS, image_keys=3)
    index = Index.open(world.index, verify=True)
    assert copies(index, 0) == {f"a-0/{i}.png": expected(f"a-0/{i}.png") for i in (0, 1)}  # three keys, the main first
    assert copies(index, 1) == {name: expected(name) for name in ("m-1.png", "n.png")}
    path = index.image_path(2)
    assert path is not None and index.thumbnails(2) == {"o-1.png": path.read_bytes()}
    assert copies(index, 3) == {name: expected(name) for name in ("p.png", "q.png")}  # p stands in for gone
    assert index.thumbnails(4) == {}


def test_an_old_index_shows_main_images_that_are_the_only_ones(tmp_path: Path) -> None:
    world = World(tmp_path, [NAMED, ONE])
    index = Index.open(world.index)
    assert index.thumbnails(0) == {} and [*index.thumbnails(1)] == ["o-1.png"]


def test_changes_are_shown_and_compacted_to_what_a_build_writes(tmp_path: Path) -> None:
    world = World(tmp_path, ARTICLES[:3], columns=MODELS, image_keys=3)
    editor = world.editor(columns=MODELS)
    more = replace(ONE, images=(*ONE.images, ArticleImage("new.png", 0)))
    world.put(editor, more, article("late", 1, further=1))
    index = editor.index
    row = index.row_of(ONE.id)
    assert row is not None and copies(index, row) == {name: expected(name) for name in ("o-1.png", "new.png")}
    assert index.compact()
    assert copies(index, index.row_of(ONE.id) or 0).keys() == {"o-1.png", "new.png"}
    editor.close()
    world.build([*ARTICLES[:2], more, article("late", 1, further=1)], tmp_path / "fresh")
    assert data_of(world.open(verify=True).folder) == data_of(tmp_path / "fresh")


def test_copies_stay_with_their_images_when_an_article_is_sent_again(tmp_path: Path) -> None:
    world = World(tmp_path, [NAMED, ONE], columns=MODELS, image_keys=3)
    editor = world.editor(columns=MODELS)
    drafts, index = DraftEditor(editor), editor.index
    sections = [{"title": "Part 0", "text": "red"}, {"title": "Part 1", "text": "blue"}]

    def put(named: set[str], sent: Image.Image | None = None, **fields: object) -> dict[str, bytes]:
        row = {"id": NAMED.id, "title": "named", "sections": sections} | fields
        draft = drafts.draft(row, named)
        for url in draft.complete(sent):
            draft.add(url, painting(zlib.crc32(url.encode())))
        draft.put()
        return copies(index, index.row_of(NAMED.id) or 0)

    own = put(set())  # only its text has changed: the main image is kept as the thumbnail that the index has
    assert own["n.png"] == expected("n.png") and differs(own["m-1.png"], expected("m-1.png")) < 8
    both = [{"url": "m-1.png", "section": 0}, {"url": "n.png", "section": 1}]
    own = put({"image", "images"}, painting(5), image="z.png", images=both)
    assert "z.png" not in own or differs(own["z.png"], thumbnail(painting(5))) < 8
    assert own["n.png"] == expected("n.png") and differs(own["m-1.png"], expected("m-1.png")) < 8
    editor.close()


def differs(one: bytes, other: bytes) -> float:
    first, second = (np.asarray(Image.open(BytesIO(data)).resize((64, 64)), np.float32) for data in (one, other))
    return float(np.abs(first - second).mean())
