"""`omgm index`: what each action does, prints and refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexes.builder.report import read_problems
from indexes.live.drafts import DraftEditor
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.store.index import Index
from indexes.store.lock import SERVES, LockedError, locked
from omgm import parts
from omgm.__main__ import main
from omgm.api import OMGM
from omgm.editing import open_editor
from omgm.profile import load_profile
from omgm.served_app import LateEditor, open_service
from tests.fakes.live import World, article, as_row, painting
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.world import FakeGenerator

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An index of two articles, and a profile whose models are fakes."""
    for name, model in (("encoder", FakeEncoder), ("fusion", FakeFusion), ("summarizer", FakeSummarizer)):
        monkeypatch.setattr(parts, f"build_{name}", lambda profile, cache=None, model=model: model())
    yield World(tmp_path, [article("a"), article("b")])


def index(world: World, action: str, *arguments: str | Path) -> int:
    return main(["index", action, "--index", str(world.index), *map(str, arguments)])


def printed(capsys: Capture) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def write_kb(world: World) -> Path:
    """Writes a changed, an unchanged and two new articles, one of which lacks its image."""
    articles = [article("a", 1), article("b"), article("c"), article("d", image="lost.png")]
    world.paint(articles)
    kb = world.folder / "new.jsonl"
    kb.write_text("".join(json.dumps(as_row(one)) + "\n" for one in articles), encoding="utf-8")
    return kb


def test_add_remove_compact(world: World, capsys: Capture) -> None:
    kb = write_kb(world)
    assert index(world, "add", kb, "--images", world.images, "--batch-size", "2", "--json") == 0
    report = printed(capsys)
    assert report.pop("words") == {"source": 352, "kept": 352} and report.pop("left_out") == []
    assert report.pop("pictures")["rule"] == ""
    assert report.pop("images_missing") == 1 and report.pop("stay") == {}
    assert report.pop("replaced_from") == {"index": [1, "kb/a"]}
    kept = {"images_kept": 0, "images_lost": 0, "images_unreadable": 0, "pruned": 0, "not_in_file": 0}
    assert report == {"added": 2, "replaced": 1, "unchanged": 1, "entities": 4, "changes": 3} | kept
    assert index(world, "add", kb, "--images", world.images) == 0
    assert "0 added, 0 replaced, 4 unchanged; 4 entities, 3 changes not compacted" in capsys.readouterr().out
    assert index(world, "remove", "kb/b", "kb/nobody") == 2
    assert "has no entity 'kb/nobody'; nothing was removed" in capsys.readouterr().err
    assert index(world, "remove", "kb/b") == 0
    assert "1 removed; 3 entities, 4 changes not compacted (omgm index compact" in capsys.readouterr().out
    assert index(world, "compact", "--json") == 0
    report = printed(capsys)
    assert (report["changes"], report["counts"]["entities"], report["counts"]["with_image"]) == (4, 3, 2)
    opened = Index.open(world.index, verify=True)
    assert [opened.entity(row).id for row in range(3)] == ["kb/a", "kb/c", "kb/d"]
    assert opened.manifest.changes == 4
    lost = json.loads((opened.folder / "report.json").read_text())["missing"]
    assert lost["count"] == 1 and [(entry["id"], entry["row"]) for entry in lost["entries"]] == [("kb/d", 2)]
    assert list(read_problems(opened.folder)) == lost["entries"]


def test_an_entity_is_removed_by_any_of_its_names(world: World, capsys: Capture) -> None:
    kb = world.folder / "named.jsonl"
    kb.write_text(json.dumps(as_row(replace(article("a"), names=("first", "other")))) + "\n", encoding="utf-8")
    assert index(world, "add", kb, "--images", world.images) == 0
    assert index(world, "compact") == 0
    capsys.readouterr()
    assert index(world, "remove", "first", "other", "kb/a", "--json") == 0
    assert printed(capsys)["removed"] == 1
    opened = LiveIndex.open(world.index)
    assert len(opened) == 1 and opened.row_of("kb/a") is None


