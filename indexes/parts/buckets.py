"""Copies of indexes and of parts in object stores, by addresses such as `s3://bucket/parts/1-of-2` (fsspec)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexes.extras import optional
from indexes.parts.layout import NOTE, POSITIONS, WHOLE
from indexes.store.generations import settled_files
from indexes.store.layout import THUMBNAILS
from indexes.store.lock import locked
from indexes.store.manifest import MANIFEST, RECOGNITION, File, describe_file, read_manifest
from indexes.store.published import PACKS, packs, unpack
from indexes.store.thumbnails import check_thumbnails
from indexes.store.word_search import WHOLE_WORDS

LIST = "files.json"
"""Size and checksum of each file of a copy; written last."""
_NAME = re.compile(r"(thumbnails/)?\w[\w.-]*")


def bucket_of(index: Path) -> str | None:
    """Returns the address that a path is, in which two slashes became one; `None` if it is a folder, or of HTTP.

    >>> bucket_of(Path("s3://bucket/parts/1-of-2")), bucket_of(Path("index")), bucket_of(Path("http://a:1"))
    ('s3://bucket/parts/1-of-2', None, None)
    """
    match = re.fullmatch(r"(?!https?:)(\w{2,}):/+(.+)", index.as_posix())
    return f"{match[1]}://{'/' if match[1] == 'file' else ''}{match[2]}" if match else None


def copy_to(folder: Path, url: str) -> None:
    """Copies an index, or a part, to an object store; a copy that was killed is none, and can be made again.

    Raises:
        ValueError: It has changes that are not in its files, there is another copy, or a package is missing.
        OSError: The store cannot be written.
    """
    system, root = _opened(url)
    files = settled_files(folder)
    named, shown = _named(folder, files), (files / THUMBNAILS, read_manifest(files).counts.entities)
    listed = {name: describe_file(path).model_dump() for name, path in named.items()}
    for name, content in packs(*shown):
        listed[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    listing = json.dumps(listed, indent=1).encode()
    if system.exists(f"{root}/{LIST}"):
        if system.cat_file(f"{root}/{LIST}") != listing:
            raise ValueError(f"{url}: holds something else; remove it, or name another place")
        return
    system.makedirs(f"{root}/{PACKS}", exist_ok=True)
    for name, path in named.items():
        system.put_file(str(path), f"{root}/{name}")
    for name, content in packs(*shown):
        system.pipe_file(f"{root}/{name}", content)
    system.pipe_file(f"{root}/{LIST}", listing)


def _named(folder: Path, files: Path) -> dict[str, Path]:
    own = [files / name for name in (*read_manifest(files).files, POSITIONS, WHOLE_WORDS, MANIFEST)]
    own += [folder / name for name in (RECOGNITION, WHOLE, NOTE)]
    return {path.name: path for path in own if path.is_file()}


def fetch_copy(url: str, cache: Path) -> Path:
    """Returns the folder of an index, or of a part, of which there is a copy in an object store.

    It is fetched into a folder of `cache` that is named by the copy's content, unless that is there: file by file, so
    that a run that was killed is continued, and renamed when all checksums are right.

    Raises:
        ValueError: There is no complete copy, a file is damaged, or a package is missing.
        LockedError: Another process fetches it now.
        OSError: The store cannot be read, or the folder cannot be written.
    """
    system, root = _opened(url)
    try:
        content: bytes = system.cat_file(f"{root}/{LIST}")
    except FileNotFoundError as error:
        raise ValueError(f"{url}: no {LIST}: no copy of an index, or not complete; see `omgm index copy`") from error
    target = cache / hashlib.sha256(content).hexdigest()[:16]
    partial = target.with_suffix(".partial")
    with locked(target.with_suffix(".fetching"), "fetches it"):
        if target.is_dir():
            return target
        partial.joinpath(PACKS).mkdir(parents=True, exist_ok=True)
        for name, file in _listed(content, url):
            path = partial / name
            if not (path.is_file() and describe_file(path) == file):
                system.get_file(f"{root}/{name}", str(path))
                if describe_file(path) != file:
                    raise ValueError(f"{url}/{name}: differs from its checksum in {LIST}; copy the index again")
        shutil.rmtree(partial / THUMBNAILS, ignore_errors=True)
        unpack(partial / PACKS, partial / THUMBNAILS)
        check_thumbnails(partial, read_manifest(partial))
        shutil.rmtree(partial / PACKS)
        os.replace(partial, target)
    return target


def _listed(content: bytes, url: str) -> Iterator[tuple[str, File]]:
    for name, file in json.loads(content).items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{url}/{LIST}: {name!r} is not the name of a file of an index")
        yield name, File(**file)


def _opened(url: str) -> tuple[Any, str]:
    try:
        system, root = optional("fsspec", "s3", url).core.url_to_fs(url)
    except ImportError as error:  # says which package; those for other stores than S3 are in no extra
        raise ValueError(f"{url}: {error}; for s3: pip install 'omgm[s3]'") from error
    return system, root.rstrip("/")
