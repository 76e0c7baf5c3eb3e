"""Builds indexes with the models and settings of a profile, on this machine or on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from indexes.builder.build import build_index
from indexes.builder.estimate import SAMPLE, Estimate, estimate_build
from indexes.builder.plan import BuildPlan, IndexDesign
from indexes.builder.report import encoder_warning, read_report
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase, guess_format
from indexes.knowledge.selection import ONLY, SKIP
from indexes.knowledge.sources import given_images
from indexes.knowledge.understanding.fields import GUESSES
from indexes.labeled_values import Names
from indexes.progress import bars
from indexes.store.columns import ColumnModel, columns
from indexes.store.index import Index
from indexes.workers import LocalWorkers, ModelName, Workers
from omgm import parts
from omgm.originals import note_originals
from omgm.self_calibration import calibrate_index
from omgm.settings import Profile
from retriever.protocols import DualEncoder, FusionEncoder, Summarizer

logger = logging.getLogger(__name__)


def design_of(profile: Profile) -> IndexDesign:
    """Returns the settings of a profile that determine the contents of an index."""
    return IndexDesign(
        candidates=profile.search.candidates,
        tokens=profile.fusion.tokens,
        search=profile.search.kind,
        search_uri=profile.search.uri,
        image_weight=profile.search.image_weight,
        image_keys=profile.search.image_keys,
        section_images=profile.fusion.section_images,
        trim_borders=profile.search.trim_borders,
    )


def _plan(profile: Profile, kb: Path, images: Path | None, out: Path, **options: Any) -> BuildPlan:
    """Returns the plan of a build with a profile's settings and models, unless `options` has others."""
    models: dict[str, Callable[[Profile], Any]] = {
        "encoder": parts.build_encoder,
        "fusion": parts.build_fusion,
        "columns": parts.build_columns,
    }
    if not options.pop("tokens", True):
        models, options = {"encoder": parts.build_encoder}, options | {"fusion": None, "columns": {}}
    options |= {name: load(profile) for name, load in models.items() if options.get(name) is None}
    reading = {name: options.pop(name) for name in ("kb_format", "names", "max_bad") if name in options}
    knowledge = KnowledgeBase(kb=kb, images=images, **reading, **dict(profile.index))
    return BuildPlan(
        articles=KnowledgeArticles(knowledge, options.pop("image_table", None)),
        out=out,
        design=design_of(profile),
        **options,
    )


def build(
    profile: Profile,
    kb: Path,
    out: Path,
    *,
    images: Path | None = None,
    cluster: str | None = None,
    summarizer: Summarizer | None = None,
    **options: Any,
) -> Index:
    """Builds the index of a knowledge base with a profile's models, or with the given ones instead.

    Args:
        profile: The models and settings.
        kb: The knowledge base.
        out: The index's folder.
        images: The folder with its images; by default those in the knowledge base, or the folder that contains it.
        cluster: The address of a Ray cluster or "auto": its machines read the images and run the models.
        summarizer: Writes the summaries, instead of the profile's.
        **options: `kb_format`, `names` and `max_bad` of the knowledge base, and other attributes of `BuildPlan`.
            Without `tokens`, the index has neither tokens nor columns.

    Raises:
        ValueError: The input is invalid (see `indexes.builder.build`), or the cluster or extra `ray` is missing.
    """
    options["kb_format"] = _checked_format(kb, options.get("kb_format"), options.get("names"))
    images = given_images(images, kb, options["kb_format"])
    if cluster is not None:  # other machines have other working folders
        kb, images, out = kb.resolve(), None if images is None else images.resolve(), out.resolve()
        options["labeled"] = [image._replace(path=image.path.resolve()) for image in options.get("labeled", ())]
    made = nullcontext(summarizer) if summarizer is not None else parts.opened_summarizer(profile)
    with made as summarizer:
        plan = _plan(profile, kb, images, out, summarizer=summarizer, **options)
        shared = [out, *sorted({image.path.parent for image in plan.labeled})]
        if images is not None:
            shared.append(images)
        shared.append(kb)
        with _workers(profile, cluster, shared) as workers:
            index = build_index(replace(plan, workers=workers))
    note_originals(out, kb, images, options["kb_format"])
    if profile.recognition.fitted_to and profile.recognition.general and plan.fusion is not None:
        calibrate_index(profile, out, index, plan.encoder, plan.fusion)
    return index


def build_with_progress(profile: Profile, kb: Path, out: Path, *, progress: bool, **options: Any) -> None:
    """Builds as `build` does, with progress bars or without, and warns if the encoder does not suit the images."""
    with bars(progress):
        build(profile, kb, out, **options)
    if warning := encoder_warning(read_report(out)):
        logger.warning("%s", warning)


@contextmanager
def _workers(
    profile: Profile, cluster: str | None, shared: Sequence[Path]
) -> Iterator[Callable[[DualEncoder, FusionEncoder | None, Mapping[str, ColumnModel]], Workers]]:
    """Yields a factory for the workers of a build; if there is a cluster, stays connected to it during the block."""
    if cluster is None:
        yield LocalWorkers
        return
    try:
        from indexes.builder.cluster import RayWorkers, connected
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "pyarrow", "pandas"):
            raise
        raise ValueError('--cluster needs the extra ray: pip install "omgm[ray]"') from error
    with connected(cluster):
        loaders: dict[ModelName, Callable[[], Any]] = {
            "encoder": partial(parts.build_encoder, profile),
            "fusion": partial(parts.build_fusion, profile),
            **{name: partial(_column_model, profile, name) for name in columns()},
        }
        yield partial(RayWorkers, loaders, shared)


def _column_model(profile: Profile, name: str) -> ColumnModel:
    return parts.build_columns(profile, [name])[name]


def estimate(profile: Profile, kb: Path, *, images: Path | None = None, **options: Any) -> Estimate:
    """Estimates the cost of building an index by measuring a sample; see `build` for the arguments.

    Raises:
        ValueError: The input is invalid; see `indexes.builder.estimate.estimate_build`.
    """
    options["kb_format"] = _checked_format(kb, options.get("kb_format"), options.get("names"))
    images = given_images(images, kb, options["kb_format"])
    chat = profile.summarizer.kind == "openai"
    sample = max(SAMPLE, 2 * profile.summarizer.concurrency if chat else 0)  # so that requests run concurrently
    with parts.opened_summarizer(profile) as summarizer:
        return estimate_build(_plan(profile, kb, images, kb, summarizer=summarizer, **options), sample)


def _checked_format(kb: Path, kb_format: str | None, names: Names | None) -> str:
    if not kb.exists():
        raise ValueError(f"kb: {kb} does not exist")
    if unknown := sorted((names or {}).keys() - GUESSES.keys() - {ONLY, SKIP}):
        raise ValueError(f"names: unknown field {unknown[0]!r}; fields are {', '.join(GUESSES)}")
    return kb_format or guess_format(kb)