def test_adding_many_compacts_on_the_way(world: World, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omgm.commands.index_add.COMPACT_AFTER", 2)
    assert index(world, "add", write_kb(world), "--images", world.images, "--batch-size", "2", "--json") == 0
    assert printed(capsys)["entities"] == 4
    assert (world.index / "live" / "current").exists()
    assert len(LiveIndex.open(world.index, verify=True)) == 4


def test_info_and_verify(world: World, capsys: Capture) -> None:
    assert index(world, "remove", "kb/a") == 0
    capsys.readouterr()
    assert index(world, "info", "--json") == 0
    report = printed(capsys)
    assert (report["entities"], report["changes"], report["writer"]) == (1, 1, None)
    assert report["counts"] | {"searchable": 1} == report["counts"]
    assert (report["counts"]["entities"], report["counts"]["sections"], report["counts"]["with_image"]) == (1, 2, 1)
    assert report["log_bytes"] == (world.index / "live" / "000000.log").stat().st_size
    with locked(world.index, "serves it"):
        assert index(world, "info") == 0
        out = capsys.readouterr().out
        assert "1 entity, 1 change since" in out
        assert f"written by process {os.getpid()}" in out
    assert index(world, "verify", "--json") == 0
    assert printed(capsys) == {"ok": True, "entities": 1, "changes": 1}
    data = bytearray((world.index / "summaries.jsonl").read_bytes())
    data[3] ^= 1
    (world.index / "summaries.jsonl").write_bytes(data)
    assert index(world, "verify") == 2
    assert "summaries.jsonl: content differs from its checksum" in capsys.readouterr().err


def test_a_service_that_holds_the_lock(world: World, capsys: Capture) -> None:
    with locked(world.index, SERVES):
        for action, *arguments in (["add", write_kb(world)], ["remove", "kb/a"], ["compact"]):
            assert index(world, str(action), *arguments) == 2
            assert "only one process may write there: wait until it has ended" in (error := capsys.readouterr().err)
            assert "PUT and DELETE /entities?id=" in error


def test_another_summarizer_is_refused(world: World, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSummarizer, "name", "better")
    assert index(world, "add", write_kb(world), "--images", world.images) == 2
    assert "its summaries are by 'first-sentence', but this profile has 'better'" in capsys.readouterr().err


def test_python_and_the_service_read_changes_that_are_not_compacted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    assert index(world, "add", write_kb(world), "--images", world.images) == 0
    profile = load_profile("embedded")
    with OMGM.open(world.index, profile, generator=FakeGenerator()) as omgm:
        best = omgm.nearest(painting(int.from_bytes(b"-1.png", "big")), k=4)
        assert len(omgm.index) == 4
        assert {row.entity for row in best} == {f"kb/{name}" for name in "abcd"}
        assert index(world, "remove", "kb/d") == 0  # by another process
        found = omgm.nearest(painting(int.from_bytes(b"-1.png", "big")), k=4)
        assert {row.entity for row in found} == {f"kb/{name}" for name in "abc"}
        assert index(world, "add", write_kb(world), "--images", world.images) == 0
    retriever, editor = open_service(profile, world.index, FakeEncoder())
    assert isinstance(editor, Editor)
    assert editor.compact_after == 1000
    assert editor.models is retriever.models
    second, late = open_service(profile, world.index, FakeEncoder())
    assert isinstance(late, LateEditor)
    assert late() == "another process changes it"
    assert f"{world.index} cannot be changed here" in caplog.text and "which serves it" in caplog.text
    world.put(editor, article("e"))
    assert (len(retriever.index), len(second.index)) == (5, 4)
    editor.close()
    taken = late()  # the first service has ended, as in a rolling restart
    assert isinstance(taken, DraftEditor) and taken is late()
    assert len(second.index) == 5 and taken.editor.compact_after == 1000
    world.put(taken.editor, article("f"))
    assert len(second.index) == 6
    with pytest.raises(LockedError):
        open_editor(profile, world.index, FakeEncoder(), parts.build_fusion(profile), "tests")
    late.close()
    with OMGM.open(world.index, profile, generator=FakeGenerator()) as omgm:
        assert len(omgm.index) == 6


def test_articles_with_names_of_their_own(world: World, capsys: Capture) -> None:
    kb = world.folder / "named.jsonl"
    kb.write_text(json.dumps({"key": "kb/z", "label": "Z", "text": "Words."}) + "\n")
    assert index(world, "add", kb, "--images", world.images, "--map", "id=key", "--json") == 0
    assert printed(capsys)["added"] == 1


def test_an_update_without_the_images_is_refused_or_keeps_them(world: World, capsys: Capture) -> None:
    empty = world.folder / "unmounted"
    empty.mkdir()
    kb = write_kb(world).rename(empty / "new.jsonl")
    for images in ((), ("--images", empty)):
        assert index(world, "add", kb, *images) == 2
        error = capsys.readouterr().err
        assert "2 of 2 entities that have an image in the index have none now, the first 'kb/a'" in error
        assert "nothing was changed" in error and "--accept-missing" in error
    assert LiveIndex.open(world.index).changes == 0
    assert index(world, "add", kb, "--images", empty, "--accept-missing") == 0
    assert "2 entities without an image now: the images of the index were kept" in capsys.readouterr().out
    opened = LiveIndex.open(world.index)
    row = opened.row_of("kb/a")
    assert row is not None and opened.entity(row).title == "a 1" and opened.image_path(row) is not None
    assert index(world, "info", "--json") == 0
    assert printed(capsys)["counts"]["with_image"] == 2  # not those of c and d, which are new


def test_entities_that_are_not_in_the_file_stay_unless_pruned(world: World, capsys: Capture) -> None:
    kb = world.folder / "one.jsonl"
    kb.write_text(json.dumps(as_row(article("a"))) + "\n", encoding="utf-8")
    assert index(world, "add", kb, "--images", world.images) == 0
    assert (
        f"1 entity of the index not among those read from {kb}; they stay "
        "(--prune with the whole removes those that it had)" in capsys.readouterr().out
    )
    kb.write_text(json.dumps(as_row(article("a"))) + '\n{"id": "kb/b"}\n', encoding="utf-8")
    assert index(world, "add", kb, "--images", world.images, "--prune", "--max-bad", "0.5") == 0
    assert "1 entity not removed, such as 'kb/b': the reading was not complete: 1 entry that" in capsys.readouterr().out
    kb.write_text(json.dumps(as_row(article("z"))) + "\n", encoding="utf-8")
    assert index(world, "add", kb, "--images", world.images, "--prune") == 2
    assert "has none of the 2 entities of the index, so that --prune would remove all" in capsys.readouterr().err
    kb.write_text(json.dumps(as_row(article("a"))) + "\n", encoding="utf-8")
    assert index(world, "add", kb, "--images", world.images, "--prune", "--json") == 0
    report = printed(capsys)
    assert (report["pruned"], report["not_in_file"], report["unchanged"], report["entities"]) == (1, 0, 1, 1)


def test_too_many_bad_entries_change_nothing(world: World, capsys: Capture) -> None:
    kb = world.folder / "bad.jsonl"
    kb.write_text(json.dumps(as_row(article("a", 1))) + 6 * '\n{"id": "x"}', encoding="utf-8")
    world.paint([article("a", 1)])
    assert index(world, "add", kb, "--images", world.images) == 2
    assert "--max-bad 0.86" in capsys.readouterr().err and LiveIndex.open(world.index).changes == 0
    assert index(world, "add", kb, "--images", world.images, "--max-bad", "0.86") == 0
    assert "0 added, 1 replaced" in capsys.readouterr().out


def test_a_note_or_a_folder_inside_the_built_one_has_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name, model in (("encoder", FakeEncoder), ("fusion", FakeFusion), ("summarizer", FakeSummarizer)):
        monkeypatch.setattr(parts, f"build_{name}", lambda profile, cache=None, model=model: model())
    vault, out = tmp_path / "vault", tmp_path / "index"
    (vault / "animals" / "birds").mkdir(parents=True)
    for name in ("Fox", "animals/Fox", "animals/birds/Owl"):
        (vault / f"{name}.md").write_text(f"# {name} here\n\nThe one at {name} is 3 years old.\n")
    options: dict[str, Any] = {"encoder": FakeEncoder(), "fusion": FakeFusion(), "summarizer": FakeSummarizer()}
    build_index(vault, None, out, candidates="summary", **options)

    def add(*arguments: str | Path) -> dict[str, Any]:
        assert main(["index", "add", "--index", str(out), "--json", *map(str, arguments)]) == 0
        return {what: count for what, count in printed(capsys).items() if what in ("added", "replaced", "unchanged")}

    (vault / "animals" / "Fox.md").write_text("# animals/Fox here\n\nThe one at animals/Fox is 8 years old.\n")
    assert add(vault / "animals" / "Fox.md") == {"added": 0, "replaced": 1, "unchanged": 0}
    assert add(vault / "animals") == {"added": 0, "replaced": 0, "unchanged": 2}
    (vault / "animals" / "birds" / "Hen.md").write_text("# Hen\n\nIt is new.\n")
    assert add(vault / "animals" / "birds" / "Hen.md") == {"added": 1, "replaced": 0, "unchanged": 0}
    assert main(["index", "add", "--index", str(out), str(vault / "animals"), "--prune"]) == 0
    said = capsys.readouterr().out
    assert f"1 entity not removed, such as 'Fox': only {vault / 'animals'} was read; add {vault} as a whole" in said
    monkeypatch.chdir(vault / "animals")
    assert add("birds") == {"added": 0, "replaced": 0, "unchanged": 2}
    assert add(vault) == {"added": 0, "replaced": 0, "unchanged": 4}
    opened = LiveIndex.open(out)
    ids = [opened.entity(row).id for row in opened.rows()]
    assert ids == ["Fox", "animals/Fox", "animals/birds/Owl", "animals/birds/Hen"]
