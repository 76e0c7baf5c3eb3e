from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indexes.builder.self_retrieval import SelfRetrieval
from indexes.knowledge.inspection import inspect_knowledge_base
from indexes.knowledge.knowledge_base import name_of
from indexes.store.index import Index
from omgm import OMGM, indexing
from omgm.__main__ import parser
from omgm.commands.serve import kept_index
from omgm.indexing import Build
from omgm.kept_index import index_beside, keep_index
from omgm.profile import load_profile
from omgm.settings import Profile
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer


@pytest.fixture(autouse=True)
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    built: list[Path] = []
    build = indexing.build

    def counted(profile: Profile, order: Build) -> Index:
        built.append(order.out)
        models: dict[str, Any] = {"encoder": FakeEncoder(), "fusion": FakeFusion(), "summarizer": FakeSummarizer()}
        return build(profile, replace(order, **models))

    monkeypatch.setattr(indexing, "build", counted)
    return built


def write_notes(folder: Path) -> Path:
    folder.mkdir()
    for name, color in (("fox", "red"), ("hen", "brown")):
        Image.new("RGB", (80, 60), color).save(folder / f"{name}.png")
        (folder / f"{name}.md").write_text(f"# The {name}\nRed.\n![]({name}.png)\n")
    (folder / "cat.md").write_text("---\nname: Cat\n---\n# The cat\n![](lost.png)\nBlack.\n")
    return folder


def test_the_index_of_a_folder_is_built_beside_it_once(tmp_path: Path, builds: list[Path]) -> None:
    kb = write_notes(tmp_path / "my.notes")
    profile, said = load_profile("embedded"), list[str]()
    index = index_beside(kb)
    assert index == tmp_path / "my.notes-index"
    keep_index(profile, Build(kb=kb, out=index), say=said.append)
    assert said == [
        f"Building the index of {kb} in {index}",
        "3 entities, 3 sections, 2 with an image",
        "with an image: The fox, The hen",
        "1 image missing, the first of cat: 1 x no file of this name",
        "2 main images of only one color, such as fox.png of fox: nothing to recognize",
        f"each with its reason: {index / 'report.json'} and image_problems.jsonl",
    ]
    keep_index(profile, Build(kb=kb, out=index), say=said.append)
    assert len(said) == 6 and builds == [index]  # neither built nor hashed


def entities_of(index: Path) -> list[tuple[str, str | None]]:
    built = Index.open(index)
    return [(built.entity(row).id, built.entity(row).image) for row in range(len(built))]


