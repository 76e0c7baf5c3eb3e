"""An index on the Hugging Face hub: a dataset repository with thumbnails in archives, since there may be millions."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from indexes.store.generations import index_of
from indexes.store.index_card import index_card
from indexes.store.manifest import ALL_FILES, MANIFEST, RECOGNITION, THUMBNAILS, Manifest, check_files, read_manifest
from indexes.store.thumbnails import check_thumbnails
from retriever.card import CARD_NAME, card_bytes, write_card
from retriever.files import replacing
from retriever.hub import local_or_fetched, push_files

PACKS = "thumbnails"
"""The folder of the archives: the hub allows 10,000 files per folder and advises against more than 100,000 in all."""
PER_PACK = 4096
"""Rows per archive; an archive is held in memory while it is uploaded."""

_PACK = re.compile(rf"{PACKS}/\d{{5}}\.tar")
_MEMBER = re.compile(r"\d+\.jpg")


def fetch_index(name: str | Path, revision: str | None, token: str | None) -> Path:
    """Returns the folder of an index; one on the hub is fetched, fully verified and unpacked unless it is cached.

    Raises:
        ValueError: The files are not available, or differ from their checksums.
    """
    folder = local_or_fetched(
        name, revision, token, allow=[MANIFEST, RECOGNITION, *ALL_FILES, f"{PACKS}/*.tar"], dataset=True
    )
    if not (folder / PACKS).is_dir() or (folder / THUMBNAILS).is_dir():
        return folder
    manifest = read_manifest(folder)
    with TemporaryDirectory(dir=folder, prefix=".unpacking-") as temporary:
        partial = Path(temporary)
        try:
            check_files(folder, manifest, verify=True)
            _unpack(folder / PACKS, partial / THUMBNAILS)
            check_thumbnails(partial, manifest)
        except ValueError as error:
            cached = folder.parent.parent  # holds the files; a revision's folder only links to them
            raise ValueError(f"{name}: damaged; remove {cached} to download it again: {error}") from error
        try:
            (partial / THUMBNAILS).rename(folder / THUMBNAILS)
        except OSError:
            if not (folder / THUMBNAILS).is_dir():  # otherwise, another process was faster
                raise
    return folder


def push_index(
    folder: Path,
    repo: str,
    manifest: Manifest,
    private: bool | None,
    token: str | None,
    message: str | None,
    license: str | None,
) -> str:
    """Publishes the index in `folder`; see `Index.push_to_hub`."""
    card = card_bytes(folder, index_card(folder, manifest, repo, license))

    def named() -> Iterator[tuple[str, Path | bytes]]:
        yield CARD_NAME, card
        yield from _files(folder, manifest).items()
        yield from _packs(folder / THUMBNAILS, manifest.counts.entities)
        yield MANIFEST, folder / MANIFEST

    return push_files(
        repo, named(), ours=_is_ours, message=message or "Upload index", dataset=True, private=private, token=token
    )


def save_index(source: Path, target: Path, manifest: Manifest, license: str | None) -> None:
    """Copies an index with its card; the manifest comes last.

    Raises:
        ValueError: `target` contains something other than an index.
    """
    if target.resolve() != source.resolve():
        if target.exists() and any(target.iterdir()) and not (target / MANIFEST).is_file():
            raise ValueError(f"{target}: contains something other than an index; choose a new folder")
        target.mkdir(parents=True, exist_ok=True)
        for name in (MANIFEST, RECOGNITION):
            (target / name).unlink(missing_ok=True)
        shutil.rmtree(target / THUMBNAILS, ignore_errors=True)
        for name, path in _files(source, manifest).items():
            _copy(path, target / name)
        if (source / THUMBNAILS).is_dir():
            shutil.copytree(source / THUMBNAILS, target / THUMBNAILS)
        _copy(source / MANIFEST, target / MANIFEST)
    write_card(target, index_card(target, manifest, license=license))


def _files(folder: Path, manifest: Manifest) -> dict[str, Path]:
    """Returns the paths of an index's files by their names; the index's own recognition survives compactions."""
    found = {name: folder / name for name in manifest.files}
    recognition = index_of(folder) / RECOGNITION
    return found | ({RECOGNITION: recognition} if recognition.is_file() else {})


def _copy(source: Path, target: Path) -> None:
    with replacing(target) as partial:
        shutil.copyfile(source, partial)


def _is_ours(name: str) -> bool:
    return name in (*ALL_FILES, MANIFEST, RECOGNITION) or _PACK.fullmatch(name) is not None


def _packs(thumbnails: Path, entities: int) -> Iterator[tuple[str, bytes]]:
    """Yields archives of thumbnails, equal for equal thumbnails, so that the hub recognizes those it already has."""
    for number, first in enumerate(range(0, max(entities, 1), PER_PACK)):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as pack:
            for row in range(first, min(first + PER_PACK, entities)):
                path = thumbnails / f"{row}.jpg"
                if path.is_file():
                    content = path.read_bytes()
                    member = tarfile.TarInfo(path.name)  # no times, no owner
                    member.size = len(content)
                    pack.addfile(member, io.BytesIO(content))
        yield f"{PACKS}/{number:05}.tar", buffer.getvalue()


def _unpack(packs: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in sorted(packs.glob("*.tar")):
        try:
            with tarfile.open(path, mode="r:") as pack:
                for member in pack:
                    content = pack.extractfile(member)
                    if content is None or not _MEMBER.fullmatch(member.name):
                        raise ValueError(f"{path}: {member.name!r} is not a thumbnail")
                    (target / member.name).write_bytes(content.read())
        except tarfile.TarError as error:
            raise ValueError(f"{path}: not an archive of thumbnails: {error}") from error
