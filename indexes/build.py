"""Builds an index on disk from a knowledge base, in stages that resume after a kill."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from indexes.chat_summarizer import ChatSummarizer
from indexes.claim import PARTS, UNKNOWN, claim, publish, resumable
from indexes.entity_index import write_entity_index
from indexes.existing import existing_index, with_images
from indexes.formats import (
    FORMATS,
    dropped_titles,
    guess_format,
    hash_knowledge_base,
    name_of,
    read_knowledge_base,
)
from indexes.formats.fields import Names, image_pattern
from indexes.formats.losses import Losses
from indexes.formats.skipped import MAX_BAD, SkippedEntries
from indexes.given_vectors import GivenVectors
from indexes.growing import save_array
from indexes.image_stage import store_images
from indexes.image_tables import ImageTable
from indexes.keys import IMAGE_WEIGHT, Keys, write_keys
from indexes.labeled_images import LabeledImage, LabeledSource
from indexes.lines import Articles, offsets_path, save_offsets
from indexes.live.layout import is_live
from indexes.lock import LockedError, locked
from indexes.manifest import (
    IMAGE_OWNERS,
    LABELED_KEYS,
    MANIFEST,
    OWNERS,
    Candidates,
    Counts,
    Inputs,
    Manifest,
    SearchRecord,
    describe_files,
    keys_are_images,
)
from indexes.matching import MatchReport, with_matched_images
from indexes.reindex import change_search, change_sections
from indexes.report import image_problems, log_problems, read_reading, write_reading, write_report
from indexes.search_kinds import SearchChoice, choose_kind
from indexes.section_vectors import write_section_vectors
from indexes.self_retrieval import measure_self_retrieval
from indexes.sources import ImageSource, open_images
from indexes.stages import ARTICLE_FILES, BuildRun, write_articles
from indexes.store import Index
from indexes.summarizers import Summarizer
from indexes.summary_file import summarize_all
from indexes.thumbnails import checksum, hash_thumbnails, plain_images, shared_images
from indexes.workers import LocalWorkers, Workers
from retriever.files import write_whole
from retriever.protocols import DualEncoder, FusionEncoder, SectionEncoder
from retriever.token_codec import TokenCodec
from retriever.types import Entity, IntArray

logger = logging.getLogger(__name__)


def build_index(
    kb: Path,
    images: Path | None,
    out: Path,
    *,
    summarizer: Summarizer,
    encoder: DualEncoder,
    fusion: FusionEncoder | None,
    sections: SectionEncoder | None = None,
    kb_format: str | None = None,
    drop_sections: Sequence[str] | None = None,
    keep_navigation: bool = False,
    names: Names | None = None,
    max_bad: float = MAX_BAD,
    batch_size: int = 32,
    candidates: Candidates = "summary",
    tokens: str = "float16",
    search: SearchChoice = "auto",
    search_uri: str = "",
    image_weight: float = IMAGE_WEIGHT,
    image_keys: int = 1,
    section_images: bool = False,
    trim_borders: bool = False,
    labeled: Sequence[LabeledImage] = (),
    name: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
    vectors: GivenVectors | None = None,
    image_table: ImageTable | None = None,
    workers: Callable[[DualEncoder, FusionEncoder | None, SectionEncoder | None], Workers] = LocalWorkers,
) -> Index:
    """Builds the index of a knowledge base in `out` and opens it; if it is already complete, only opens it.

    Live changes to a complete index (`indexes.live`) are kept, unless another index replaces it.

    Work in progress is kept in `out/.parts`. A killed build resumes there and ends with the same bytes as an
    uninterrupted one (given the same `batch_size` and `image_weight`). `out` changes only at the end, manifest last.

    Args:
        kb: The knowledge base.
        images: The folder or ZIM file with its images; by default those in the knowledge base itself. A missing or
            unreadable image is not an error: `image_problems.jsonl` lists it with the reason.
        out: The index folder: absent, empty, or an index.
        summarizer: Writes the summaries.
        encoder: Step 1's model.
        fusion: Step 2's model; `None` leaves the token store empty, to measure step 1 alone.
        sections: Step 3's encoder of sections, if it has one; `None` stores no vectors of sections.
        kb_format: See `read_knowledge_base`.
        drop_sections: Titles of sections to leave out, see `dropped_titles`.
        keep_navigation: See `read_knowledge_base`.
        names: The names of an entity's fields in the knowledge base, if they differ from the usual ones.
        max_bad: Share of bad entries, in 0..1, above which the build fails. They are skipped; `report.json` lists them.
        batch_size: Entities per batch; a kill loses at most one batch, or only the unfinished summaries.
        candidates: What step 1 searches. With `image`, an entity without a readable main image is never found.
        tokens: How step 2's tokens are stored: the name of a `TokenCodec`.
        search: The kind of entity index, see `indexes.search_kinds`.
        search_uri: Where Milvus is if `search` is "milvus", see `indexes.search_milvus.Collection`.
        image_weight: Weight of the main image in a combined key, used to tune an approximate entity index and to open
            the index.
        image_keys: Most image keys per entity: its main image, then the others of its article in order. Ignored if
            `candidates` are only texts.
        section_images: Whether a section's tokens use its own image if it has one.
        trim_borders: Whether to cut uniform borders off labeled images, as off query images.
        labeled: Images that show an entity but are not in its article; they become further image keys of the entity.
        name: The index's name; by default the knowledge base's file name without extension.
        overwrite: Whether to replace another index or its unfinished build. If only `search` differs, the entity index
            is rebuilt from the stored vectors, and everything else is kept; if only the encoder of sections differs,
            only their vectors are made again.
        progress: Whether to show progress bars.
        vectors: The vectors of summaries, if another system computed them, for `candidates` "summary" only.
        image_table: Says which image of an entity is its main image, in place of the knowledge base.
        workers: Creates the workers that run the models: in this process, or on a cluster (`indexes.cluster`).

    Raises:
        ValueError: The input is invalid, the knowledge base has no entities, `out` contains something else and
            `overwrite` is off, or another process builds or serves the index (`LockedError`).
        OSError: `out` cannot be written; the message names the file. Repeating the build resumes it.
    """
    _check_settings(batch_size, candidates, search, search_uri, image_keys)
    codec = TokenCodec.parse(tokens)
    if vectors is not None:
        _check_vectors(vectors, encoder, candidates)
    if fusion is not None:
        codec.stored_shape(fusion.token_shape)  # to fail now rather than after the other stages
    kb_format = kb_format or guess_format(kb)
    if kb_format not in FORMATS:
        raise ValueError(f"knowledge base format {kb_format!r} is unknown: use one of {', '.join(FORMATS)}")
    labeled = labeled if keys_are_images(candidates) else ()
    own_images = open_images(images, kb, kb_format)
    labels = LabeledSource(labeled, own_images, trim_borders) if labeled else None
    source = labels or own_images
    inputs = Inputs(
        knowledge_base=_hash(hash_knowledge_base(kb, kb_format, names), image_table),
        kb_format=kb_format,
        drop_sections=dropped_titles(kb_format, drop_sections),
        keep_navigation=keep_navigation,
        pictures=UNKNOWN,
        summarizer=summarizer.name if vectors is None else f"{summarizer.name}, vectors {vectors.digest}",
        candidates=candidates,
        encoder=encoder.fingerprint,
        fusion=None if fusion is None else fusion.fingerprint,
        tokens=codec.name,
        search="" if search == "auto" else search,  # the number of entities decides
        image_keys=image_keys if keys_are_images(candidates) else 1,
        section_images=section_images and fusion is not None,
        labeled=labels.digest if labels else "none",
        sections=None if sections is None else sections.fingerprint,
        summarizer_settings=summarizer.settings if isinstance(summarizer, ChatSummarizer) else UNKNOWN,
        summarizer_server=summarizer.served() if isinstance(summarizer, ChatSummarizer) else UNKNOWN,
    )
    index = existing_index(out, inputs, source, encoder, fusion, overwrite, image_weight)
    if index is not None:
        built = index.manifest.inputs
        other_search, other_sections = inputs.search not in ("", built.search), inputs.sections != built.sections
        if not other_search and not other_sections:
            _nothing_to_do(out)
            return index
        if is_live(out):
            what = "the kind of its entity index" if other_search else "its encoder of sections"
            raise ValueError(f"{out}: has live changes, so {what} cannot change; build another index")
        with resumable(out), locked(out, "builds it"):
            if other_search:
                kind = choose_kind(search, index.manifest.counts.searchable)
                change_search(out, kind, image_weight, encoder, progress, search_uri)
            if other_sections:
                change_sections(out, workers(encoder, fusion, sections), batch_size, progress)
        return Index.open(out, encoder=encoder, fusion=fusion, image_weight=image_weight)
    with resumable(out), locked(out, "builds it"):
        parts = claim(out, inputs, overwrite)
        if not (parts / MANIFEST).exists():  # otherwise, the build was killed while publishing
            skipped, losses = SkippedEntries(max_bad), Losses(str(kb))
            read = partial(
                read_knowledge_base, kb, kb_format, drop_sections, names=names, keep_navigation=keep_navigation
            )
            matched, pattern = MatchReport(), image_pattern(names or {})
            found = read(skipped=skipped, losses=losses)
            found = found if image_table is None else image_table.applied(found)
            entities = with_matched_images(found, own_images, pattern, matched, required=not labeled)
            if labels:
                entities = labels.attach(entities, lambda: read(skipped=SkippedEntries(max_bad)))
            articles = _read_articles(_with_report(entities, skipped, losses, matched, parts), kb, parts, search)
            if vectors is not None:
                vectors.rows_for(articles)  # to fail now rather than after the other stages
            inputs = with_images(inputs, articles, source)
            inputs = inputs.model_copy(update={"search": choose_kind(search, len(articles))})
            claim(out, inputs, overwrite, keep=ARTICLE_FILES)
            run = BuildRun(
                folder=parts,
                workers=workers(encoder, fusion, sections),
                candidates=candidates,
                use=inputs.image_use,
                codec=codec,
                batch=batch_size,
                progress=progress,
                vectors=vectors,
            )
            manifest = _run_stages(
                run,
                articles,
                inputs,
                kb=kb,
                name=name or name_of(kb),
                source=source,
                summarizer=summarizer,
                search_uri=search_uri,
                image_weight=image_weight,
            )
            write_whole(parts / MANIFEST, manifest.to_json())
        publish(out)
    return Index.open(out, encoder=encoder, fusion=fusion, image_weight=image_weight)


def _check_settings(batch_size: int, candidates: str, search: str, search_uri: str, image_keys: int) -> None:
    """Raises a `ValueError` that names the first invalid setting."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if candidates not in get_args(Candidates):
        raise ValueError(f"candidates must be one of {', '.join(get_args(Candidates))}, got {candidates!r}")
    if search not in get_args(SearchChoice):
        raise ValueError(f"search must be one of {', '.join(get_args(SearchChoice))}, got {search!r}")
    if image_keys < 1:
        raise ValueError(f"image_keys must be at least 1, got {image_keys}")
    if (search == "milvus") != bool(search_uri):
        raise ValueError(f'search.uri must be set if search.kind is "milvus", and only then; got {search_uri!r}')


