"""The index that trainings read: a given one, or that of a knowledge base, built in the user's cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from indexes.store.index import Index
from omgm.__main__ import main
from omgm.originals import original_images
from omgm.profile import load_profile
from omgm.training_index import cached_index
from tests.fakes.inputs import encoder, kb, reranker, write_inputs
from tests.kept import own_cache


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own_cache(tmp_path / "cache", monkeypatch)
    (tmp_path / "world").mkdir()
    return write_inputs(tmp_path / "world")


def from_index(command: list[str], world: Path, *images: str) -> list[str]:
    """Returns a command that names the index in the place of the knowledge base."""
    start = command.index("--kb")
    return [*command[:start], "--index", str(world / "index"), *images, *command[start + len(kb(world)) :]]


@pytest.mark.slow
def test_a_knowledge_base_trains_like_its_index(world: Path, tmp_path: Path) -> None:
    """Also when the index has labeled images, other settings and tokens; its thumbnails train another model."""
    for train, weights in ((encoder, "encoder"), (reranker, "fusion")):
        command = train(world, tmp_path / weights / "kb")
        assert main(command) == 0
        assert main(from_index(train(world, tmp_path / weights / "index"), world)) == 0
        moved = shutil.copytree(world / "images", tmp_path / weights / "moved")
        (world / "images").rename(world / "away")
        images = ["--images", str(moved)]
        assert main(from_index(train(world, tmp_path / weights / "moved-images"), world, *images)) == 0
        (world / "away").rename(world / "images")
        ours, *others = (
            load_file(tmp_path / weights / out / weights / "model.safetensors")
            for out in ("kb", "index", "moved-images")
        )
        for other in others:
            assert all((ours[name] == other[name]).all() for name in ours)


def test_thumbnails_are_trained_on_if_the_images_are_gone(
    world: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(world / "images")
    assert main(from_index(encoder(world, tmp_path / "out"), world)) == 0
    assert f"{world / 'index'}: the images that it was built from are not where they were" in caplog.text
    (world / "index" / "sources.json").unlink()
    assert original_images(world / "index") is None


def test_the_index_in_the_cache_is_built_once_and_without_tokens(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = load_profile(str(world / "profile.toml"))

    def cached(tokens: bool = False) -> Index:
        return Index.open(cached_index(profile, world / "kb.json", world / "images", tokens=tokens))

    first = cached()
    assert first.folder.parent == tmp_path / "cache" / "omgm" / "indexes"
    assert (first.manifest.counts.token_sections, first.manifest.inputs.fusion) == (0, None)
    assert f"Building the index of {world / 'kb.json'} in {first.folder}" in capsys.readouterr().err
    assert cached().fingerprint == first.fingerprint and capsys.readouterr().err == ""
    assert cached(tokens=True).manifest.counts.token_sections == 32
    (world / "kb.json").write_text((world / "kb.json").read_text().replace("land 0", "land zero"))
    assert cached().entity(0).title == "land zero"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "name an index with --index, or a knowledge base with --kb"),
        (["--index", "world/index", "--kb", "world/kb.json"], "name an index with --index, or a knowledge base"),
        (["--index", "world/index", "--map", "title=name"], "--kb-format, --map, --only and --skip are for --kb"),
        (["--index", "nowhere"], "--index: nowhere does not exist"),
    ],
)
def test_what_to_train_on_is_named_once(
    world: Path, given: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.parent)
    assert main(["train-encoder", *given, "--out", "out"]) == 2
    assert message in capsys.readouterr().err
