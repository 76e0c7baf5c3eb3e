"""Opens an index with a profile's models, for retrieval."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from indexes.live.following import FollowingIndex
from indexes.store.columns import ColumnModel, columns_of
from indexes.store.generations import current_files
from indexes.store.index import Index, OpenOptions, check_candidates
from indexes.store.manifest import read_manifest
from omgm import parts
from omgm.kinds import in_parts, kind_of
from omgm.own_recognition import own_recognition
from omgm.settings import STEPS, Profile
from omgm.steps import StepParts, build_steps
from retriever.borders import RULE
from retriever.image_cache import ImageCache
from retriever.pipeline import Retriever
from retriever.protocols import DualEncoder, FusionEncoder, TextReranker, VectorReranker
from retriever.recognition import SIGNS, Recognition, Signs

logger = logging.getLogger(__name__)


def recognition_key(profile: Profile, encoder: DualEncoder, fusion: FusionEncoder, image_keys: int, tokens: str) -> str:
    """Returns a hash of everything that determines the scores of entities, "images alone" for how step 2 compares.

    Args:
        profile: The profile.
        encoder: Step 1's model.
        fusion: Step 2's model.
        image_keys: Maximum number of image keys per entity in the index: the best of more keys scores higher.
        tokens: The codec of the index's tokens: sign bits score lower than float16.
    """
    search = profile.search
    searched = [search.candidates, search.image_weight, image_keys, search.trim_borders]
    settings = [*searched, tokens, profile.fusion.score_mode, profile.fusion.alpha, "images alone"]
    others = [step.model_dump() for step in profile.steps if profile.steps != STEPS]
    parts = [encoder.fingerprint, fusion.fingerprint, *settings, *others]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _build_recognition(
    profile: Profile, folder: Path, index: Index, encoder: DualEncoder, fusion: FusionEncoder
) -> Recognition | None:
    """Returns the profile's recognition, or the index's own if it has one and the profile's is a general one.

    Returns `None` if neither has the `recognition_key` of the models.
    """
    settings = profile.recognition
    if not settings.fitted_to:
        return None
    image_keys, tokens = index.manifest.inputs.image_keys, index.manifest.inputs.tokens
    key = recognition_key(profile, encoder, fusion, image_keys, tokens)
    if settings.general and (own := own_recognition(profile, folder, index, key)) is not None:
        return own
    if settings.fitted_to != key:
        logger.warning(
            "profile %s: recognition was fitted to other models or weights, or to another number of image keys or "
            "other tokens than the index has (%d, %s), so no question is declined; fit it again with "
            "omgm sweep --recognition",
            profile.name,
            image_keys,
            tokens,
        )
        return None
    signs = Signs(**{name: getattr(settings, name) for name in SIGNS})
    crops = profile.search.crops and settings.crop_threshold < 1
    return Recognition(settings.bias, signs, settings.threshold, settings.crop_threshold if crops else None)


def open_retriever(
    profile: Profile,
    folder: Path,
    *,
    encoder: DualEncoder | None = None,
    fusion: FusionEncoder | None = None,
    reranker: TextReranker | None = None,
    live: bool = False,
    verify: bool = False,
    index: FollowingIndex | None = None,
    cache: ImageCache | None = None,
) -> Retriever[Index]:
    """Opens an index for retrieval, with a profile's models or the given ones instead.

    Args:
        profile: The profile.
        folder: The index's folder, or the addresses of its parts (`omgm.kinds.in_parts`).
        encoder: Step 1's model.
        fusion: Step 2's model.
        reranker: Step 3's model.
        live: Whether to follow changes that are not yet compacted, including future ones by other processes; otherwise
            an index with such changes is refused.
        verify: Whether to verify all files of an index that is not in parts: figures are to be those of one build.
        index: The index, if it is already open with `encoder` and `fusion`.
        cache: Where the profile's models cache what they compute from images; by default, 16 MiB.

    Raises:
        ValueError: The index or a model is missing, or they do not match; the message says what to do.
    """
    warn_of_pair(profile)
    cache = cache or ImageCache(1 << 24)  # what is not surely recognized is looked at again
    front = kind_of("omgm.indexes", "parts")(folder) if in_parts(folder) else None
    if front is None:
        open_index = partial(FollowingIndex.open if live else Index.open, verify=verify)
    else:
        folder, open_index = front.folder, front.open
    encoder, fusion = encoder or parts.build_encoder(profile, cache), fusion or parts.build_fusion(profile, cache)
    reranker = reranker or _build_reranker(profile, folder)
    columns: dict[str, ColumnModel] = {"sections": reranker.encoder} if isinstance(reranker, VectorReranker) else {}
    columns |= _image_columns(profile, folder)
    options = index_options(profile, encoder, fusion, columns)
    opened = index or open_index(folder, **options)
    check_candidates(opened, profile.search.candidates)
    _warn_of_borders(profile, folder, opened)
    recognition = _build_recognition(profile, folder, opened, encoder, fusion)
    searches = {
        column.name: column.search(opened, columns[column.name])
        for column in columns_of(opened.manifest)
        if column.search is not None and column.name in columns
    }
    if labels := searches.get("image_text"):
        labels.weight = profile.search.words_weight
        labels.encode = reranker.encode if isinstance(reranker, VectorReranker) else None
    steps = build_steps(StepParts(profile, opened, encoder, fusion, reranker, recognition, searches))
    pin = getattr(opened, "pinned", nullcontext)
    retriever: Retriever[Index] = (front.retriever if front else Retriever)(
        steps,
        opened,
        recognition,
        pin,
        profile.search.trim_borders,
        device=opened.device,
        propose=getattr(steps[0], "propose", None),
        refine=labels.refine if labels else None,
    )
    questions = kind_of("omgm.questions", "parts" if front else "texts")
    retriever.mixed = questions(retriever, reranker, profile.sections.beta, profile.search.k)
    return retriever


def _warn_of_borders(profile: Profile, folder: Path, index: Index) -> None:
    inputs = index.manifest.inputs
    if profile.search.trim_borders and inputs.image_keys > 1 and inputs.borders != RULE:
        reason = (
            "was built without keys of its images within their borders, so things on a plain ground may be declined"
        )
        logger.warning("%s: %s; build it again: omgm build-index %s --overwrite", folder, reason, profile.options)


def warn_of_pair(profile: Profile) -> None:
    """Warns if alpha and beta were chosen for another score mode: `sim_m` has another scale there."""
    fusion = profile.fusion
    if fusion.tuned_for not in ("", fusion.score_mode):
        logger.warning(
            "profile %s: fusion.alpha = %g and sections.beta = %g were chosen for fusion.score_mode = %s, not for %s, "
            "which weighs step 2 differently; choose them on a validation split with `omgm sweep`, or convert them "
            "(docs/models.md), and set fusion.tuned_for=%s",
            profile.name,
            fusion.alpha,
            profile.sections.beta,
            fusion.tuned_for,
            fusion.score_mode,
            fusion.score_mode,
        )


def _build_reranker(profile: Profile, folder: Path) -> TextReranker:
    """Returns step 3's model; words alone are compared if it needs vectors of sections, and the index has none."""
    if not parts.has_section_encoder(profile) or has_section_vectors(folder):
        return parts.build_text_reranker(profile)
    logger.warning(
        "%s: was built without vectors of sections, so step 3 compares words only; to compare meanings, build it "
        "again: omgm build-index %s --overwrite",
        folder,
        profile.options,
    )
    return parts.build_text_reranker(profile, "bm25")