def _hash(knowledge_base: str, table: ImageTable | None) -> str:
    return knowledge_base if table is None else hashlib.sha256(f"{knowledge_base}{table.digest}".encode()).hexdigest()


def _check_vectors(vectors: GivenVectors, encoder: DualEncoder, candidates: Candidates) -> None:
    """Raises a `ValueError` if step 1 cannot search the vectors."""
    if candidates != "summary":
        raise ValueError(f"{vectors.path}: vectors of summaries need search.candidates=summary, got {candidates}")
    if vectors.dimension != encoder.dimension:
        raise ValueError(
            f"{vectors.path}: its vectors have {vectors.dimension} values, those of the profile's encoder "
            f"{encoder.dimension}; use the profile with the encoder that made them (EVA-CLIP-8B: --profile paper)"
        )


def _nothing_to_do(out: Path) -> None:
    logger.info("%s is complete and built from the same inputs: nothing to do", out)
    if (out / PARTS).exists():
        with suppress(LockedError), locked(out, "builds it"):
            shutil.rmtree(out / PARTS, ignore_errors=True)


def _run_stages(
    run: BuildRun,
    articles: Articles,
    inputs: Inputs,
    *,
    kb: Path,
    name: str,
    source: ImageSource | None,
    summarizer: Summarizer,
    search_uri: str,
    image_weight: float,
) -> Manifest:
    """Writes all files of an index but the articles, and returns the manifest that is to come last."""
    parts, encoder, fusion = run.folder, run.workers.encoder, run.workers.fusion
    images, offsets = store_images(run, articles, source)
    log_problems(images)
    summarize_all(articles, summarizer, parts / "summaries.jsonl", run.batch, progress=run.progress)
    save_offsets(parts / "summaries.jsonl")
    readable = images.readable_rows()
    if run.candidates == "image" and not len(readable):
        raise ValueError(f"{kb}: no entity has a readable main image, which candidates = 'image' needs")
    keys = write_keys(run, images)
    if len(keys.owners):
        save_array(parts / OWNERS, keys.owners)
    labeled = shown = np.empty(0, np.int64)
    if run.use.labeled:
        labeled = images.labeled_keys()
        save_array(parts / LABELED_KEYS, labeled)
    sections = run.workers.sections
    windows = 0 if sections is None else write_section_vectors(run, articles, sections)
    if fusion is not None and run.use.keys > 1:
        shown = images.image_owners()
    if len(shown):
        save_array(parts / IMAGE_OWNERS, shown)
    record = _entity_index(run, keys, inputs, search_uri, image_weight)
    fit = measure_self_retrieval(parts, readable, encoder)
    hashes = hash_thumbnails(parts, len(articles))
    report = read_reading(parts, len(readable)) | {
        "shared_images": shared_images(hashes, articles).to_json(),
        "plain_images": plain_images(parts, articles),
    }
    if fit is not None:
        report["self_retrieval"] = fit.to_json()
    write_report(parts, image_problems(articles, images), report)
    return Manifest(
        name=name,
        created_with=_created_with(),
        inputs=inputs,
        counts=_count(
            articles, len(readable), keys, offsets, 0 if fusion is None else len(labeled), len(shown), windows
        ),
        dimension=encoder.dimension,
        token_shape=(0, 0) if fusion is None else fusion.token_shape,
        thumbnails=checksum(hashes),
        search=record,
        files=describe_files(parts),
    )


