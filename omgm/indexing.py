"""Builds indexes with the models and settings of a profile, on this machine or on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from indexes.builder.build import build_index
from indexes.builder.estimate import SAMPLE, Estimate, estimate_build
from indexes.builder.given_vectors import GivenVectors
from indexes.builder.plan import BuildPlan, IndexDesign
from indexes.builder.report import encoder_warning, read_report
from indexes.fields import FieldsModel
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase, guess_format
from indexes.knowledge.selection import FIELDS, ONLY, SKIP
from indexes.knowledge.sources import given_images
from indexes.knowledge.understanding.fields import GUESSES
from indexes.labeled_images import ImageTable, LabeledImage
from indexes.labeled_values import Names
from indexes.limits import MAX_BAD
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What a build is told besides its profile, on the command line or in Python.

    Attributes:
        kb: The knowledge base.
        out: The index's folder.
        images: The folder with its images; by default those in the knowledge base, or the folder that contains it.
        kb_format: The name of a reader; by default, each file has its own.
        names: The knowledge base's names of entity fields.
        max_bad: Share of bad entries that are skipped, in 0..1.
        labeled: Images that show an entity but are not in its article.
        image_table: Says which image of an entity is its main image.
        vectors: The vectors of summaries, if another system computed them.
        name: The index's name; by default the knowledge base's file name.
        overwrite: Whether to replace an index that was built from something else.
        tokens: Whether steps 2 and 3 can use it; without, it has no tokens and no columns.
        cluster: The address of a Ray cluster or "auto": its machines read the images and run the models.
        summarizer: Writes the summaries, instead of the profile's.
        encoder: Step 1's model, instead of the profile's.
        fusion: Step 2's model, instead of the profile's.
    """

    kb: Path
    out: Path
    images: Path | None = None
    kb_format: str | None = None
    names: Names | None = None
    max_bad: float = MAX_BAD
    labeled: Sequence[LabeledImage] = ()
    image_table: ImageTable | None = None
    vectors: GivenVectors | None = None
    name: str | None = None
    overwrite: bool = False
    tokens: bool = True
    cluster: str | None = None
    summarizer: Summarizer | None = None
    encoder: DualEncoder | None = None
    fusion: FusionEncoder | None = None

    def completed(self) -> Build:
        """Returns it with the format and the folder of images, and with absolute paths if other machines need them.

        Raises:
            ValueError: There is no such knowledge base or field, or images must be named.
        """
        if not self.kb.exists():
            raise ValueError(f"kb: {self.kb} does not exist")
        if unknown := sorted((self.names or {}).keys() - GUESSES.keys() - {ONLY, SKIP, FIELDS}):
            raise ValueError(f"names: unknown field {unknown[0]!r}; fields are {', '.join(GUESSES)}")
        kb_format = self.kb_format or guess_format(self.kb)
        build = replace(self, kb_format=kb_format, images=given_images(self.images, self.kb, kb_format))
        if self.cluster is None:
            return build
        # other machines have other working folders
        images = None if build.images is None else build.images.resolve()
        labeled = [image._replace(path=image.path.resolve()) for image in build.labeled]
        return replace(build, kb=build.kb.resolve(), out=build.out.resolve(), images=images, labeled=labeled)

    def plan(self, profile: Profile, summarizer: Summarizer) -> BuildPlan:
        """Returns the plan of the build, with the models of a profile unless there are others."""
        knowledge = KnowledgeBase(
            kb=self.kb,
            images=self.images,
            kb_format=self.kb_format,
            names=self.names,
            max_bad=self.max_bad,
            **dict(profile.index),
        )
        fusion = (self.fusion or parts.build_fusion(profile)) if self.tokens else None
        return BuildPlan(
            articles=KnowledgeArticles(knowledge, self.image_table),
            out=self.out,
            summarizer=summarizer,
            encoder=self.encoder or parts.build_encoder(profile),
            fusion=fusion,
            columns=self._columns(profile),
            design=design_of(profile),
            labeled=self.labeled,
            vectors=self.vectors,
            name=self.name,
            overwrite=self.overwrite,
        )

    def _columns(self, profile: Profile) -> dict[str, ColumnModel]:
        models = parts.build_columns(profile) if self.tokens else {}
        models.pop("fields", None)
        names = [line.partition("=")[0].rstrip("?") for line in (self.names or {}).get(FIELDS, "").splitlines()]
        return models | ({"fields": FieldsModel(*names)} if names else {})


def build(profile: Profile, order: Build) -> Index:
    """Builds the index of a knowledge base.

    Raises:
        ValueError: The input is invalid (see `indexes.builder.build`), or the cluster or extra `ray` is missing.
    """
    order = order.completed()
    given = order.summarizer
    with nullcontext(given) if given is not None else opened_summarizer(profile) as summarizer:
        plan = order.plan(profile, summarizer)
        folders = {image.path.parent for image in order.labeled}
        shared = [order.out, *sorted(folders), *([] if order.images is None else [order.images]), order.kb]
        with _workers(profile, order.cluster, shared) as workers:
            index = build_index(replace(plan, workers=workers))
    note_originals(order.out, order.kb, order.images, order.kb_format)
    if profile.recognition.fitted_to and profile.recognition.general and plan.fusion is not None:
        calibrate_index(profile, order.out, index, plan.encoder, plan.fusion)
    return index


def build_with_progress(profile: Profile, *, progress: bool, **options: Any) -> None:
    """Builds as `build` does, with progress bars or without, and warns if the encoder does not suit the images.

    Args:
        profile: The profile.
        progress: Whether to show progress bars.
        **options: The attributes of `Build`, with which `OMGM.build` calls this by its name.
    """
    order = Build(**options)
    with bars(progress):
        build(profile, order)
    if warning := encoder_warning(read_report(order.out)):
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


def estimate(profile: Profile, order: Build) -> Estimate:
    """Estimates the cost of building an index by measuring a sample.

    Raises:
        ValueError: The input is invalid; see `indexes.builder.estimate.estimate_build`.
    """
    chat = profile.summarizer.kind == "openai"
    sample = max(SAMPLE, 2 * profile.summarizer.concurrency if chat else 0)  # so that requests run concurrently
    with opened_summarizer(profile) as summarizer:
        return estimate_build(order.completed().plan(profile, summarizer), sample)


@contextmanager
def opened_summarizer(profile: Profile) -> Iterator[Summarizer]:
    """Yields the result of `parts.build_summarizer` and closes its connections and cache at the end of the block."""
    summarizer = parts.build_summarizer(profile)
    try:
        yield summarizer
    finally:
        if (close := getattr(summarizer, "close", None)) is not None:
            close()
