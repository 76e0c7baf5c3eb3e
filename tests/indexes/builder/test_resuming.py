"""Builds that are killed and restarted."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indexes.store.index import Index
from tests.fakes.builds import Fuse, FusedEncoder, FusedFusion, FusedSummarizer, build, burning, kill
from tests.fakes.knowledge_base import write_kb
from tests.fakes.processes import run_python
from tests.paths import contents


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, bytes]]:
    """A knowledge base, its images, and the contents of an uninterrupted build."""
    folder = tmp_path_factory.mktemp("world")
    kb, images = write_kb(folder)
    build(kb, images, folder / "whole")
    return kb, images, contents(folder / "whole")


World = tuple[Path, Path, dict[str, bytes]]


@pytest.mark.parametrize("stage", ["summarizer", "encoder", "fusion"])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_resumed_build_equals_an_uninterrupted_one(world: World, tmp_path: Path, stage: str, calls: int) -> None:
    kb, images, whole = world
    model: Any = {"summarizer": FusedSummarizer, "encoder": FusedEncoder, "fusion": FusedFusion}[stage]()
    model.fuse = Fuse(calls)
    out = tmp_path / "resumed"
    kill(kb, images, out, **{stage: model})
    assert not (out / "manifest.json").exists()
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        Index.open(out)
    model.fuse = Fuse(100)
    build(kb, images, out, **{stage: model})
    # seven summaries, four batches of seven entities, three of which have tokens: nothing is computed twice
    assert 100 - model.fuse.calls == {"summarizer": 7, "encoder": 4, "fusion": 3}[stage] - (calls - 1)
    assert contents(out) == whole


@pytest.mark.slow
def test_a_build_that_was_really_killed(world: World, tmp_path: Path) -> None:
    kb, images, whole = world
    script = (
        "import sys, pathlib; from tests.fakes.builds import Fuse, FusedFusion, build\n"
        "kb, images, out = map(pathlib.Path, sys.argv[1:])\n"
        "fusion = FusedFusion(); fusion.fuse = Fuse(3, kill=True)\n"
        "build(kb, images, out, fusion=fusion)\n"
    )
    done = run_python("-c", script, kb, images, tmp_path / "killed")
    assert done.returncode == -signal.SIGKILL, done.stderr
    build(kb, images, tmp_path / "killed")
    assert contents(tmp_path / "killed") == whole


def test_killed_while_publishing(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, images, whole = world
    out, replace, fuse = tmp_path / "index", os.replace, Fuse(4)
    build(kb, images, out, candidates="title")

    def stop(source: Path, target: Path) -> None:
        if target.parent == out:
            fuse.burn()
        replace(source, target)

    monkeypatch.setattr("os.replace", stop)
    kill(kb, images, out, overwrite=True)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        Index.open(out)
    build(kb, images, out)
    assert contents(out) == whole


def test_an_unfinished_build_of_other_inputs_needs_overwrite(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    fusion = burning(FusedFusion(), 2)
    kill(kb, images, tmp_path / "index", fusion=fusion)
    with pytest.raises(ValueError, match=r"unfinished build of other inputs \(candidates"):
        build(kb, images, tmp_path / "index", candidates="title")
    build(kb, images, tmp_path / "index", candidates="title", overwrite=True)
    build(kb, images, tmp_path / "whole", candidates="title")
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


def test_images_that_changed_are_noticed_in_an_unfinished_build(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    fusion = burning(FusedFusion(), 2)
    kill(kb, images, tmp_path / "index", fusion=fusion)
    (images / "flag" / "Lost.png").write_bytes((images / "flag" / "Plain.png").read_bytes())
    with pytest.raises(ValueError, match=r"unfinished build of other inputs \(images: other content"):
        build(kb, images, tmp_path / "index")
    build(kb, images, tmp_path / "index", overwrite=True)
    build(kb, images, tmp_path / "whole")
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_killed_while_reading_articles(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    folder.mkdir()
    for name in ("a", "b", "c"):
        Image.new("RGB", (40, 40), "red").save(folder / f"{name}.png")
        (folder / f"{name}.md").write_text(f"# Red {name}\nRed.\n![]({name}.png)\n## Use\nNone.\n")
    script = (
        "import os, pathlib, signal, sys\n"
        "from indexes.builder import stages\n"
        "from tests.fakes.builds import build\n"
        "written, calls = stages.to_row, []\n"
        "def stop(entity):\n"
        "    calls.append(entity)\n"
        "    if len(calls) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return written(entity)\n"
        "stages.to_row = stop\n"
        "build(pathlib.Path(sys.argv[1]), None, pathlib.Path(sys.argv[2]))\n"
    )
    done = run_python("-c", script, folder, tmp_path / "killed")
    assert done.returncode == -signal.SIGKILL, done.stderr
    index = build(folder, None, tmp_path / "killed")
    assert index.manifest.counts.with_image == 3  # found in the knowledge base itself
    build(folder, None, tmp_path / "whole")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    before = contents(tmp_path / "whole")
    build(folder, None, tmp_path / "whole")
    assert contents(tmp_path / "whole") == before
    (folder / "c.md").write_text("# Changed\n")
    with pytest.raises(ValueError, match=r"other inputs \(knowledge base: other content"):
        build(folder, None, tmp_path / "whole")


def test_skipped_entries_survive_a_kill(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    articles = json.loads(kb.read_text())
    articles["broken"] = {"title": 3}
    kb.write_text(json.dumps(articles))
    fusion = burning(FusedFusion(), 2)
    kill(kb, images, tmp_path / "resumed", fusion=fusion, max_bad=0.2)
    build(kb, images, tmp_path / "resumed", max_bad=0.2)
    build(kb, images, tmp_path / "whole", max_bad=0.2)
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")
    skipped = json.loads((tmp_path / "resumed" / "report.json").read_text())["skipped"]
    assert (skipped["count"], skipped["of"], skipped["entries"][0]["place"]) == (1, 8, "entry 8 ('broken')")


COMBINED: dict[str, Any] = {"tokens": "int8", "candidates": "combined"}
Combined = tuple[dict[int, Path], dict[str, bytes]]


@pytest.fixture(scope="module")
def combined(world: World, tmp_path_factory: pytest.TempPathFactory) -> Combined:
    """Unfinished builds by the call of the encoder that failed, and the contents of an uninterrupted one."""
    (kb, images, _), folder = world, tmp_path_factory.mktemp("combined")
    killed = {calls: folder / str(calls) for calls in (3, 6)}
    for calls, out in killed.items():  # three batches have an image, then there are four of texts
        kill(kb, images, out, encoder=burning(FusedEncoder(), calls), **COMBINED)
    build(kb, images, folder / "whole", **COMBINED)
    return killed, contents(folder / "whole")


@pytest.mark.parametrize(
    "name",
    [
        "text_keys.npy",
        "image_keys.npy",
        "further_keys.npy",
        "tokens.npy",
        "token_scales.npy",
        "images.jsonl",
        "summaries.jsonl",
    ],
)
@pytest.mark.parametrize("calls", [3, 6])
def test_a_file_that_is_gone_from_an_unfinished_build_is_made_again(
    world: World, combined: Combined, tmp_path: Path, name: str, calls: int
) -> None:
    kb, images, _ = world
    killed, whole = combined
    shutil.copytree(killed[calls], tmp_path / "resumed")
    (tmp_path / "resumed" / ".parts" / name).unlink(missing_ok=calls == 3)
    build(kb, images, tmp_path / "resumed", **COMBINED)
    assert contents(tmp_path / "resumed") == whole
