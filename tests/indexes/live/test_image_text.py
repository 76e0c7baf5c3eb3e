"""The column of the text on images: built, changed, compacted and built again."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indexes.builder.report import problem_lines, read_report
from indexes.image_text import IMAGE_TEXT
from indexes.live.articles import Article, completed
from indexes.live.image_text import IndexText
from indexes.live.version import count
from indexes.store.columns import MAIN
from indexes.store.image_text import WIDTH, decode_texts, encode_texts, texts_of
from indexes.store.index import Index
from retriever.types import Entity
from tests.fakes import live
from tests.fakes.live import World, article, data_of
from tests.fakes.text_reader import LabelReader

PLAIN = zlib.crc32(b"of-plain-0.png")
"""The image without text."""


@pytest.fixture(autouse=True)
def _labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes a text of its own on every image but the plain one."""
    painting = live.painting

    def labeled(seed: int) -> Image.Image:
        return LabelReader.write(painting(seed), "" if seed == PLAIN else label(seed))

    monkeypatch.setattr(live, "painting", labeled)
    monkeypatch.setattr(live, "hash_of", seed_of)  # its own is the same for many names


def seed_of(name: str) -> int:
    return zlib.crc32(name.encode())


def label(seed: int) -> str:
    return f"Label {seed}\nof {seed % 97} grams"


def of(name: str) -> str:
    """Returns the text on a main or a further image."""
    return label(seed_of(name))


ARTICLES = [article("a"), article("bb", further=2), article("plain"), article("none", image=None), article("ccc")]
"""The article `bb` has further images."""


def world_of(folder: Path, reader: LabelReader) -> World:
    return World(folder, ARTICLES, columns={"image_text": reader}, image_keys=3)


def texts(index: Index) -> dict[str, list[str]]:
    """Returns the texts on the images of all entities."""
    rows = getattr(index, "rows", lambda: range(len(index)))()
    found: dict[str, list[str]] = {}
    for row in rows:
        encoded = index.column("image_text", row)
        assert encoded is not None
        found[index.entity(row).id] = texts_of(index.entity(row), encoded)
    return found


def nearest(index: Index, text: str) -> str:
    """Returns the id of the entity whose text is most similar."""
    [(row, similarity)] = IndexText(index).similar(text, 1).items()
    assert similarity == pytest.approx(1.0)
    return index.entity(row).id


def test_texts_are_stored_in_rows_of_a_fixed_width() -> None:
    encoded = encode_texts({9: "é" * 40, MAIN: "short", 4: ""})
    assert encoded.values.shape == (4, 32) and encoded.parts.tolist() == [0, 9, 9, 9]  # 5 and 80 bytes, and none
    assert decode_texts(encoded) == {MAIN: "short", 9: "é" * 40}
    assert decode_texts(IMAGE_TEXT.nothing(WIDTH)) == {} and len(encode_texts({}).parts) == 0


def test_every_searched_image_is_read_once(tmp_path: Path) -> None:
    reader = LabelReader()
    world = world_of(tmp_path, reader)
    assert reader.images == 6
    index = Index.open(world.index, columns={"image_text": reader}, verify=True)
    assert texts(index) == {
        "kb/a": [of("of-a-0.png")],
        "kb/bb": [of("of-bb-0.png"), of("bb-0/0.png"), of("bb-0/1.png")],
        "kb/plain": [],
        "kb/none": [],
        "kb/ccc": [of("of-ccc-0.png")],
    }
    assert nearest(index, of("bb-0/1.png")) == "kb/bb" and nearest(index, "NONE 0") == "kb/none"  # its title
    report = read_report(world.index)
    assert report["image_text"] == {"images": 5, "entities": 3}
    assert "text read on 5 images" in problem_lines(report)


def test_another_reader_reads_again_and_only_the_column_changes(tmp_path: Path) -> None:
    reader = LabelReader()
    world = world_of(tmp_path, reader)
    before = data_of(world.index)
    with pytest.raises(ValueError, match=r"model of column image_text .*makes only this column again"):
        Index.open(world.index, columns={"image_text": LabelReader("other")})
    world.options |= {"columns": {}, "overwrite": True}
    assert not world.build(ARTICLES, world.index).columns and reader.images == 6
    world.options["columns"] = {"image_text": reader}
    assert world.build(ARTICLES, world.index).columns and reader.images == 12
    assert data_of(world.index) == before
    assert world.build(ARTICLES, world.index).columns and reader.images == 12  # the same reader and images