@pytest.mark.slow
@pytest.mark.parametrize("written", [".", "./", "../my.notes", "./.", "../my.notes/inner/.."])
def test_a_folder_is_itself_by_any_path(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = write_notes(tmp_path / "my.notes")
    (kb / "inner").mkdir()
    keep_index(load_profile("embedded"), Build(kb=kb, out=tmp_path / "one"), say=str)
    monkeypatch.chdir(kb)
    assert index_beside(Path(written)) == tmp_path / "my.notes-index"
    for number, images in enumerate((None, Path(written))):
        out = tmp_path / f"{number}"
        indexing.build(load_profile("embedded"), Build(kb=Path(written), images=images, out=out))
        assert Index.open(out).manifest.name == "my.notes" and entities_of(out) == entities_of(tmp_path / "one")
    assert inspect_knowledge_base(Path(written)).entities == inspect_knowledge_base(kb).entities == 3


def test_a_link_keeps_its_name(tmp_path: Path) -> None:
    """As in caches of hubs, whose files are links to hashes."""
    (tmp_path / "4f9a1c77").write_text("{}")
    (tmp_path / "birds.jsonl").symlink_to(tmp_path / "4f9a1c77")
    assert name_of(tmp_path / "birds.jsonl") == "birds"


def test_the_warning_of_a_build_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = SelfRetrieval(20, 0.5, 0.9, "the encoder confuses the images")
    monkeypatch.setattr("indexes.builder.build.measure_self_retrieval", lambda *arguments: found)
    kb, said = write_notes(tmp_path / "notes"), list[str]()
    keep_index(load_profile("embedded"), Build(kb=kb, out=tmp_path / "index"), say=said.append)
    assert [line for line in [*said, *caplog.messages] if "confuses" in line] == [f"warning: {found.warning}"]
    OMGM.build(kb, tmp_path / "other", encoder=FakeEncoder(), fusion=FakeFusion()).close()  # which prints nothing
    assert found.warning in caplog.messages


def test_examples_are_different(tmp_path: Path) -> None:
    kb = write_notes(tmp_path / "notes")
    (kb / "hen.md").write_text("# The fox\nIn another language.\n![](hen.png)\n")
    said = list[str]()
    keep_index(load_profile("embedded"), Build(kb=kb, out=tmp_path / "index"), say=said.append)
    assert "with an image: The fox, …" in said


def test_a_knowledge_base_without_images(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "fox.md").write_text("# The fox\nRed.\n")
    said = list[str]()
    keep_index(load_profile("embedded"), Build(kb=tmp_path / "notes", out=tmp_path / "index"), say=said.append)
    assert said[1:] == [
        "1 entity, 1 section, 0 with an image",
        "no entity has an image, so photographs are compared only with texts; set --images or --map image=NAME",
    ]


def test_a_knowledge_base_that_changed_is_built_again(tmp_path: Path, builds: list[Path]) -> None:
    kb, profile = write_notes(tmp_path / "notes"), load_profile("embedded")
    index = index_beside(kb)
    keep_index(profile, Build(kb=kb, out=index), say=str)
    (kb / "dog.md").write_text("# The dog\nBrown.\n")
    keep_index(profile, Build(kb=kb, out=index), say=str)
    assert len(builds) == 2 and Index.open(index).row_of("dog") is not None
    keep_index(profile, Build(kb=kb, out=index, names={"title": "name"}), say=str)  # read in another way
    assert len(builds) == 3
    other = load_profile("embedded", {"fusion.tokens": "float16"})
    keep_index(other, Build(kb=kb, out=index), say=str)
    assert len(builds) == 4 and Index.open(index).manifest.inputs.tokens == "float16"
    other = load_profile("embedded", {"fusion.tokens": "float16", "search.kind": "sq8"})
    with pytest.raises(ValueError, match="'sq8' needs at least 1000 searchable entities"):
        keep_index(other, Build(kb=kb, out=index), say=str)


def test_images_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "pics").mkdir()
    Image.new("RGB", (80, 60), "red").save(tmp_path / "pics" / "fox.png")
    kb = tmp_path / "kb.jsonl"
    kb.write_text(json.dumps({"id": 1, "name": "Fox", "text": "Red.", "logo": "pics/fox.png"}) + "\n")
    index = index_beside(kb)
    assert index == tmp_path / "kb-index"
    keep_index(load_profile("embedded"), Build(kb=kb, out=index), say=str)
    assert Index.open(index).image_path(0) is not None


def test_an_index_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    first, second = write_notes(tmp_path / "a"), write_notes(tmp_path / "b")
    (second / "dog.md").write_text("# The dog\nBrown.\n")
    indexing.build(load_profile("embedded"), Build(kb=first, out=tmp_path / "index"))
    with pytest.raises(ValueError, match="choose another folder"):
        keep_index(load_profile("embedded"), Build(kb=second, out=tmp_path / "index"), say=str)


def test_serve_takes_an_index_or_a_knowledge_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = load_profile("embedded")
    assert kept_index(parser().parse_args(["serve", "--index", "a"]), profile) == Path("a")
    with pytest.raises(ValueError, match="name an index with --index, or a knowledge base with --kb"):
        kept_index(parser().parse_args(["serve"]), profile)
    with pytest.raises(ValueError, match="--kb: absent does not exist"):
        kept_index(parser().parse_args(["serve", "--kb", "absent"]), profile)
    kb = write_notes(tmp_path / "notes")
    given = ["serve", "--kb", str(kb), "--index", str(tmp_path / "here"), "--map", "title=name"]
    assert kept_index(parser().parse_args(given), profile) == tmp_path / "here"
    assert "3 entities" in capsys.readouterr().out
