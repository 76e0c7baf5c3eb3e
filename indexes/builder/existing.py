"""Checks whether the index already in a folder is the one that a build would produce."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from itertools import tee

from indexes.article_images import MAIN_ONLY
from indexes.builder.claim import UNKNOWN, check_inputs
from indexes.builder.plan import BuildPlan
from indexes.image_source import ImageSource, find_main
from indexes.lines import Articles
from indexes.store.generations import current_files
from indexes.store.index import Index
from indexes.store.manifest import MANIFEST, Inputs, read_manifest
from retriever.digests import digests_of
from retriever.files import as_line

logger = logging.getLogger(__name__)


def existing_index(plan: BuildPlan, inputs: Inputs) -> Index | None:
    """Returns the index in the folder of a build, or `None` if there is none or it should be replaced.

    With `overwrite`, an index that differs only in the kind of its entity index or in the models of its columns is
    returned, too: only that part must be rebuilt.

    Raises:
        ValueError: The index is damaged or was built from other inputs, and `overwrite` is off.
    """
    out, overwrite, weight = plan.out, plan.overwrite, plan.design.image_weight
    try:
        folder = current_files(out)
        if not (folder / MANIFEST).exists():
            return None
        found = read_manifest(folder).inputs
        if overwrite:
            inputs = inputs.model_copy(update={"search": UNKNOWN, "columns": found.columns})
        check_inputs(found, inputs, f"{out} is an index", overwrite)
        index = Index.open_files(
            folder, encoder=plan.encoder, fusion=plan.fusion, image_weight=weight, verify=overwrite
        )
        if not index.manifest.changes:
            articles = Articles(folder / "entities.jsonl")  # same as in the knowledge base, since the inputs are equal
            check_inputs(found, with_images(inputs, articles, plan.source), f"{out} is an index", overwrite)
    except ValueError as error:
        if not overwrite:
            raise
        logger.warning("rebuilding: %s", error)
        return None
    return index


def with_images(inputs: Inputs, articles: Articles, source: ImageSource | None) -> Inputs:
    """Returns the inputs with a hash over the images of each entity: their names and contents."""

    def names() -> Iterator[str | None]:
        for entity in articles:
            yield None if source is None else find_main(source, entity)
            if source is not None and inputs.image_use != MAIN_ONLY:
                yield from (source.find(image.url) for image in entity.images)
            yield None

    digest = hashlib.sha256()
    named, read = tee(names())
    contents = digests_of(None if source is None or name is None else source.content(name) for name in read)
    for name, content in zip(named, contents, strict=True):
        digest.update(as_line([name, content.hex()]))
    return inputs.model_copy(update={"pictures": digest.hexdigest()})
