"""Adds articles to an index and removes them: computes what a build would store, and logs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.article_images import (
    FurtherImages,
    ImageUse,
    MainImage,
    choose_further,
    keys_with_tokens,
)
from indexes.builder.chat_summarizer import ChatSummarizer
from indexes.builder.grounds import border_finder, has_no_ground, is_bordered
from indexes.builder.image_stage import FURTHER_KEYS, MAIN_KEYS, SCALES, TOKENS, EntityImages, encode_images
from indexes.builder.key_stage import candidate_text
from indexes.builder.stages import finite, section_texts
from indexes.image_source import thumbnail
from indexes.knowledge.sections import title_rule, without_lists
from indexes.live.articles import Article, called_as_indexed, own_row, unlabeled
from indexes.live.changes import Addition, Removal
from indexes.live.index import LiveIndex
from indexes.live.pictures import main_part, new_pictures, with_staying
from indexes.store.columns import ColumnModel, Encoded, Stored, columns_of
from indexes.store.manifest import keys_are_images
from indexes.store.tokens import HostTokens
from retriever.borders import trim
from retriever.filters import SCOPE
from retriever.protocols import DualEncoder, FusionEncoder, Summarizer
from retriever.types import LABELED, Entity, FloatArray


class Editor:
    """Changes an index. Thread-safe.

    Args:
        index: The index, open for writing.
        summarizer: Creates the summarizer, which must be the one that the index was built with; called for the first
            article. One thread at a time uses it.
        encoder: Step 1's model, with which `index` was opened.
        fusion: Step 2's model, with which `index` was opened; `None` for an index without tokens.
        models: A lock to hold while the models run, if other code uses them, too.
        compact_after: Number of changes after which the index is compacted in the background; 0 leaves compaction to
            the caller.
        columns: The models of the index's columns, with which `index` was opened.

    Raises:
        ValueError: The index has a column without a model.
    """

    def __init__(
        self,
        index: LiveIndex,
        summarizer: Callable[[], Summarizer],
        encoder: DualEncoder,
        fusion: FusionEncoder | None,
        models: AbstractContextManager[Any] | None = None,
        compact_after: int = 0,
        columns: Mapping[str, ColumnModel] | None = None,
    ) -> None:
        self.index, self.encoder, self.fusion, self.columns = index, encoder, fusion, columns or {}
        if lacking := sorted(index.manifest.inputs.columns.keys() - self.columns.keys()):
            raise ValueError(
                f"{index.root}: has the column {lacking[0]!r}, which this profile cannot compute; use the profile it "
                "was built with" + (", or pass --set sections.kind=hybrid" if lacking == ["sections"] else "")
            )
        self.models: AbstractContextManager[Any] = nullcontext() if models is None else models
        self.compact_after = compact_after
        self._make_summarizer = summarizer
        self._summarizer: Summarizer | None = None
        self._summarizing = threading.Lock()
        self._dropped = title_rule(index.manifest.inputs.drop_sections)

    @property
    def image_use(self) -> ImageUse:
        """Which images of an article the index uses."""
        return self.index.manifest.inputs.image_use

    def put(self, articles: Sequence[Article]) -> None:
        """Adds articles, or replaces those with the same ids; on return, they are on disk and searchable.

        An entity keeps its labeled images, which are not part of its article.

        Raises:
            KeyError: An entity is one that the caller may not see; none is changed.
            ValueError: The index is closed, or was built with another summarizer.
            OSError: The articles could not be written; none of them is added.
        """
        called = [called_as_indexed(one.entity, self.index) for one in articles]
        pairs = zip(articles, called, strict=True)
        articles = [one._replace(entity=without_lists(entity, self._dropped)) for one, entity in pairs]
        self.index.apply(self._additions(articles), SCOPE.get())
        self.index.compact_when_due(self.compact_after)

    def remove(self, ids: Sequence[str]) -> None:
        """Removes entities; on return, the removal is on disk and they are no longer found.

        Raises:
            KeyError: One of them is not in the index, or the caller may not see it; none is removed.
            ValueError: The index is closed.
            OSError: The removal could not be written; none is removed.
        """
        rows = [(entity_id, self.index.row_of(entity_id)) for entity_id in ids]
        for entity_id, row in rows:
            if row is None:
                raise KeyError(entity_id)
        self.index.apply([Removal(self.index.entity(row).id) for _, row in rows if row is not None], SCOPE.get())
        self.index.compact_when_due(self.compact_after)

    def holds(self, article: Article) -> bool:
        """Returns whether the index has exactly this article, judged by its text and the thumbnail of its main image.

        New content of a further image at the same URL goes unnoticed. Labeled images are not part of an article.
        """
        row = self.index.row_of(article.entity.id)
        if row is None:
            return False
        if unlabeled(self.index.entity(row)) != without_lists(article.entity, self._dropped):
            return False
        if article.image is None and self.index.main_is_labeled(row):
            return True
        path = self.index.image_path(row)
        return _small(article) == (b"" if path is None else path.read_bytes())

    def close(self) -> None:
        """Lets other processes change the index (see `LiveIndex.close`) and closes the summarizer's connections."""
        self.index.close()
        if not self._summarizing.acquire(blocking=False):  # still in use; the connections end with the process
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
                    f"{self.index.root}: its summaries are by {built_with!r}, but this profile has {made!r}; use the "
                    "profile it was built with"
                )
            return list(self._summarizer.stream(entities))

    def _additions(self, articles: Sequence[Article]) -> list[Addition]:
        labeled = [self._labeled(one.entity) for one in articles]
        articles = [one._replace(entity=entity) for one, (entity, *_) in zip(articles, labeled, strict=True)]
        items = [self._images_of(one) for one in articles]
        summaries = self._summaries([one.entity for one in articles])
        manifest = self.index.manifest
        encoder = self.encoder if keys_are_images(manifest.inputs.candidates) else None
        with self.models:
            texts = self._text_keys(articles, summaries)
            parts = encode_images(items, manifest.inputs.codec, encoder, self.fusion)
            of_columns = self._columns(articles, items)
        (_, *shape), codec = manifest.stored_shape, manifest.inputs.codec
        none = HostTokens(
            np.empty((0, *shape), codec.dtype), np.empty((0, shape[0] if codec.scaled else 0), np.float16)
        )
        additions, further, sections = list[Addition](), 0, 0
        for row, (article, item, summary) in enumerate(zip(articles, items, summaries, strict=True)):
            _, kept, kept_tokens = labeled[row]
            number = own_row(self.index, article.entity.id) if article.stay or article.kept else None
            old = None if number is None else self.index.stored(number)
            main, vectors = parts.get(MAIN_KEYS, kept)[row : row + 1], kept[:0]
            if old is not None and article.kept:
                main = old.keys[:1, : self.encoder.dimension]
            if MAIN_KEYS in parts and item.main.readable and (old is None or not article.whole):
                more = slice(further, further := further + len(item.further.keys))
                vectors = np.concatenate([main, parts[FURTHER_KEYS][more]])
            tokens, shown = [none], len(item.shown)
            if TOKENS in parts and (made := len(item.texts) + len(item.shown)):
                own = slice(sections, sections := sections + made)
                tokens.append(HostTokens(parts[TOKENS][own], parts[SCALES][own] if codec.scaled else none.scales))
            if old is not None and article.stay:
                old_keys, old_tokens = self._staying(old, article, self.image_use.keys - len(vectors))
                vectors, shown = np.concatenate([vectors, old_keys]), shown + len(old_tokens.values)
                tokens.append(old_tokens)
            if len(kept_tokens.values):
                tokens.append(kept_tokens)
            keys = self._keys(np.concatenate([vectors, kept]), texts[row : row + 1])
            about = article.entity, summary, article.main, item.small or b""
            counts = len(kept), len(kept_tokens.values), shown
            stored = HostTokens(*map(np.concatenate, zip(*tokens, strict=True)))
            additions.append(Addition(*about, keys, *stored, *counts, of_columns[row]))
        return additions

    def _staying(self, old: Addition, article: Article, most: int) -> tuple[NDArray[Any], HostTokens]:
        """Returns the image keys of an entity that stay, tokens and scales: at most `most` if its main image goes.

        The main image's keys within its border and on other grounds go with it; the latter has no tokens.
        """
        keys = old.keys[: len(old.keys) - old.labeled, : self.encoder.dimension]
        own = slice(old.token_sections, old.token_sections + old.image_tokens)
        tokens, scales = old.tokens[own], old.scales[own]
        if article.whole:
            return keys, HostTokens(tokens, scales)
        has_border = self.image_use.within and old.thumbnail and is_bordered(old.thumbnail)
        main = 2 if has_border else 1
        count = max(min(most, (len(keys) if self.fusion is None else len(tokens)) - main), 0)
        first = len(tokens) - count if len(tokens) else 0
        return keys[len(keys) - count :], HostTokens(tokens[first:], scales[first:])

    def _columns(self, articles: Sequence[Article], items: Sequence[EntityImages]) -> list[dict[str, Encoded]]:
        """Returns the rows of each entity in each column of the index."""
        every, pairs = columns_of(self.index.manifest), list(zip(articles, items, strict=True))
        stored = [Stored(one.entity, item.small or b"", new_pictures(one, item), main_part(one)) for one, item in pairs]
        encoded = {column.name: column.encode(self.columns[column.name], stored) for column in every}
        for column in every:
            if column.of == "pictures":
                rows = zip(encoded[column.name], articles, strict=True)
                encoded[column.name] = [with_staying(own, column, one, self.index) for own, one in rows]
        return [{name: rows[number] for name, rows in encoded.items()} for number in range(len(items))]

    def _labeled(self, entity: Entity) -> tuple[Entity, NDArray[Any], HostTokens]:
        """Returns an article with the labeled images of the one that it replaces, their vectors [n, D] and tokens."""
        none = np.empty((0, self.encoder.dimension), np.float32)
        untold = HostTokens(np.empty(0, np.uint8), np.empty(0, np.float16))
        if not self.image_use.labeled:
            return entity, none, untold
        with self.index.pinned():
            row = self.index.row_of(entity.id)
            if row is None or self.index.entity(row).id != entity.id:
                return entity, none, untold
            old = self.index.stored(row)
        keys, first = old.keys[len(old.keys) - old.labeled :], len(old.tokens) - old.labeled_tokens
        own = (image for image in entity.images if not image.url.startswith(LABELED))
        labeled = (image for image in old.entity.images if image.url.startswith(LABELED))
        tokens = HostTokens(old.tokens[first:], old.scales[first:])
        return replace(entity, images=(*own, *labeled)), keys[:, : self.encoder.dimension], tokens

    def _images_of(self, article: Article) -> EntityImages:
        """Returns the images of an article as a build reads them."""
        if article.image is None:
            return EntityImages(article.main)
        use, name = self.image_use, str(article.main.path)
        further, small, images = FurtherImages(), _small(article), {name: article.image, **article.further}
        if not article.whole:
            groundless = has_no_ground(trim(article.image) if use.within else article.image)
            has_border = border_finder(images, name, small)
            further = choose_further(article.entity, article.main, use, article.names.get, groundless, has_border)
        return EntityImages(
            MainImage(name),
            small,
            further,
            texts=section_texts(article.entity) if self.fusion is not None else (),
            shown=keys_with_tokens(name, further.keys, use) if self.fusion is not None and not article.whole else (),
            images=images,
        )

    def _text_keys(self, articles: Sequence[Article], summaries: Sequence[str]) -> NDArray[Any]:
        """Returns the vector of each article's text, float32 [articles, dimension], if texts are keys."""
        candidates = self.index.manifest.inputs.candidates
        if candidates == "image":
            return np.empty((len(articles), self.encoder.dimension), np.float32)
        pairs = zip(articles, summaries, strict=True)
        read = [candidate_text(article.entity, summary, candidates) for article, summary in pairs]
        return finite(self.encoder.encode_texts(read))

    def _keys(self, images: NDArray[Any], text: NDArray[Any]) -> FloatArray:
        """Returns the keys of an entity, float32 [keys, length of a key]; see `write_keys`."""
        candidates = self.index.manifest.inputs.candidates
        if candidates == "combined":
            images = images if len(images) else text
            images = np.concatenate([images, np.broadcast_to(text, images.shape)], axis=1)
        keys = images if keys_are_images(candidates) else text
        return keys.astype(np.float16).astype(np.float32)  # rounded as in the files


def _small(article: Article) -> bytes:
    """Returns the thumbnail of an article's main image, empty without one."""
    return b"" if article.image is None else article.kept or thumbnail(article.image)