def _image_columns(profile: Profile, folder: Path) -> dict[str, ColumnModel]:
    """Returns the models of the index's columns `image_text` and `keypoints`, if the profile uses them."""
    wanted = {"image_text": profile.search.words, "keypoints": profile.search.keypoints}
    stored = read_manifest(current_files(folder)).inputs.columns
    if missing := [name for name, is_wanted in wanted.items() if is_wanted and name not in stored]:
        logger.warning(
            "%s: was built without the %s of its images, so queries' are not compared; to recognize things by labels "
            "and from another angle, build it again, which only adds this: omgm build-index %s --overwrite",
            folder,
            " and the ".join(name.replace("_", " ") for name in missing),
            profile.options,
        )
    return parts.build_columns(profile, [name for name, is_wanted in wanted.items() if is_wanted and name in stored])


def has_section_vectors(folder: Path) -> bool:
    """Returns whether an index has vectors of sections.

    Raises:
        ValueError: The index is missing or damaged.
    """
    return "sections" in read_manifest(current_files(folder)).inputs.columns


def index_options(
    profile: Profile, encoder: DualEncoder, fusion: FusionEncoder, columns: Mapping[str, ColumnModel]
) -> OpenOptions:
    """Returns how to open an index: for which models, where, and with which search."""
    device, search = parts.placement(profile)[0], profile.search
    return OpenOptions(
        encoder=encoder,
        fusion=fusion,
        columns=columns,
        device=device,
        image_weight=search.image_weight,
        gpu_search=search.gpu,
    )
