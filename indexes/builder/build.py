"""Builds an index on disk from a knowledge base, in stages that resume after a kill."""

from __future__ import annotations

import importlib.metadata
import logging
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from indexes.builder.claim import PARTS, UNKNOWN, claim, publish, resumable
from indexes.builder.column_stage import write_column
from indexes.builder.existing import existing_index, with_images
from indexes.builder.image_records import ImageRecords
from indexes.builder.image_stage import store_images
from indexes.builder.key_stage import write_keys
from indexes.builder.plan import BuildPlan
from indexes.builder.reindex import change_columns, change_search
from indexes.builder.report import image_problems, log_problems, read_reading, write_reading, write_report
from indexes.builder.self_retrieval import measure_self_retrieval
from indexes.builder.stages import ARTICLE_FILES, BuildRun, write_articles
from indexes.builder.summarizers import summarize_all
from indexes.growing import save_array
from indexes.lines import Articles, offsets_path, save_offsets
from indexes.store.columns import columns
from indexes.store.entity_index import write_entity_index
from indexes.store.generations import is_live
from indexes.store.index import Index
from indexes.store.keys import NO_OWNERS, Keys
from indexes.store.lock import LockedError, locked
from indexes.store.manifest import (
    IMAGE_OWNERS,
    LABELED_KEYS,
    MANIFEST,
    OWNERS,
    Counts,
    Inputs,
    Manifest,
    SearchRecord,
    describe_files,
)
from indexes.store.search_kinds import choose_kind
from indexes.store.thumbnails import Hashes, checksum, hash_thumbnails, plain_images, shared_images
from retriever.borders import RULE
from retriever.files import write_whole
from retriever.protocols import ServedSummarizer
from retriever.types import Entity

logger = logging.getLogger(__name__)


def build_index(plan: BuildPlan) -> Index:
    """Builds the index of a knowledge base and opens it; if it is already complete, only opens it.

    Live changes to a complete index (`indexes.live`) are kept, unless another index replaces it.

    Work in progress is kept in `out/.parts`. A killed build resumes there and ends with the same bytes as an
    uninterrupted one (given the same `batch_size` and `image_weight`). `out` changes only at the end, manifest last.

    Raises:
        ValueError: The input is invalid, the knowledge base has no entities, `out` contains something else and
            `overwrite` is off, or another process builds or serves the index (`LockedError`).
        OSError: `out` cannot be written; the message names the file. Repeating the build resumes it.
    """
    plan.check()
    inputs = _inputs(plan)
    index = existing_index(plan, inputs)
    if index is not None:
        return _with_changes(plan, index, inputs)
    with resumable(plan.out), locked(plan.out, "builds it"):
        parts = claim(plan.out, inputs, plan.overwrite)
        if not (parts / MANIFEST).exists():  # otherwise, the build was killed while publishing
            articles = _read_articles(plan, parts)
            inputs = with_images(inputs, articles, plan.source)
            inputs = inputs.model_copy(update={"search": choose_kind(plan.design.search, len(articles))})
            claim(plan.out, inputs, plan.overwrite, keep=ARTICLE_FILES)
            write_whole(parts / MANIFEST, _run_stages(plan, parts, articles, inputs).to_json())
        publish(plan.out)
    return plan.open()


def _inputs(plan: BuildPlan) -> Inputs:
    """Returns the inputs that identify the index; `with_images` adds the images that articles name."""
    articles, design, summarizer = plan.articles, plan.design, plan.summarizer
    served = summarizer if isinstance(summarizer, ServedSummarizer) else None
    return Inputs(
        knowledge_base=articles.digest,
        kb_format=articles.format,
        drop_sections=articles.drop_sections,
        keep_navigation=articles.keep_navigation,
        pictures=UNKNOWN,
        summarizer=summarizer.name + ("" if plan.vectors is None else f", vectors {plan.vectors.digest}"),
        candidates=design.candidates,
        encoder=plan.encoder.fingerprint,
        fusion=None if plan.fusion is None else plan.fusion.fingerprint,
        tokens=plan.codec.name,
        search="" if design.search == "auto" else design.search,  # the number of entities decides
        image_keys=plan.use.keys,
        section_images=plan.use.sections,
        labeled="none" if plan.labels is None else plan.labels.digest,
        borders=RULE if plan.use.within else "none",
        columns={name: model.fingerprint for name, model in plan.columns.items()},
        summarizer_settings=UNKNOWN if served is None else served.settings,
        summarizer_server=UNKNOWN if served is None else served.served(),
    )


def _with_changes(plan: BuildPlan, index: Index, inputs: Inputs) -> Index:
    """Returns a complete index, with another entity index or other columns if only these differ."""
    built, out, design = index.manifest.inputs, plan.out, plan.design
    other_search, other_columns = inputs.search not in ("", built.search), inputs.columns != built.columns
    if not other_search and not other_columns:
        _nothing_to_do(out)
        return index
    if is_live(out):
        what = "the kind of its entity index" if other_search else "the models of its columns"
        raise ValueError(f"{out}: has live changes, so {what} cannot change; build another index")
    with resumable(out), locked(out, "builds it"):
        if other_search:
            kind = choose_kind(design.search, index.manifest.counts.searchable)
            change_search(plan, kind)
        if other_columns:
            change_columns(plan)
    return plan.open()


