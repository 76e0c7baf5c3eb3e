"""Puts articles into an index and takes them out: asks the models for what a build would store, and logs it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from indexes.images import thumbnail
from indexes.keys import candidate_text
from indexes.live.changes import Addition, Removal
from indexes.live.index import LiveIndex
from indexes.sections import title_rule, without_lists
from indexes.sources import ImageSource, find_main
from indexes.stages import MainImage, finite, section_texts
from indexes.summarizers import Summarizer
from retriever.codecs import encode_tokens
from retriever.images import ImageError
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.types import Entity, FloatArray

logger = logging.getLogger(__name__)


class Article(NamedTuple):
    """An article with its main image, if it has one that can be read."""

    entity: Entity
    main: MainImage = MainImage()
    image: Image.Image | None = None


class Editor:
    """Changes an index. Any number of threads may use it.

    Args:
        index: Open for writing.
        summarizer: Makes the summarizer, which must be the one that the index was built with; called once, when the
            first article comes.
        encoder: Step 1's model, which `index` was opened with.
        fusion: Step 2's model, which `index` was opened with; `None` for an index without tokens.
        models: Held while the models run, if others use them, too.
        compact_after: After so many changed entities, the index is compacted in the background; 0 leaves that to the
            caller.
    """

    def __init__(
        self,
        index: LiveIndex,
        summarizer: Callable[[], Summarizer],
        encoder: DualEncoder,
        fusion: FusionEncoder | None,
        models: AbstractContextManager[Any] | None = None,
        compact_after: int = 0,
    ) -> None:
        self.index, self.encoder, self.fusion = index, encoder, fusion
        self.models: AbstractContextManager[Any] = nullcontext() if models is None else models
        self.compact_after, self._failed_at = compact_after, 0
        self._make_summarizer = summarizer
        self._dropped = title_rule(index.manifest.inputs.drop_sections)
        self._compacting = threading.Lock()

    def put(self, articles: Sequence[Article]) -> None:
        """Adds articles, or replaces those of the same ids; when it returns, they are on disk and found.

        Raises:
            ValueError: The index is closed, or was built with another summarizer.
            OSError: They could not be written; none of them is added.
        """
        articles = [one._replace(entity=without_lists(one.entity, self._dropped)) for one in articles]
        self.index.apply(self._additions(articles))
        self._compact_when_due()

    def remove(self, ids: Sequence[str]) -> None:
        """Removes entities; when it returns, that is on disk and they are no longer found.

        Raises:
            KeyError: The index does not hold one of them; none is removed.
            ValueError: The index is closed.
            OSError: It could not be written; none is removed.
        """
        rows = [(entity_id, self.index.row_of(entity_id)) for entity_id in ids]
        for entity_id, row in rows:
            if row is None:
                raise KeyError(entity_id)
        self.index.apply([Removal(self.index.entity(row).id) for _, row in rows if row is not None])
        self._compact_when_due()

    def holds(self, article: Article) -> bool:
        """Returns whether the index has an article as it is, judged by its text and the thumbnail of its main image."""
        row = self.index.row_of(article.entity.id)
        if row is None or self.index.entity(row) != without_lists(article.entity, self._dropped):
            return False
        path = self.index.image_path(row)
        small = None if article.image is None else thumbnail(article.image)
        return small == (None if path is None else path.read_bytes())

    @cached_property
    def _summarizer(self) -> Summarizer:
        summarizer, built_with = self._make_summarizer(), self.index.manifest.inputs.summarizer
        if summarizer.name != built_with:
            raise ValueError(
                f"{self.index.root}: its summaries are by {built_with!r}, and this profile has {summarizer.name!r}; "
                "use the profile it was built with"
            )
        return summarizer

    def _additions(self, articles: Sequence[Article]) -> list[Addition]:
        entities, images = [one.entity for one in articles], [one.image for one in articles]
        summaries = self._summarizer.summarize(entities)
        thumbnails = [b"" if image is None else thumbnail(image) for image in images]
        with self.models:
            keys = self._keys(entities, summaries, images)
            tokens = self._tokens(entities, images)
        return [
            Addition(article.entity, summary, article.main, small, key, *stored)
            for article, summary, small, key, stored in zip(articles, summaries, thumbnails, keys, tokens, strict=True)
        ]

    def _keys(
        self, entities: Sequence[Entity], summaries: Sequence[str], images: Sequence[Image.Image | None]
    ) -> list[FloatArray]:
        """Returns the keys of each entity, float32 [0 or 1, length of a key]; see `write_keys`."""
        candidates, parts = self.index.manifest.inputs.candidates, list[NDArray[Any]]()
        texts = np.empty((len(entities), self.encoder.dimension), np.float32)
        if candidates != "image":
            read = [candidate_text(*one, candidates) for one in zip(entities, summaries, strict=True)]
            texts = finite(self.encoder.encode_texts(read), "encoder")
        if candidates in ("image", "combined"):
            shown = [row for row, image in enumerate(images) if image is not None]
            vectors = texts.copy()
            if shown:
                vectors[shown] = finite(self.encoder.encode_images([i for i in images if i is not None]), "encoder")
            parts.append(vectors)
        if candidates != "image":
            parts.append(texts)
        keys = np.concatenate(parts, axis=1).astype(np.float16).astype(np.float32)  # as files have them
        hidden = [candidates == "image" and image is None for image in images]
        return [keys[row : row if hidden[row] else row + 1] for row in range(len(entities))]

    def _tokens(
        self, entities: Sequence[Entity], images: Sequence[Image.Image | None]
    ) -> list[tuple[NDArray[Any], NDArray[np.float16]]]:
        """Returns the section tokens of each entity with their scales; see `store_tokens`."""
        manifest = self.index.manifest
        codec, shape = manifest.inputs.codec, manifest.stored_shape[1:]
        unscaled = np.empty((0, shape[0]) if codec.scaled else (0, 0), np.float16)
        stored: list[tuple[NDArray[Any], NDArray[np.float16]]]
        stored = [(np.empty((0, *shape), codec.dtype), unscaled) for _ in entities]
        shown = [
            (row, image)
            for row, image in enumerate(images)
            if self.fusion is not None and image is not None and entities[row].sections
        ]
        if not shown or self.fusion is None:
            return stored
        texts = [section_texts(entities[row]) for row, _ in shown]
        tokens = self.fusion.encode_sections([image for _, image in shown], texts)
        encoded = encode_tokens(functional.normalize(tokens.detach().float(), dim=-1), codec)
        values = encoded.values.cpu().numpy()
        scales = unscaled if encoded.scales is None else encoded.scales.cpu().numpy()
        start = 0
        for (row, _), own in zip(shown, texts, strict=True):
            part = slice(start, start + len(own))
            stored[row] = values[part], scales[part] if codec.scaled else unscaled
            start += len(own)
        return stored

    def _compact_when_due(self) -> None:
        due = self.compact_after and self.index.changes >= self._failed_at + self.compact_after
        if due and self._compacting.acquire(blocking=False):
            threading.Thread(target=self._compact, name="compact the index").start()

    def _compact(self) -> None:
        try:
            self.index.compact()
            self._failed_at = 0
        except Exception:  # the index answers and changes as before
            self._failed_at = self.index.changes
            logger.exception("%s: could not be compacted; tried again later", self.index.root)
        finally:
            self._compacting.release()


def article_of(entity: Entity, source: ImageSource | None) -> Article:
    """Returns an entity with its main image, found and read as a build does it."""
    if entity.image is None or source is None:
        return Article(entity)
    name = find_main(source, entity)
    if name is None:
        return Article(entity, MainImage(None, "missing", source.missing))
    try:
        return Article(entity, MainImage(name), source.load(name))
    except ImageError as error:
        return Article(entity, MainImage(name, "unreadable", error.reason))
