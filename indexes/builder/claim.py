"""The folder of an index during a build: claims it, resumes work with equal inputs, and publishes the result."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from indexes.store.columns import all_files
from indexes.store.generations import LIVE, discard
from indexes.store.layout import THUMBNAILS
from indexes.store.lock import LOCK
from indexes.store.manifest import MANIFEST, Inputs, read_inputs, read_manifest
from retriever.files import write_whole
from retriever.identity import difference

logger = logging.getLogger(__name__)

PARTS = ".parts"
"""The subfolder of the index's folder in which an unfinished build keeps its files."""

UNKNOWN = ""
"""Placeholder for the hash of the images until the articles, which name them, have been read."""

_NOTE = "inputs.json"
_COLUMN = "model of column "
_WORDS = {
    "knowledge_base": "knowledge base",
    "pictures": "images",
    "labeled": "labeled images",
    "fusion": "fusion encoder",
    "summarizer_settings": "the summarizer's settings",
    "summarizer_server": "what the summarizer's server says of its model",
}
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Adds advice to errors raised in the block because the files of a build cannot be written.

    Raises:
        OSError: The disk is full or not writable; the message names the file and the fix.
    """
    try:
        yield
    except OSError as error:
        place = str(error.filename or out)
        if error.errno not in _UNWRITABLE or not Path(place).is_relative_to(out):
            raise
        what = f"{error.strerror}; free space, or make the folder writable, and build again: it resumes"
        raise OSError(error.errno, what, place) from error


def check_inputs(found: Inputs, given: Inputs, what: str, overwrite: bool) -> None:
    """Compares the inputs of an earlier build with those of this one, as far as both are known.

    Raises:
        ValueError: They differ; the message calls the earlier build `what`, lists the differences and, without
            `overwrite`, advises to use it.
    """
    before, now = _flat(found), _flat(given)
    values = [(field, before.get(field), now.get(field)) for field in {**before, **now}]
    different = [(field, old, new) for field, old, new in values if old != new and UNKNOWN not in (old, new)]
    if different:
        listed = "; ".join(
            difference(_WORDS.get(field, field), _given(old), _given(new)) for field, old, new in different
        )
        advice = "" if overwrite else "; choose another folder, or replace it with `omgm build-index --overwrite`"
        if advice and all(field.startswith(_COLUMN) for field, _, _ in different):
            advice += ", which makes only these columns again"
        raise ValueError(f"{what} of other inputs ({listed}){advice}")


def _flat(inputs: Inputs) -> dict[str, object]:
    """Returns the fields of inputs, with a field for the model of each column."""
    fields = inputs.model_dump()
    return fields | {f"{_COLUMN}{name}": model for name, model in fields.pop("columns").items()}


def _given(value: object) -> object:
    return None if value == "none" else value


def claim(out: Path, inputs: Inputs, overwrite: bool, keep: Sequence[str] = ()) -> Path:
    """Claims `out/.parts` for this build and returns it, keeping files from an unfinished build with equal inputs.

    Args:
        out: The index's folder, whose lock the caller holds.
        inputs: The inputs of this build.
        overwrite: Whether an unfinished build of other inputs may be replaced.
        keep: Files there that are kept in any case.

    Raises:
        ValueError: The folder contains something else, or an unfinished build of other inputs and `overwrite` is off.
    """
    parts = out / PARTS
    note = parts / _NOTE
    if not (out / MANIFEST).exists() and not parts.exists() and {one.name for one in out.iterdir()} - {LOCK, LIVE}:
        raise ValueError(f"{out} is neither empty nor an index; choose another folder")
    if note.exists():
        found = read_inputs(note)
        try:
            check_inputs(found, inputs, f"{out} is an unfinished build", overwrite)
        except ValueError as error:
            if not overwrite:
                raise
            logger.warning("starting over: %s", error)
            _clear(parts, keep)
        else:
            if inputs.pictures == UNKNOWN:
                return parts
    elif parts.exists():
        _clear(parts, keep)
    parts.mkdir(parents=True, exist_ok=True)
    write_whole(note, inputs.model_dump_json().encode())
    return parts


def _clear(parts: Path, keep: Sequence[str]) -> None:
    (parts / _NOTE).unlink(missing_ok=True)  # first, so that a build that is killed here starts over
    for path in parts.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in keep:
            path.unlink()


def publish(out: Path) -> None:
    """Moves a finished build from `out/.parts` to `out`, the manifest last; can be repeated after a kill."""
    parts = out / PARTS
    (out / MANIFEST).unlink(missing_ok=True)
    discard(out)
    for name in all_files():
        if (parts / name).exists():
            os.replace(parts / name, out / name)
    if (parts / THUMBNAILS).exists():
        shutil.rmtree(out / THUMBNAILS, ignore_errors=True)
        os.replace(parts / THUMBNAILS, out / THUMBNAILS)
    for name in set(all_files()) - set(read_manifest(parts).files):
        (out / name).unlink(missing_ok=True)  # left over from another index
    os.replace(parts / MANIFEST, out / MANIFEST)
    shutil.rmtree(parts)
