"""From a knowledge base to an index on disk, in stages that survive a kill."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from indexes.formats import FORMATS, guess_format, hash_knowledge_base, name_of, read_knowledge_base
from indexes.lines import Articles, Lines, offsets_path, save_offsets
from indexes.manifest import (
    FILES,
    MANIFEST,
    THUMBNAILS,
    Candidates,
    Counts,
    Inputs,
    Manifest,
    describe_files,
    hash_thumbnails,
    read_manifest,
)
from indexes.search import save_search
from indexes.sources import ImageSource, find_main, open_images
from indexes.stages import (
    MainImages,
    candidate_text,
    embed_images,
    embed_texts,
    log_problems,
    read_pictures,
    store_tokens,
    write_articles,
)
from indexes.store import Index
from indexes.summarize import Summarizer, summarize_all
from indexes.tokens import TokenType
from retriever.files import as_line, write_whole
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.types import Entity, IntArray

logger = logging.getLogger(__name__)

_PARTS = ".parts"


def build_index(
    kb: Path,
    images: Path | None,
    out: Path,
    *,
    summarizer: Summarizer,
    encoder: DualEncoder,
    fusion: FusionEncoder | None,
    kb_format: str | None = None,
    batch_size: int = 32,
    candidates: Candidates = "summary",
    tokens: TokenType = "float16",
    name: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Index:
    """Returns the index of a knowledge base, built in `out` unless it is there already.

    Work in progress lies in `out/.parts`; a build started again continues there and ends byte for byte as one that
    was never stopped (with the same `batch_size`). `out` changes only at the end, the manifest last.

    Args:
        kb: The knowledge base.
        images: The folder or ZIM file with its pictures; by default what the knowledge base itself holds. A missing or
            unreadable one is listed in `report.json`, never fatal.
        out: The index's folder: absent, empty, or an index.
        summarizer: Writes the summaries.
        encoder: Step 1's model.
        fusion: Step 2's model; `None` leaves the token store empty (step 1 alone can be measured).
        kb_format: See `read_knowledge_base`.
        batch_size: Entities a batch, and a batch is what a kill can lose.
        candidates: What step 1 searches. With `image`, an entity without a readable main image is never found.
        tokens: How step 2's tokens are stored.
        name: What the index calls itself; by default the knowledge base's file name without extension.
        overwrite: Whether another index, or the unfinished build of one, may be replaced.
        progress: Whether to show bars.

    Raises:
        ValueError: Bad input; or `out` holds something else and `overwrite` is off.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: {batch_size} where at least 1 is due")
    if candidates not in get_args(Candidates):
        raise ValueError(f"candidates: {candidates!r} is none of {', '.join(get_args(Candidates))}")
    kb_format = kb_format or guess_format(kb)
    if kb_format not in FORMATS:
        raise ValueError(f"knowledge base format {kb_format!r} is unknown: use one of {', '.join(FORMATS)}")
    source = open_images(images, kb, kb_format)
    inputs = Inputs(
        knowledge_base=hash_knowledge_base(kb, kb_format),
        kb_format=kb_format,
        pictures=_UNKNOWN,
        summarizer=summarizer.name,
        candidates=candidates,
        encoder=encoder.fingerprint,
        fusion=None if fusion is None else fusion.fingerprint,
        tokens=tokens,
    )
    parts = out / _PARTS
    if not overwrite and _is_complete(out, inputs, overwrite):  # its articles are the knowledge base's
        index = Index.open(out, encoder=encoder, fusion=fusion)
        _is_complete(out, _with_pictures(inputs, Articles(out / "entities.jsonl"), source), overwrite)
        return _nothing_to_do(index, parts)
    _claim(out, inputs, overwrite)

    if not (parts / MANIFEST).exists():  # else a kill came while it was moved to its place
        articles = _read_articles(partial(read_knowledge_base, kb, kb_format), parts)
        inputs = _with_pictures(inputs, articles, source)
        if _is_complete(out, inputs, overwrite):
            try:
                return _nothing_to_do(Index.open(out, encoder=encoder, fusion=fusion, verify=True), parts)
            except ValueError as error:
                logger.warning("building again: %s", error)
        _claim(out, inputs, overwrite)
        articles = _read_articles(partial(read_knowledge_base, kb, kb_format), parts)
        pictures = read_pictures(articles, source, parts, batch_size, progress)
        log_problems(pictures)
        summarize_all(articles, summarizer, parts / "summaries.jsonl", batch_size, progress=progress)
        save_offsets(parts / "summaries.jsonl")
        if candidates == "image":
            rows = np.flatnonzero(np.fromiter((picture.readable for picture in pictures), dtype=bool))
            vectors = embed_images(pictures, source, encoder, parts, batch_size, progress)
        else:
            rows = np.arange(len(articles))
            summaries = Lines(parts / "summaries.jsonl")

            def text_of(row: int) -> str:
                return candidate_text(articles[row], summaries.read(row)["summary"], candidates)

            vectors = embed_texts(text_of, len(articles), encoder, parts, batch_size, progress)
        save_search(parts / "entities.faiss", vectors, rows.astype(np.int64))
        offsets = store_tokens(articles, pictures, source, fusion, tokens, parts, batch_size, progress)
        _write_report(parts, articles, pictures)
        manifest = Manifest(
            name=name or name_of(kb),
            created_with=_created_with(),
            inputs=inputs,
            counts=_count(articles, pictures, rows, offsets),
            dimension=encoder.dimension,
            token_shape=(0, 0) if fusion is None else fusion.token_shape,
            thumbnails=hash_thumbnails(parts, range(len(articles))),
            files=describe_files(parts),
        )
        write_whole(parts / MANIFEST, manifest.to_json())
    _publish(parts, out)
    return Index.open(out, encoder=encoder, fusion=fusion)


