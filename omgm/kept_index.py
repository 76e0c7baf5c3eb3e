"""Keeps the index of a knowledge base in a folder beside it: builds it if missing, or if the knowledge base changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from indexes.builder.report import counts_of, problem_lines, read_report
from indexes.knowledge.knowledge_base import guess_format, hash_rows, name_of
from indexes.knowledge.readers.registry import reader_named
from indexes.knowledge.readers.zim import zim_parts
from indexes.knowledge.sources import images_beside
from indexes.store.index import Index
from indexes.store.manifest import IMAGE_PROBLEMS, MANIFEST, REPORT
from omgm import indexing
from omgm.settings import Profile
from retriever.files import write_whole
from retriever.wording import counted

NOTE = "built_from.json"
"""The file in an index's folder that records its inputs: compared instead of hashes, which take long to compute."""
_EXAMPLES, _LOOKED_AT = 5, 100
"""Number of titles to show, and number of entities among which to look for different ones."""
_SETTINGS: Any = {
    "encoder": {"model", "key_sizes", "long_texts"},
    "fusion": {"model", "tokens", "section_images"},
    "search": {"candidates", "image_keys", "kind", "words"},
    "index": {"drop_sections", "keep_navigation"},
    "summarizer": {"kind", "model", "max_words"},
}
"""Settings that determine the contents of an index; none of them is secret."""


def index_beside(kb: Path) -> Path:
    """Returns the folder for the index of a knowledge base: `fox-index` for `fox.zim`."""
    kb = kb.resolve()
    return kb.with_name(f"{name_of(kb)}-index")


def keep_index(profile: Profile, order: indexing.Build, *, say: Callable[[str], object] = print) -> None:
    """Builds the index of a knowledge base unless it is up to date, and reports its contents.

    An index built by this function is rebuilt if the knowledge base has changed; any other is only replaced with
    `overwrite`.

    Args:
        profile: The models.
        order: The knowledge base and the index.
        say: Prints lines about progress and results.

    Raises:
        ValueError: The input is invalid, or the folder contains something else.
    """
    format = order.kb_format or guess_format(order.kb)
    images = order.images or images_beside(order.kb, format)
    note = {
        "kb": str(order.kb.resolve()),
        "format": format,
        "images": None if images is None else str(images.resolve()),
        "names": dict(order.names or {}),
        "settings": profile.model_dump(mode="json", include=_SETTINGS, exclude=None if order.tokens else {"fusion"}),
        "files": _state(order.kb, format),
    }
    path = order.out / NOTE
    known = json.loads(path.read_bytes()) if path.is_file() else None
    if known == json.loads(json.dumps(note)) and (order.out / MANIFEST).is_file():
        return
    say(f"Building the index of {order.kb} in {order.out}")
    overwrite = order.overwrite or known is not None
    built = indexing.build(profile, replace(order, images=images, kb_format=format, overwrite=overwrite))
    write_whole(path, json.dumps(note).encode())
    for line in _found_lines(built):
        say(line)


def _found_lines(index: Index) -> Iterator[str]:
    """Yields lines that describe an index: its counts, examples and problems."""
    counts = index.manifest.counts
    entities, sections = counted(counts.entities, "entity"), counted(counts.sections, "section")
    yield f"{entities}, {sections}, {counts.with_image:,} with an image"
    rows = islice((row for row in range(len(index)) if index.image_path(row) is not None), _LOOKED_AT)
    titles = list(dict.fromkeys(index.entity(row).title for row in rows))[:_EXAMPLES]
    if titles:
        yield f"with an image: {', '.join(titles)}{', …' if counts.with_image > len(titles) else ''}"
    else:
        yield "no entity has an image, so photographs are compared only with texts; set --images or --map image=NAME"
    report = read_report(index.folder)
    yield from problem_lines(report)
    if any(counts_of(report).values()):
        yield f"each with its reason: {index.folder / REPORT} and {IMAGE_PROBLEMS}"


def _state(kb: Path, format: str) -> list[int]:
    """Returns a knowledge base's number of files, total size in bytes, and latest modification time in ns."""
    files = [kb]
    if kb.is_dir():
        files = list(kb.rglob("*"))
    elif format == "zim":
        files = zim_parts(kb)
    states = [file.stat() for file in files if not file.is_symlink() or file.exists()]
    # only the rows show a database's changes
    rows = [int(hash_rows(kb, reader_named("sql"))[:15], 16)] if format == "sql" and kb.suffix == ".toml" else []
    return [len(states), sum(one.st_size for one in states), max((one.st_mtime_ns for one in states), default=0), *rows]
