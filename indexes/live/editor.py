"""Puts articles into an index and takes them out: asks the models for what a build would store, and logs it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from indexes.article_images import LABELED, MAIN_ONLY, FurtherImages, ImageUse
from indexes.chat_summarizer import ChatSummarizer
from indexes.further_images import choose_further
from indexes.grounds import has_no_ground, key_vectors
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
    """An article with its main image, if it has one that can be read.

    Attributes:
        entity: The article.
        main: Its main image as a build's report names it.
        image: The main image.
        names: The names of its further images, as far as they can be read, by their URLs.
        further: These images by their names.
    """

    entity: Entity
    main: MainImage = MainImage()
    image: Image.Image | None = None
    names: Mapping[str, str] = {}
    further: Mapping[str, Image.Image] = {}


class Editor:
    """Changes an index. Any number of threads may use it.

    Args:
        index: Open for writing.
        summarizer: Makes the summarizer, which must be the one that the index was built with; called when the first
            article comes. One thread at a time uses it.
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
        self._summarizer: Summarizer | None = None
        self._summarizing = threading.Lock()
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
        """Returns whether the index has an article as it is, judged by its text and the thumbnail of its main image.

        New content of a further image under the same URL is not noticed. Labeled images are no part of an article.
        """
        row = self.index.row_of(article.entity.id)
        if row is None:
            return False
        entity = self.index.entity(row)
        unlabeled = tuple(image for image in entity.images if not image.url.startswith(LABELED))
        if replace(entity, images=unlabeled) != without_lists(article.entity, self._dropped):
            return False
        path = self.index.image_path(row)
        small = None if article.image is None else thumbnail(article.image)
        return small == (None if path is None else path.read_bytes())

    def close(self) -> None:
        """Lets other processes change the index, see `LiveIndex.close`, and closes the summarizer's connections."""
        self.index.close()
        if not self._summarizing.acquire(blocking=False):  # they end with the process that waits for a summary
            return
        try:
            if isinstance(self._summarizer, ChatSummarizer):
                self._summarizer.close()
            self._summarizer = None
        finally:
            self._summarizing.release()

    def _summaries(self, entities: Sequence[Entity]) -> list[str]:
        with self._summarizing:
            if self._summarizer is None:
                self._summarizer = self._make_summarizer()
            made, built_with = self._summarizer.name, self.index.manifest.inputs.summarizer
            if made != built_with:
                raise ValueError(
                    f"{self.index.root}: its summaries are by {built_with!r}, and this profile has {made!r}; use the "
                    "profile it was built with"
                )
            return self._summarizer.summarize(entities)

    def _additions(self, articles: Sequence[Article]) -> list[Addition]:
        use = self.index.manifest.inputs.image_use
        further = [
            choose_further(one.entity, one.main, use, one.names.get, one.image is not None and has_no_ground(one.image))
            for one in articles
        ]
        summaries = self._summaries([one.entity for one in articles])
        thumbnails = [b"" if one.image is None else thumbnail(one.image) for one in articles]
        with self.models:
            keys = self._keys(articles, summaries, further)
            tokens = self._tokens(articles, further)
        return [
            Addition(article.entity, summary, article.main, small, key, *stored)
            for article, summary, small, key, stored in zip(articles, summaries, thumbnails, keys, tokens, strict=True)
        ]

    def _keys(
        self, articles: Sequence[Article], summaries: Sequence[str], further: Sequence[FurtherImages]
    ) -> list[FloatArray]:
        """Returns the keys of each entity, float32 [keys, length of a key]; see `write_keys`."""
        candidates = self.index.manifest.inputs.candidates
        texts = np.empty((len(articles), self.encoder.dimension), np.float32)
        if candidates != "image":
            pairs = zip(articles, summaries, strict=True)
            read = [candidate_text(article.entity, summary, candidates) for article, summary in pairs]
            texts = finite(self.encoder.encode_texts(read), "encoder")
        by_image = candidates in ("image", "combined")
        names = list[tuple[str, ...]]()
        images = list[Mapping[str, Image.Image]]()
        for one, more in zip(articles, further, strict=True):
            shown = one.image is not None and by_image
            names.append((str(one.main.path), *more.keys) if shown else ())
            images.append(one.further if one.image is None else {str(one.main.path): one.image, **one.further})
        vectors = key_vectors(self.encoder, names, images)
        keys, start = list[FloatArray](), 0
        for text, own in zip(texts[:, None], names, strict=True):
            found = vectors[start : start + len(own)]
            start += len(found)
            if candidates == "combined":
                found = found if len(found) else text
                found = np.concatenate([found, np.broadcast_to(text, found.shape)], axis=1)
            elif candidates != "image":
                found = text
            keys.append(found.astype(np.float16).astype(np.float32))  # as files have them
        return keys

    def _tokens(
        self, articles: Sequence[Article], further: Sequence[FurtherImages]
    ) -> list[tuple[NDArray[Any], NDArray[np.float16]]]:
        """Returns the section tokens of each entity with their scales; see `store_tokens`."""
        manifest = self.index.manifest
        codec, shape = manifest.inputs.codec, manifest.stored_shape[1:]
        unscaled = np.empty((0, shape[0]) if codec.scaled else (0, 0), np.float16)
        stored: list[tuple[NDArray[Any], NDArray[np.float16]]]
        stored = [(np.empty((0, *shape), codec.dtype), unscaled) for _ in articles]
        images, texts, places, parts = list[Image.Image](), list[list[str]](), list[int](), dict[int, slice]()
        for row, article in enumerate(articles):
            own = section_texts(article.entity)
            if self.fusion is None or article.image is None or not own:
                continue
            parts[row] = slice(len(places), len(places) + len(own))
            for name, positions in further[row].of_sections("", len(own)).items():
                images.append(article.further[name] if name else article.image)
                texts.append([own[position] for position in positions])
                places += [parts[row].start + position for position in positions]
        if not images or self.fusion is None:
            return stored
        tokens = self.fusion.encode_sections(images, texts)
        tokens = tokens[torch.from_numpy(np.argsort(places)).to(tokens.device)]
        encoded = encode_tokens(functional.normalize(tokens.detach().float(), dim=-1), codec)
        values = encoded.values.cpu().numpy()
        scales = unscaled if encoded.scales is None else encoded.scales.cpu().numpy()
        for row, part in parts.items():
            stored[row] = values[part], scales[part] if codec.scaled else unscaled
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


def article_of(entity: Entity, source: ImageSource | None, use: ImageUse = MAIN_ONLY) -> Article:
    """Returns an entity with the images that are used, found and read as a build does it."""
    if entity.image is None or source is None:
        return Article(entity)
    name = find_main(source, entity)
    if name is None:
        return Article(entity, MainImage(None, "missing", source.missing))
    try:
        image = source.load(name)
    except ImageError as error:
        return Article(entity, MainImage(name, "unreadable", error.reason))
    names, further = dict[str, str](), dict[str, Image.Image]()

    def usable(url: str) -> str | None:
        found = source.find(url)
        if found is None:
            return None
        if found != name and found not in further:
            try:
                further[found] = source.load(found)
            except ImageError as error:
                logger.warning("%r: image %s left out: %s", entity.id, found, error.reason)
                return None
        names[url] = found
        return found

    choose_further(entity, MainImage(name), use, usable)
    return Article(entity, MainImage(name), image, names, further)
