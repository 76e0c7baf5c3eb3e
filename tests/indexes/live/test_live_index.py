"""A changed index answers like one built from the final knowledge base, and keeps every change."""

from __future__ import annotations

import itertools
import random
import threading
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.keypoints import KeypointModel
from indexes.live.articles import Article
from indexes.live.compaction import write_generation
from indexes.live.index import LiveIndex
from indexes.live.version import Version, count
from indexes.section_words import WordsModel
from indexes.store.generations import current_files, settled_files
from indexes.store.index import Index
from indexes.store.published import save_index
from indexes.thumbnails import ThumbnailModel
from retriever.maxsim import max_sim_spans
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.types import Entity, Query
from tests.fakes import live
from tests.fakes.live import BASE, World, article, as_row, data_of, hash_of, painting
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSections
from tests.fakes.text_reader import LabelReader

FINAL = [
    *(article("a"), article("b", 5), article("d", image="gone.png"), article("e")),
    *(article("f", 1), article("g", 2, image=None), article("h", 3, sections=0)),
]
"""The knowledge base after `edit`."""


def edit(world: World) -> LiveIndex:
    """Replaces, removes and adds in the order of `FINAL`; returns the index, still open."""
    editor = world.editor()
    world.put(editor, article("f", 9), article("x"))
    world.put(editor, article("b", 5), article("d", image="gone.png"))
    editor.remove(["kb/c", "kb/x"])
    world.put(editor, article("f", 1))
    world.put(editor, article("g", 2, image=None), article("h", 3, sections=0))
    return editor.index


def check_same(index: Index, fresh: Index) -> None:
    """Compares everything that a reader sees, entity by entity."""
    queries = FakeEncoder().encode_images([painting(seed) for seed in range(6)])
    names = [
        [(one.entity(row).id if row >= 0 else None) for row in rows]
        for one in (index, fresh)
        for rows in one.search(queries, 9)[1].tolist()
    ]
    assert names[: len(queries)] == names[len(queries) :]
    np.testing.assert_allclose(index.search(queries, 9)[0], fresh.search(queries, 9)[0], atol=1e-6)
    assert len(index) == len(fresh)
    tokens = FakeFusion().encode([painting(7)], ["red stripes"])
    for own in range(len(fresh)):
        entity = fresh.entity(own)
        row = index.row_of(entity.id)
        assert row is not None
        assert (index.entity(row), index.summary(row)) == (entity, fresh.summary(own))
        shown, expected = index.image_path(row), fresh.image_path(own)
        assert (shown and shown.read_bytes()) == (expected and expected.read_bytes())
        spans = [index.section_rows(row), fresh.section_rows(own)]
        scores = [
            max_sim_spans(tokens, one.gather([span]), [0], [span])
            for one, span in zip((index, fresh), spans, strict=True)
        ]
        assert scores[0] == scores[1]
        assert torch.equal(index.tokens(np.array(spans[0])), fresh.tokens(np.array(spans[1])))
        for name in fresh.columns:
            for one, other in zip(index.column(name, row) or (), fresh.column(name, own) or (), strict=True):
                assert np.array_equal(one, other)


