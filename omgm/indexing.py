"""Builds indexes with the models and settings of a profile, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from indexes.article_images import ImageUse
from indexes.build import build_index
from indexes.design import IndexDesign
from indexes.estimate import SAMPLE, Estimate, estimate_build
from indexes.formats import OWN_IMAGES, guess_format, read_knowledge_base
from indexes.formats.fields import GUESSES, Names, image_pattern
from indexes.formats.selection import ONLY, SKIP
from indexes.formats.skipped import MAX_BAD, SkippedEntries
from indexes.given_vectors import GivenVectors
from indexes.image_tables import ImageTable
from indexes.labeled_images import LabeledImage
from indexes.matching import with_matched_images
from indexes.sources import open_images
from indexes.store import Index
from indexes.summarizers import Summarizer
from indexes.workers import LocalWorkers, ModelName, Workers
from omgm import parts
from omgm.self_calibration import calibrate_index
from omgm.settings import Profile
from retriever.protocols import DualEncoder, FusionEncoder, SectionEncoder


def design_of(profile: Profile) -> IndexDesign:
    """Returns the settings of a profile that determine the contents of an index."""
    return {
        "drop_sections": profile.index.drop_sections,
        "keep_navigation": profile.index.keep_navigation,
        "candidates": profile.search.candidates,
        "tokens": profile.fusion.tokens,
        "search": profile.search.kind,
        "search_uri": profile.search.uri,
        "image_weight": profile.search.image_weight,
        "image_keys": profile.search.image_keys,
        "section_images": profile.fusion.section_images,
        "trim_borders": profile.search.trim_borders,
    }


def build(
    profile: Profile,
    kb: Path,
    out: Path,
    *,
    images: Path | None = None,
    kb_format: str | None = None,
    names: Names | None = None,
    max_bad: float = MAX_BAD,
    labeled: Sequence[LabeledImage] = (),
    name: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
    cluster: str | None = None,
    summarizer: Summarizer | None = None,
    encoder: DualEncoder | None = None,
    fusion: FusionEncoder | None = None,
    sections: SectionEncoder | None = None,
    vectors: GivenVectors | None = None,
    image_table: ImageTable | None = None,
) -> Index:
    """Builds the index of a knowledge base with a profile's models, or with the given ones instead.

    With a `cluster`, the address of a Ray cluster or "auto", its machines read the images and run the models.

    Raises:
        ValueError: The input is invalid (see `indexes.build.build_index`), or the cluster or extra `ray` is missing.
    """
    kb_format = _checked_format(kb, images, kb_format, names)
    if cluster is not None:  # other machines have other working folders
        kb, images, out = kb.resolve(), None if images is None else images.resolve(), out.resolve()
        labeled = [image._replace(path=image.path.resolve()) for image in labeled]
    shared = [out, *sorted({image.path.parent for image in labeled})]
    if images is not None:
        shared.append(images)
    if kb_format in OWN_IMAGES:
        shared.append(kb)
    made = nullcontext(summarizer) if summarizer is not None else parts.opened_summarizer(profile)
    encoder, fusion = encoder or parts.build_encoder(profile), fusion or parts.build_fusion(profile)
    with made as summarizer, _workers(profile, cluster, shared) as workers:
        index = build_index(
            kb,
            images,
            out,
            summarizer=summarizer,
            encoder=encoder,
            fusion=fusion,
            sections=sections or _sections(profile),
            kb_format=kb_format,
            names=names,
            max_bad=max_bad,
            labeled=labeled,
            name=name,
            overwrite=overwrite,
            progress=progress,
            workers=workers,
            vectors=vectors,
            image_table=image_table,
            **design_of(profile),
        )
    if profile.recognition.fitted_to and profile.recognition.general:
        calibrate_index(profile, out, index, encoder, fusion, progress)
    return index


def _sections(profile: Profile) -> SectionEncoder | None:
    return parts.build_sections(profile) if profile.sections.kind == "hybrid" else None


@contextmanager
def _workers(
    profile: Profile, cluster: str | None, shared: Sequence[Path]
) -> Iterator[Callable[[DualEncoder, FusionEncoder | None, SectionEncoder | None], Workers]]:
    """Yields a factory for the workers of a build; if there is a cluster, stays connected to it during the block."""
    if cluster is None:
        yield LocalWorkers
        return
    try:
        from indexes.cluster import RayWorkers, connected
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "pyarrow", "pandas"):
            raise
        raise ValueError('--cluster needs the extra ray: pip install "omgm[ray]"') from error
    with connected(cluster):
        loaders: dict[ModelName, Callable[[], Any]] = {
            "encoder": partial(parts.build_encoder, profile),
            "fusion": partial(parts.build_fusion, profile),
            "sections": partial(parts.build_sections, profile),
        }
        yield partial(RayWorkers, loaders, shared)


def estimate(
    profile: Profile,
    kb: Path,
    *,
    images: Path | None = None,
    kb_format: str | None = None,
    names: Names | None = None,
    max_bad: float = MAX_BAD,
    labeled: Sequence[LabeledImage] = (),
) -> Estimate:
    """Estimates the cost of building an index by measuring a sample; see `build` for the arguments.

    Raises:
        ValueError: The input is invalid; see `indexes.estimate.estimate_build`.
    """
    kb_format = _checked_format(kb, images, kb_format, names)
    chat = profile.summarizer.kind == "openai"
    sample = max(SAMPLE, 2 * profile.summarizer.concurrency if chat else 0)  # so that requests run concurrently
    skipped = SkippedEntries(max_bad)
    with parts.opened_summarizer(profile) as summarizer:
        source = open_images(images, kb, kb_format)
        entities = read_knowledge_base(
            kb,
            kb_format,
            profile.index.drop_sections,
            names=names,
            keep_navigation=profile.index.keep_navigation,
            skipped=skipped,
        )
        return estimate_build(
            with_matched_images(entities, source, image_pattern(names or {}), required=not labeled),
            source,
            summarizer=summarizer,
            encoder=parts.build_encoder(profile),
            fusion=parts.build_fusion(profile),
            sections=_sections(profile),
            candidates=profile.search.candidates,
            tokens=profile.fusion.tokens,
            search=profile.search.kind,
            use=ImageUse(profile.search.image_keys, profile.fusion.section_images),
            labeled=labeled,
            sample=sample,
        )


def _checked_format(kb: Path, images: Path | None, kb_format: str | None, names: Names | None) -> str:
    if not kb.exists():
        raise ValueError(f"kb: {kb} does not exist")
    if unknown := sorted((names or {}).keys() - GUESSES.keys() - {ONLY, SKIP}):
        raise ValueError(f"names: unknown field {unknown[0]!r}; fields are {', '.join(GUESSES)}")
    kb_format = kb_format or guess_format(kb)
    if images is None and kb_format not in OWN_IMAGES:
        raise ValueError(
            f"images: name the folder with the images (--images {kb.parent}, if they are beside the knowledge base); "
            f"a knowledge base of format {kb_format} contains none"
        )
    return kb_format
