"""An index on the Hugging Face hub: a dataset repository with thumbnails in archives, since there may be millions."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from indexes.store.columns import all_files, column_files
from indexes.store.generations import index_of
from indexes.store.index import Index
from indexes.store.layout import THUMBNAILS
from indexes.store.manifest import (
    MANIFEST,
    RECOGNITION,
    Manifest,
    check_files,
    read_manifest,
)
from indexes.store.thumbnails import check_thumbnails
from retriever.card import CARD_NAME, NOT_RECORDED, card_bytes, code, escaped, make_card, table, write_card
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
        name, revision, token, allow=[MANIFEST, RECOGNITION, *all_files(), f"{PACKS}/*.tar"], dataset=True
    )
    if not (folder / PACKS).is_dir() or (folder / THUMBNAILS).is_dir():
        return folder
    manifest = read_manifest(folder)
    with TemporaryDirectory(dir=folder, prefix=".unpacking-") as temporary:
        partial = Path(temporary)
        try:
            check_files(folder, manifest, column_files(manifest), verify=True)
            unpack(folder / PACKS, partial / THUMBNAILS)
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


def open_published(name: str | Path, *, revision: str | None = None, token: str | None = None, **options: Any) -> Index:
    """Opens the index in a folder or in a dataset repository on the hub, fetching missing files.

    All checksums are verified after a download.

    Args:
        name: A folder, `org/name` or `org/name@revision`.
        revision: A commit, a branch or a tag.
        token: A hub token; by default the one saved by `hf auth login`.
        **options: Passed to `Index.open`.

    Raises:
        ValueError: The files are not available or damaged, or as in `Index.open`; the message says what to do.
    """
    return Index.open(fetch_index(name, revision, token), **options)


def push_index(
    index: Index,
    repo: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    message: str | None = None,
    license: str | None = None,
) -> str:
    """Publishes an index as a dataset repository in one commit; returns `org/name@commit`.

    Files are streamed, and repeating a killed upload resumes it.

    Args:
        index: The index.
        repo: `org/name`, created if it does not exist.
        private: Whether to create it as private; by default the organization's setting.
        token: A hub token with write access; by default the one saved by `hf auth login`.
        message: The commit message.
        license: For the card, a license identifier of the hub such as `cc-by-sa-4.0`.

    Raises:
        ValueError: The hub refuses the upload, or the index has changes that are not in its files yet; the message
            says what to do.
    """
    files = index.settled()
    folder, manifest = files.folder, files.manifest
    card = card_bytes(folder, index_card(folder, manifest, repo, license))

    def named() -> Iterator[tuple[str, Path | bytes]]:
        yield CARD_NAME, card
        yield from _files(folder, manifest).items()
        yield from packs(folder / THUMBNAILS, manifest.counts.entities)
        yield MANIFEST, folder / MANIFEST

    return push_files(
        repo, named(), ours=_is_ours, message=message or "Upload index", dataset=True, private=private, token=token
    )


def save_index(index: Index, folder: str | Path, *, license: str | None = None) -> None:
    """Copies an index to a folder, with a card; a handwritten card is kept. The manifest comes last.

    Args:
        index: The index.
        folder: A new folder, another index to replace, or the index's own folder, which then only gets the card.
        license: As in `push_index`.

    Raises:
        ValueError: The folder contains something else, or the index has changes that are not in its files yet.
    """
    files = index.settled()
    source, target, manifest = files.folder, Path(folder), files.manifest
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
    return name in (*all_files(), MANIFEST, RECOGNITION) or _PACK.fullmatch(name) is not None


def packs(thumbnails: Path, entities: int) -> Iterator[tuple[str, bytes]]:
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


def unpack(packs: Path, target: Path) -> None:
    """Unpacks such archives; raises `ValueError` if one is damaged."""
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


_WHAT = (
    "An index of OMGM, a knowledge base prepared for questions about images: articles, a vector per entity, fused "
    "tokens per section and thumbnails. It was built with the models whose fingerprints are below, and opens only with "
    "these."
)
_USE = """
from indexes.store.published import open_published

index = open_published({name})
print(len(index), index.entity(0).title, index.summary(0))
"""


def index_card(folder: Path, manifest: Manifest, repo: str | None = None, license: str | None = None) -> str:
    """Returns the card of an index.

    Args:
        folder: The folder of the index.
        manifest: Its manifest.
        repo: Where it is published, for the title and the example.
        license: A license identifier of the hub, such as `cc-by-sa-4.0`; by default "unknown".
    """
    counts, inputs, title = manifest.counts, manifest.inputs, repo or folder.resolve().name
    front = {
        "license": license or "unknown",
        "library_name": "omgm",
        "tags": ["omgm", "knowledge-based-vqa", "multimodal-retrieval", "index"],
        "task_categories": ["visual-question-answering"],
        "viewer": False,
    }
    content = {
        "knowledge base": manifest.name,
        "entities": counts.entities,
        "sections": counts.sections,
        "entities with an image": counts.with_image,
        "entities that step 1 can find": counts.searchable,
        "sections with tokens": counts.token_sections,
        **{f"rows of column {name}": rows for name, rows in counts.columns.items()},
    }
    settings = {
        "searched in step 1": inputs.candidates,
        "entity index": "flat" if manifest.search is None else str(manifest.search),
        "summaries": inputs.summarizer,
        "encoder, fingerprint": inputs.encoder,
        "fusion encoder, fingerprint": inputs.fusion or "none",
        **{f"model of column {name}, fingerprint": model for name, model in inputs.columns.items()},
        "vector length": manifest.dimension,
        "tokens per section": " x ".join(map(str, manifest.token_shape)),
        "tokens stored as": inputs.tokens,
        "format of the knowledge base": inputs.kb_format,
        "hash of the knowledge base": inputs.knowledge_base,
        "sections left out": ", ".join(inputs.drop_sections) or "none",
        "format of the index": manifest.format_version,
    }
    rows = [f"| {escaped(name)} | {file.bytes:,} | `{file.sha256}` |" for name, file in manifest.files.items()]
    total = sum(file.bytes for file in manifest.files.values())
    files = "\n".join(["| file | bytes | SHA-256 |", "| --- | --- | --- |", *rows, f"| all of them | {total:,} | |"])
    name = json.dumps(repo or f"./{title}", ensure_ascii=False)
    opened = "`OMGM.open(index.folder, profile=...)` answers questions from it, with the profile it was built with."
    sections = [
        ("", _WHAT),
        ("Use", f"{code(_USE.format(name=name))}\n\n{opened}"),
        ("Data", table(content, ("content", "value"))),
        ("Settings", table(settings, ("setting", "value"))),
        ("Metrics", NOT_RECORDED),
        ("Files", f"{files}\n\nThumbnails, all together: `{manifest.thumbnails}`."),
        ("Commit", f"Built with {escaped(manifest.created_with)}."),
    ]
    return make_card(front, title, sections)