_UNKNOWN = ""
"""Stands for the hash of the pictures until the articles, which name them, are read."""


def _with_pictures(inputs: Inputs, articles: Articles, source: ImageSource | None) -> Inputs:
    """Returns the inputs with the hash of which picture belongs to which entity and how large it is."""
    digest = hashlib.sha256()
    for entity in articles:
        name = None if source is None else find_main(source, entity)
        digest.update(as_line(None if source is None or name is None else [name, source.size(name)]))
    return inputs.model_copy(update={"pictures": digest.hexdigest()})


def _read_articles(entities: Callable[[], Iterator[Entity]], parts: Path) -> Articles:
    """Returns the articles as written in `parts`; what does not fit its format leaves nothing behind."""
    try:
        return write_articles(entities, parts)
    except ValueError:
        if not offsets_path(parts / "entities.jsonl").exists():
            shutil.rmtree(parts)
            with suppress(OSError):  # the folder held something before
                parts.parent.rmdir()
        raise


def _nothing_to_do(index: Index, parts: Path) -> Index:
    logger.info("%s is complete and made from the same inputs: nothing to do", index.folder)
    shutil.rmtree(parts, ignore_errors=True)
    return index


def _is_complete(out: Path, inputs: Inputs, overwrite: bool) -> bool:
    if not (out / MANIFEST).exists():
        return False
    try:
        found = read_manifest(out).inputs
    except ValueError:
        if overwrite:
            return False
        raise
    difference = _difference(found, inputs)
    if difference and not overwrite:
        raise ValueError(f"{out} is an index of other inputs ({difference}): {_CHOICE}")
    return not difference


def _claim(out: Path, inputs: Inputs, overwrite: bool) -> None:
    """Makes `out/.parts` the place of this build; what an earlier one with equal inputs left there is kept."""
    parts = out / _PARTS
    if out.exists() and not (out / MANIFEST).exists() and not parts.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is neither empty nor an index: choose another folder")
    note = parts / "inputs.json"
    if parts.exists():
        found = Inputs.model_validate_json(note.read_bytes()) if note.exists() else None
        difference = "" if found is None else _difference(found, inputs)
        if difference and not overwrite:
            raise ValueError(f"{out} is an unfinished build of other inputs ({difference}): {_CHOICE}")
        if found is not None and not difference and inputs.pictures == _UNKNOWN:
            return
        if difference or found is None:
            shutil.rmtree(parts)
    parts.mkdir(parents=True, exist_ok=True)
    write_whole(note, inputs.model_dump_json().encode())


_CHOICE = "choose another folder, or pass --overwrite to replace it"


def _difference(found: Inputs, given: Inputs) -> str:
    """Returns in which fields inputs differ, "" when in none of which both know the value."""
    pairs = zip(found.model_dump().items(), given.model_dump().values(), strict=True)
    different = ((field, old, new) for (field, old), new in pairs if old != new and _UNKNOWN not in (old, new))
    return "; ".join(f"{field}: {old!r} there, {new!r} now" for field, old, new in different)


def _publish(parts: Path, out: Path) -> None:
    """Moves a finished build to its place; killed in between, the next call goes on."""
    (out / MANIFEST).unlink(missing_ok=True)
    for name in FILES:
        if (parts / name).exists():
            os.replace(parts / name, out / name)
    if (parts / THUMBNAILS).exists():
        shutil.rmtree(out / THUMBNAILS, ignore_errors=True)
        os.replace(parts / THUMBNAILS, out / THUMBNAILS)
    os.replace(parts / MANIFEST, out / MANIFEST)
    shutil.rmtree(parts)


def _write_report(parts: Path, articles: Articles, pictures: MainImages) -> None:
    report: dict[str, list[dict[str, object]]] = {"missing": [], "unreadable": []}
    for row, picture in enumerate(pictures):
        if picture.problem is not None:
            entity = articles[row]
            entry = {"row": row, "id": entity.id, "image": entity.image, "path": picture.path}
            report[picture.problem].append(entry)
    write_whole(parts / "report.json", (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode())


def _count(articles: Articles, pictures: MainImages, rows: IntArray, offsets: IntArray) -> Counts:
    return Counts(
        entities=len(articles),
        sections=sum(len(entity.sections) for entity in articles),
        with_image=sum(picture.readable for picture in pictures),
        searchable=len(rows),
        token_sections=int(offsets[-1]),
    )


def _created_with() -> str:
    try:
        return f"omgm {importlib.metadata.version('omgm')}"
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "omgm"