def _nothing_to_do(out: Path) -> None:
    logger.info("%s is complete and built from the same inputs: nothing to do", out)
    if (out / PARTS).exists():
        with suppress(LockedError), locked(out, "builds it"):
            shutil.rmtree(out / PARTS, ignore_errors=True)


def _read_articles(plan: BuildPlan, parts: Path) -> Articles:
    """Writes the articles to `parts` and returns them; leaves nothing behind if the knowledge base is unusable."""

    def entities() -> Iterator[Entity]:
        notes = list[str]()
        yield from plan.entities(notes)
        account = dict(plan.articles.account())
        if notes := [*account.get("notes", ()), *notes]:
            account["notes"] = notes
        write_reading(parts, account)  # before the articles count as complete

    try:
        articles = write_articles(entities(), parts)
    except ValueError:
        if not offsets_path(parts / "entities.jsonl").exists():
            shutil.rmtree(parts)
        raise
    try:
        if not len(articles):
            raise ValueError(f"{plan.articles.place}: contains no entities; check the file and --kb-format")
        choose_kind(plan.design.search, len(articles))
    except ValueError:
        shutil.rmtree(parts)
        raise
    if plan.vectors is not None:
        plan.vectors.rows_for(articles)  # to fail now rather than after the other stages
    return articles


def _run_stages(plan: BuildPlan, parts: Path, articles: Articles, inputs: Inputs) -> Manifest:
    """Writes all files of an index but the articles, and returns the manifest that is to come last."""
    run = plan.run(parts)
    images, offsets = store_images(run, articles, plan.source)
    log_problems(images)
    summarize_all(articles, plan.summarizer, parts / "summaries.jsonl", run.batch)
    save_offsets(parts / "summaries.jsonl")
    readable = len(images.readable_rows())
    if run.candidates == "image" and not readable:
        raise ValueError(
            f"{plan.articles.place}: no entity has a readable main image, which candidates = 'image' needs"
        )
    keys = write_keys(run, images)
    labeled_tokens, image_tokens = _save_owners(run, keys, images, has_tokens=plan.fusion is not None)
    counts = Counts(
        entities=len(articles),
        sections=sum(len(entity.sections) for entity in articles),
        with_image=readable,
        searchable=keys.searchable,
        further_keys=len(keys.owners),
        token_sections=int(offsets[-1]) - labeled_tokens - image_tokens,
        labeled_tokens=labeled_tokens,
        image_tokens=image_tokens,
        columns={name: write_column(run, articles, columns()[name], plan.source) for name in plan.columns},
    )
    record = _entity_index(plan, parts, keys, inputs)
    hashes = hash_thumbnails(parts, len(articles))
    _report(plan, parts, articles, images, hashes)
    return Manifest(
        name=plan.name or plan.articles.name,
        created_with=_created_with(),
        inputs=inputs,
        counts=counts,
        dimension=plan.encoder.dimension,
        token_shape=(0, 0) if plan.fusion is None else plan.fusion.token_shape,
        thumbnails=checksum(hashes),
        search=record,
        files=describe_files(parts, (file for name in plan.columns for file in columns()[name].files)),
    )


def _save_owners(run: BuildRun, keys: Keys, images: ImageRecords, has_tokens: bool) -> tuple[int, int]:
    """Writes which entities the further keys and the images with tokens are of.

    Returns:
        The numbers of labeled images and of the articles' own images that have tokens.
    """
    labeled = images.labeled_keys() if run.use.labeled else NO_OWNERS
    own = images.image_owners() if has_tokens and run.use.keys > 1 else NO_OWNERS
    for name, owners, is_needed in (
        (OWNERS, keys.owners, len(keys.owners)),
        (LABELED_KEYS, labeled, run.use.labeled),
        (IMAGE_OWNERS, own, len(own)),
    ):
        if is_needed:
            save_array(run.folder / name, owners)
    return len(labeled) if has_tokens else 0, len(own)


def _report(plan: BuildPlan, parts: Path, articles: Articles, images: ImageRecords, hashes: Hashes) -> None:
    """Writes what could not be used, and how well the images can be told apart."""
    readable = images.readable_rows()
    report = read_reading(parts, len(readable)) | {
        "shared_images": shared_images(hashes, articles),
        "plain_images": plain_images(parts, articles),
    }
    if (fit := measure_self_retrieval(parts, readable, plan.encoder, plan.use.within)) is not None:
        report["self_retrieval"] = fit._asdict()
    for report_on in filter(None, (columns()[name].report for name in plan.columns)):
        report |= report_on(parts)
    write_report(parts, image_problems(articles, images), report)


def _entity_index(plan: BuildPlan, parts: Path, keys: Keys, inputs: Inputs) -> SearchRecord:
    """Writes the entity index, unless a killed build already finished it, and returns its record."""
    note = parts / "search.json"
    if note.exists():
        return SearchRecord.model_validate_json(note.read_bytes())
    record = write_entity_index(
        parts,
        keys,
        inputs,
        index=parts,
        uri=plan.design.search_uri,
        image_weight=plan.design.image_weight,
        encoder=plan.encoder,
    )
    write_whole(note, record.model_dump_json().encode())
    return record


def _created_with() -> str:
    try:
        return f"omgm {importlib.metadata.version('omgm')}"
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "omgm"