def drawn(draw: random.Random, name: str) -> Entity:
    """Returns an article with an image or without, perhaps one that is gone, has no background or has a border."""
    image = draw.choice(["own", "own", "own", None, "gone.png", f"logo {ord(name)}.png", f"card {ord(name)}.png"])
    sections = 0 if name == "a" else draw.randrange(1, 4)
    return article(name, draw.randrange(1000), image, sections, draw.randrange(3) if sections and image else 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_changes_equal_a_fresh_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever is changed in whatever index, and whether it is compacted in between."""
    monkeypatch.setattr(live, "hash_of", lambda name: zlib.crc32(name.encode()))  # its own is the same for many names
    draw, names = random.Random(seed), "abcdefgh"
    columns = {"sections": FakeSections(), "section_words": WordsModel(), "image_text": LabelReader()}
    options: dict[str, Any] = {"columns": columns | {"keypoints": KeypointModel(), "thumbnails": ThumbnailModel()}}
    design: dict[str, Any] = {
        "candidates": ["combined", "image", "summary"][seed],
        "tokens": ["int8", "pool4+int4", "float16"][seed],
        "image_keys": draw.choice([1, 3]),
        "section_images": draw.random() < 0.5,
        "trim_borders": draw.random() < 0.5,
    }
    # The second is beside no images of former editions: a build would propose them for articles without images.
    world, anew = (World.at(tmp_path / name, **design, **options) for name in ("world", "anew"))
    for folder, name in itertools.product((world.images, anew.images), names):
        logo, card = painting(ord(name)).convert("RGBA"), Image.new("RGB", (300, 260), "white")
        logo.paste((0, 0, 0, 0), (0, 0, 128, 40))
        logo.save(folder / f"logo {ord(name)}.png")
        card.paste(painting(1000 + ord(name)), (86, 66))
        card.save(folder / f"card {ord(name)}.png")
    held = {entity.id: entity for entity in (drawn(draw, name) for name in names[:5])}
    world.build([*held.values()], world.index)
    editor = world.editor(**options)
    for _ in range(6):
        changed = [drawn(draw, name) for name in draw.sample(names, 2)]
        world.put(editor, *changed)
        held |= {entity.id: entity for entity in changed}
        if draw.random() < 0.5:
            gone = draw.choice(sorted(held))
            editor.remove([gone])
            del held[gone]
        if draw.random() < 0.2:
            editor.index.compact()
    index = editor.index
    fresh = anew.build([held[index.entity(row).id] for row in index.rows()], anew.index)
    check_same(index, fresh)
    check_same(world.open(), fresh)  # a reader beside it
    assert count(index.version) == fresh.manifest.counts
    editor.close()
    check_same(world.open(), fresh)  # after a restart
    editor = world.editor(**options)
    editor.index.compact()
    check_same(editor.index, fresh)
    assert data_of(current_files(world.index)) == data_of(anew.index)
    check_same(Index.open(world.index, encoder=FakeEncoder(), fusion=FakeFusion(), verify=True), fresh)
    assert not editor.index.compact()  # nothing to do
    editor.close()


def test_the_whole_pipeline_ranks_alike(tmp_path: Path, world: World) -> None:
    index, fresh = edit(world), world.build(FINAL, tmp_path / "fresh")
    queries = [Query(painting(seed), "Which stripe is red?", str(seed)) for seed in range(4)]

    def ranked(one: Index) -> list[list[tuple[str, float]]]:
        steps: list[Step] = [EntitySearch(FakeEncoder(), one, 4), FusionRerank(FakeFusion(), one, 0.5)]
        pin = one.pinned if isinstance(one, LiveIndex) else None
        retriever = Retriever(steps, one, pin=pin) if pin else Retriever(steps, one)
        return [
            [(one.entity(c.row).id, round(c.score, 5)) for c in found.candidates]
            for found in retriever.retrieve(queries)
        ]

    assert ranked(index) == ranked(fresh)


def test_only_the_best_are_removed(tmp_path: Path) -> None:
    """The search requests more than k results from the files until enough of them are still valid."""
    many = [article(f"n{number}", number) for number in range(150)]
    world = World(tmp_path, many)
    query = FakeEncoder().encode_images([painting(hash_of("of-n5-5.png"))])
    order = [many[row].id for row in Index.open(world.index).search(query, 150)[1][0]]
    editor = world.editor()
    editor.remove(order[:140])
    rows = editor.index.search(query, 5)[1][0]
    assert [editor.index.entity(row).id for row in rows] == order[140:145]
    assert editor.index.search(query, 12)[1][0][10:].tolist() == [-1, -1]
    assert len(editor.index) == 10


def test_a_reader_sees_one_version(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pinned thread found stays unchanged and readable while all of it is replaced and compacted away."""
    monkeypatch.setattr("indexes.live.following.GRACE", 0)
    earlier = set(threading.enumerate())  # including timers of other tests, which run for a minute
    editor = world.editor()
    index, query = editor.index, FakeEncoder().encode_images([painting(1)])
    with index.pinned() as version:
        rows = index.search(query, 5)[1][0].tolist()
        before = [(index.entity(row), index.image_path(row)) for row in rows]

        def replace() -> None:
            world.put(editor, *(article(name, 6) for name in "abcde"))
            editor.index.compact()
            world.put(editor, article("a", 7))

        other = threading.Thread(target=replace)
        other.start()
        other.join()
        assert index.search(query, 5)[1][0].tolist() == rows
        assert [(index.entity(row), index.image_path(row)) for row in rows] == before
        assert {index.row_of(f"kb/{name}") for name in "abcde"} == set(rows)
        assert all(path is not None and path.is_file() for _, path in before)
        assert torch.cat([index.gather([index.section_rows(row)]).values for row in rows]).shape[0] >= 10
    titles = {index.entity(row).title for row in index.search(query, 5)[1][0].tolist()}
    assert titles == {"a 7", "b 6", "c 6", "d 6", "e 6"}
    old = rows[0]
    del version, other
    for _ in range(2):  # the timers that held the old version, then the threads that remove its files
        for thread in set(threading.enumerate()) - earlier:
            if isinstance(thread, threading.Timer) or thread.name == "remove old files":
                thread.join()
    assert not (world.index / "manifest.json").exists()  # nothing reads the old files any more
    assert index.image_path(old) is None
    with pytest.raises(IndexError, match=f"no entity at row {old}"):
        index.entity(old)


def test_a_result_keeps_its_rows(world: World) -> None:
    editor = world.editor()
    index = editor.index
    retriever = Retriever([EntitySearch(FakeEncoder(), index, 5)], index, pin=index.pinned)
    [found] = retriever.retrieve([Query(painting(1), "?")])
    world.put(editor, article("a", 8))
    editor.index.compact()
    assert sorted(index.entity(candidate.row).title for candidate in found.candidates) == [
        *("a 0", "b 0", "c 0", "d 0", "e 0")
    ]


def test_changes_that_undo_each_other_are_compacted(tmp_path: Path, world: World) -> None:
    """Regression: commands that need complete files refused them, and a compaction found nothing to do."""
    editor = world.editor()
    world.put(editor, article("x"))
    editor.remove(["kb/x"])
    assert editor.index.changes == 0
    with pytest.raises(ValueError, match="omgm index compact --index"):
        settled_files(world.index)
    assert editor.index.compact()
    assert settled_files(world.index) == world.index / "live" / "000001"
    assert not editor.index.compact()
    editor.index.close()
    check_same(world.open(), world.build(BASE, tmp_path / "fresh"))


def test_changes_during_a_compaction_are_kept(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = world.editor()
    world.put(editor, article("a", 1), article("f"), article("g"))

    def write_and_change(version: Version, target: Path) -> None:
        write_generation(version, target)
        world.put(editor, article("a", 2), article("i"))
        editor.remove(["kb/b", "kb/f"])

    monkeypatch.setattr("indexes.live.index.write_generation", write_and_change)
    assert editor.index.compact()
    final = [article("a", 2), *BASE[2:], article("g"), article("i")]
    fresh = world.build(final, tmp_path / "fresh")
    check_same(editor.index, fresh)
    editor.index.close()
    check_same(world.open(), fresh)
    monkeypatch.undo()
    again = world.editor()
    again.index.compact()
    assert data_of(current_files(world.index)) == data_of(tmp_path / "fresh")
    again.index.close()


def test_changes_from_many_threads(world: World) -> None:
    editor = world.editor()
    final = [article(f"t{thread}-{number}", number) for thread in range(4) for number in range(5)]
    world.paint(final)

    def change(thread: int) -> None:
        for number in range(5):
            world.put(editor, final[5 * thread + number])

    threads = [threading.Thread(target=change, args=(thread,)) for thread in range(4)]
    for one in threads:
        one.start()
    editor.index.compact()
    for one in threads:
        one.join()
    editor.index.close()
    index = world.open(verify=True)
    assert len(index) == 25
    assert all(index.entity(index.row_of(one.id) or -1) == one for one in final)


def test_the_index_compacts_itself_when_due(world: World) -> None:
    """Also if an article is replaced again and again, which would fill the log."""
    editor = world.editor(compact_after=3)

    def compacted() -> str:
        for thread in threading.enumerate():
            if thread.name == "compact the index":
                thread.join()
        return editor.index.folder.name

    for text in range(1, 4):
        world.put(editor, article("a", text))
    assert compacted() == "000001"
    world.put(editor, article("a", 4), article("f"))
    assert editor.index.version.logged == world.open().version.logged == 2
    editor.remove(["kb/b"])
    assert (compacted(), editor.index.changes, len(editor.index)) == ("000002", 0, 5)
    assert editor.index.version.logged == 0
    editor.index.close()


def test_unchanged_articles_are_known(world: World) -> None:
    editor = world.editor()
    same = Article(BASE[0], image=painting(hash_of("of-a-0.png")))
    assert editor.holds(same)
    assert not editor.holds(same._replace(image=None))
    assert not editor.holds(same._replace(image=painting(77)))
    assert not editor.holds(Article(article("a", 1), image=same.image))
    assert not editor.holds(Article(article("z")))


def test_lists_are_dropped_as_in_the_build(tmp_path: Path) -> None:
    editor = World(tmp_path / "world", BASE, drop_sections=["references"]).editor()
    entity = Entity("kb/z", "Z", (*article("z").sections, BASE[0].sections[0].__class__("References", "[1]", 2)))
    editor.put([Article(entity)])
    row = editor.index.row_of("kb/z")
    assert row is not None
    assert [section.title for section in editor.index.entity(row).sections] == ["Part 0", "Part 1"]


def test_what_does_not_fit_is_refused(world: World) -> None:
    editor = world.editor()
    with pytest.raises(KeyError, match="kb/nobody"):
        editor.remove(["kb/a", "kb/nobody"])
    assert editor.index.row_of("kb/a") is not None
    editor.index.close()
    with pytest.raises(ValueError, match="not open for changes"):
        world.put(editor, article("z"))
    reader = world.open()
    with pytest.raises(ValueError, match="not open for changes"):
        reader.compact()


def test_files_without_the_changes_are_refused(tmp_path: Path, world: World) -> None:
    editor = world.editor()
    Index.open(world.index)  # open for changes, but there are none
    world.put(editor, article("z"))
    with pytest.raises(ValueError, match="omgm index compact --index"):
        Index.open(world.index)
    with pytest.raises(ValueError, match="1 change not yet in its files"):
        save_index(editor.index, tmp_path / "copy")
    editor.index.compact()
    assert len(Index.open(world.index)) == 6
    save_index(editor.index, tmp_path / "copy")
    assert len(Index.open(tmp_path / "copy", verify=True)) == 6
    editor.index.close()


def test_a_build_of_the_same_inputs_keeps_changes_and_another_replaces_them(world: World) -> None:
    editor = world.editor()
    world.put(editor, article("z"))
    assert len(world.build(BASE, world.index)) == 5  # its files; nothing is built
    editor.index.compact()
    editor.index.close()
    assert len(world.build(BASE, world.index)) == 6
    world.options["overwrite"] = True
    assert len(world.build(BASE[:2], world.index)) == 2
    assert len(world.open(verify=True)) == 2
    assert not (world.index / "live").exists()
    assert as_row(world.open().entity(0))["id"] == "kb/a"


def test_entities_are_known_by_their_other_names(tmp_path: Path) -> None:
    other = replace(article("a"), names=("first", "kb/b"))  # kb/b is the id of another entity
    world = World(tmp_path, [other, article("b"), replace(article("c"), names=("third",))])
    editor = world.editor()
    index = editor.index

    def called(name: str) -> str | None:
        row = index.row_of(name)
        return None if row is None else index.entity(row).id

    assert [called(name) for name in ("first", "third", "kb/b", "fourth")] == ["kb/a", "kb/c", "kb/b", None]
    world.put(editor, replace(article("z"), id="third"))  # an entity of its own
    assert (called("third"), called("kb/c"), len(index)) == ("third", "kb/c", 4)
    editor.remove(["first"])
    assert called("first") is called("kb/a") is None
    index.compact()
    assert [called(name) for name in ("first", "third", "kb/c")] == [None, "third", "kb/c"]
    editor.remove(["third"])
    index.compact()
    assert called("third") == "kb/c"
    index.close()
