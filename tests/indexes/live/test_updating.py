"""Updates from a knowledge base: which images are kept, and what is counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexes.knowledge.sources import FolderImages
from indexes.live.editor import Editor
from indexes.live.pruning import Gaps, Origins
from indexes.live.updating import update
from indexes.live.version import count
from indexes.store.index import Index
from retriever.types import Entity
from tests.fakes.live import World, article


def updated(
    world: World, editor: Editor, entities: Iterable[Entity], accept_missing: bool = False, prune: bool = False
) -> dict[str, int]:
    entities = list(entities)
    images = FolderImages(world.images)
    origins = Origins(world.folder / "index.jsonl", editor.index)
    outcome = update(
        editor,
        lambda compare: entities,
        images,
        origins,
        accept_missing=accept_missing,
        prune=Gaps if prune else None,
    )
    return {what: number for what, number in outcome.counts().items() if number}


@pytest.mark.parametrize("options", [{"image_keys": 3}, {"candidates": "summary"}, {"tokens": "float16"}])
def test_an_absent_image_is_kept_with_its_keys_and_tokens(tmp_path: Path, options: dict[str, object]) -> None:
    entities = [article(name, further=2) for name in "abcde"]
    world = World(tmp_path, entities, **options)
    before = world.open()
    old = before.row_of("kb/a")
    assert old is not None and entities[0].image is not None
    path, stored = before.image_path(old), before.stored(old)
    assert path is not None
    (world.images / entities[0].image).unlink()
    for image in entities[0].images:
        (world.images / image.url).unlink()
    changed = replace(entities[0], title="Another title")
    editor = world.editor()
    assert updated(world, editor, [changed, *entities[1:]]) == {"replaced": 1, "unchanged": 4, "images_kept": 1}
    row = editor.index.row_of("kb/a")
    assert row is not None and editor.index.entity(row).title == "Another title"
    kept = editor.index.image_path(row)
    assert kept is not None and kept.read_bytes() == path.read_bytes()
    if world.options["candidates"] == "combined":  # else a key is the text's
        half = editor.encoder.dimension
        np.testing.assert_array_equal(editor.index.stored(row).keys[:, :half], stored.keys[:, :half])
    own, expected = (one.tokens[one.token_sections :] for one in (editor.index.stored(row), stored))
    np.testing.assert_array_equal(own, expected)
    assert len(editor.index.section_rows(row)) == 2
    assert updated(world, editor, [changed, *entities[1:]]) == {"unchanged": 5, "images_kept": 1}
    counts = count(editor.index.version)
    editor.index.compact()
    assert Index.open(editor.index.folder).manifest.counts == counts
    editor.close()


def test_an_image_that_is_there_but_no_longer_named_is_lost(tmp_path: Path) -> None:
    entities = [article(name) for name in "abcde"]
    world = World(tmp_path, entities)
    editor = world.editor()
    bare = replace(entities[0], image=None)
    assert updated(world, editor, [bare, *entities[1:]]) == {"replaced": 1, "unchanged": 4, "images_lost": 1}
    assert updated(world, editor, [bare, *entities[1:]]) == {"unchanged": 5}
    assert count(editor.index.version).with_image == 4
    editor.close()


def test_more_than_half_are_refused_and_half_are_not(tmp_path: Path) -> None:
    entities = [article(name) for name in "abcd"]
    world = World(tmp_path, entities)
    editor = world.editor()
    for number, entity in enumerate(entities[:3]):
        assert entity.image is not None
        (world.images / entity.image).unlink()
        if number == 1:
            assert updated(world, editor, entities) == {"unchanged": 4, "images_kept": 2}
    with pytest.raises(ValueError, match=r"3 of 4 entities .* the first 'kb/a'; nothing was changed"):
        updated(world, editor, entities)
    assert updated(world, editor, entities, accept_missing=True) == {"unchanged": 4, "images_kept": 3}
    editor.close()


def test_an_image_found_by_its_name_is_kept_when_its_folder_is_gone(tmp_path: Path) -> None:
    entities = [article(name) for name in "abc"]
    world = World(tmp_path, entities)
    editor = world.editor()
    for entity in entities:
        assert entity.image is not None
        (world.images / entity.image).unlink()
    unnamed = [replace(entity, image=None) for entity in entities]  # as of a matcher that finds nothing
    counts = updated(world, editor, unnamed, accept_missing=True)
    assert counts == {"unchanged": 3, "images_kept": 3}
    editor.close()


def test_images_that_are_not_searched_are_named_as_in_a_build(tmp_path: Path) -> None:
    world = World(tmp_path, [article("a")], image_keys=3)
    editor, more = world.editor(), [article("a"), article("b", further=2), article("c", further=4)]
    for entity in more:
        for image in [entity.image, *(one.url for one in entity.images)]:
            (world.images / str(image)).parent.mkdir(exist_ok=True)
            Image.new("RGB", (8, 8), "red").save(world.images / str(image))
    notes = list[str]()
    kb = world.folder / "index.jsonl"
    update(editor, lambda compare: more, FolderImages(world.images), Origins(kb, editor.index), notes=notes)
    assert notes == [
        "2 images of 1 entity, such as kb/c: not searched, only the first 3 of each are; to search more, set "
        "search.image_keys"
    ]
    editor.close()