def test_changes_are_searched_and_compacted_to_what_a_build_writes(tmp_path: Path) -> None:
    reader = LabelReader()
    world = world_of(tmp_path, reader)
    editor = world.editor(columns={"image_text": reader})
    world.put(editor, article("a", 7), article("new", 1, further=1))
    editor.remove(["kb/ccc"])
    assert reader.images == 6 + 3
    expected = {
        "kb/a": [of("of-a-7.png")],
        "kb/bb": [of("of-bb-0.png"), of("bb-0/0.png"), of("bb-0/1.png")],
        "kb/plain": [],
        "kb/none": [],
        "kb/new": [of("of-new-1.png"), of("new-1/0.png")],
    }

    def check(index: Index) -> None:
        assert texts(index) == expected
        for name, entity in (("of-a-7.png", "kb/a"), ("new-1/0.png", "kb/new"), ("bb-0/0.png", "kb/bb")):
            assert nearest(index, of(name)) == entity
        for gone in ("of-a-0.png", "of-ccc-0.png"):
            assert max(IndexText(index).similar(of(gone), 9).values()) < 0.9

    check(editor.index)
    check(world.open())  # a reader, from the log
    counted = count(editor.index.version)
    row = editor.index.row_of("kb/new")
    assert row is not None
    vector = editor.encoder.encode_images([live.painting(seed_of("of-new-1.png"))])[0]
    scores, rows = editor.index.search(vector[None], 9)
    listed = [one for one in rows[0].tolist() if one >= 0]
    assert IndexText(editor.index).scores_of(vector, listed) == pytest.approx(
        scores[0][: len(listed)].tolist(), abs=1e-3
    )
    assert editor.index.compact() and editor.index.manifest.counts == counted
    check(editor.index)
    editor.close()
    world.build([article("a", 7), *ARTICLES[1:4], article("new", 1, further=1)], tmp_path / "fresh")
    assert data_of(world.open(verify=True).folder) == data_of(tmp_path / "fresh")


def test_an_article_that_keeps_its_images_keeps_their_text(tmp_path: Path) -> None:
    reader = LabelReader()
    world = world_of(tmp_path, reader)
    editor = world.editor(columns={"image_text": reader})
    kept = texts(editor.index)["kb/bb"]
    [old] = [one for one in ARTICLES if one.id == "kb/bb"]
    text = Entity(old.id, "Another title", article("bb", 5).sections)
    editor.put([completed(Article(text), editor.index, (), [])])
    assert texts(editor.index)["kb/bb"] == kept and reader.images == 6
    assert nearest(editor.index, "another title") == "kb/bb"
    picture = LabelReader.write(live.painting(3), "Entirely new")
    changed = completed(Article(text, image=picture), editor.index, ("image",), [])
    editor.put([changed._replace(main=changed.main._replace(path="sent"))])
    assert texts(editor.index)["kb/bb"] == ["Entirely new", *kept[1:]] and reader.images == 7
    editor.put([completed(Article(text), editor.index, ("image", "images"), [])])
    assert texts(editor.index)["kb/bb"] == []
    editor.close()


def test_a_killed_build_resumes(tmp_path: Path) -> None:
    class Killed(LabelReader):
        def read(self, images: Any, side: int | None = None) -> Any:
            if self.calls == 5:
                raise RuntimeError("killed on purpose")
            return super().read(images, side)

    whole = world_of(tmp_path / "whole", LabelReader())
    world = World.at(tmp_path / "again", **whole.options | {"columns": {"image_text": Killed()}, "batch_size": 3})
    with pytest.raises(RuntimeError, match="killed on purpose"):
        world.build(ARTICLES, world.index)
    reader = LabelReader()
    world.options["columns"] = {"image_text": reader}
    world.build(ARTICLES, world.index)
    assert data_of(world.index) == data_of(whole.index)
    assert reader.images == 1  # an entity at a time: "plain" was the last one, although it has no text