def _entity_index(run: BuildRun, keys: Keys, inputs: Inputs, uri: str, image_weight: float) -> SearchRecord:
    """Writes the entity index, unless a killed build already finished it, and returns its record."""
    note = run.folder / "search.json"
    if note.exists():
        return SearchRecord.model_validate_json(note.read_bytes())
    record = write_entity_index(
        run.folder,
        keys,
        inputs,
        index=run.folder,
        uri=uri,
        image_weight=image_weight,
        encoder=run.workers.encoder,
        progress=run.progress,
    )
    write_whole(note, record.model_dump_json().encode())
    return record


def _read_articles(entities: Iterator[Entity], kb: Path, parts: Path, search: SearchChoice) -> Articles:
    """Writes the articles to `parts` and returns them; leaves nothing behind if the knowledge base is unusable."""
    try:
        articles = write_articles(entities, parts)
    except ValueError:
        if not offsets_path(parts / "entities.jsonl").exists():
            shutil.rmtree(parts)
        raise
    if not len(articles):
        shutil.rmtree(parts)
        raise ValueError(f"{kb}: contains no entities; check the file and --kb-format")
    try:
        choose_kind(search, len(articles))
    except ValueError:
        shutil.rmtree(parts)
        raise
    return articles


def _with_report(
    entities: Iterator[Entity], skipped: SkippedEntries, losses: Losses, matched: MatchReport, parts: Path
) -> Iterator[Entity]:
    """Yields entities, then writes what was skipped and left out, before the articles count as complete."""
    yield from entities
    losses.images |= matched.counts()
    losses.notes += matched.notes()
    write_reading(parts, skipped, losses)


def _count(
    articles: Articles,
    with_image: int,
    keys: Keys,
    offsets: IntArray,
    labeled_tokens: int,
    image_tokens: int,
    section_windows: int,
) -> Counts:
    return Counts(
        entities=len(articles),
        sections=sum(len(entity.sections) for entity in articles),
        with_image=with_image,
        searchable=keys.searchable,
        further_keys=len(keys.owners),
        token_sections=int(offsets[-1]) - labeled_tokens - image_tokens,
        labeled_tokens=labeled_tokens,
        image_tokens=image_tokens,
        section_windows=section_windows,
    )


def _created_with() -> str:
    try:
        return f"omgm {importlib.metadata.version('omgm')}"
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "omgm"
