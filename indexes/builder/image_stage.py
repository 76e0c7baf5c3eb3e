"""The build stage that needs images; decodes each image once for its thumbnail, its keys and the section tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from indexes.article_images import (
    GROUNDS,
    WITHIN,
    FurtherImages,
    ImageUse,
    MainImage,
    choose_further,
    is_labeled,
    keys_with_tokens,
)
from indexes.builder.grounds import border_finder, has_no_ground, key_vectors, on_grounds, section_tokens
from indexes.builder.image_records import IMAGES, ImageRecord, ImageRecords, read_records
from indexes.builder.stages import BuildRun, section_texts
from indexes.growing import GrowingLines, GrowingRows, save_array
from indexes.image_source import ImageSource, find_main, main_candidates, thumbnail, why_missing
from indexes.lines import Articles, save_offsets
from indexes.store.layout import THUMBNAILS
from indexes.store.manifest import keys_are_images
from indexes.workers import ModelName, in_batches
from retriever.borders import trim
from retriever.codecs import encode_tokens
from retriever.files import naming
from retriever.gpu import to_device
from retriever.images import ImageError
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.token_codec import TokenCodec
from retriever.types import Entity, IntArray

logger = logging.getLogger(__name__)

MAIN_KEYS, FURTHER_KEYS, TOKENS, SCALES = "image_keys.npy", "further_keys.npy", "tokens.npy", "token_scales.npy"

Parts = dict[str, NDArray[Any]]
"""Rows for each of the files above."""


class EntityImages(NamedTuple):
    """The images of an entity, and the texts that they are fused with.

    Attributes:
        main: The main image.
        small: The thumbnail, or `None` if there is no main image.
        further: The further images.
        problems: Images that cannot be read, each with the reason.
        texts: The texts of its sections for the fusion encoder; empty if it gets no tokens.
        shown: The names of the keys that get their own tokens, fused without text; see `keys_with_tokens`.
        images: The decoded images by name, if a model needs them.
    """

    main: MainImage = MainImage()
    small: bytes | None = None
    further: FurtherImages = FurtherImages()
    problems: Sequence[str] = ()
    texts: Sequence[str] = ()
    shown: Sequence[str] = ()
    images: Mapping[str, Image.Image] = {}


def store_images(run: BuildRun, articles: Articles, source: ImageSource | None) -> tuple[ImageRecords, IntArray]:
    """Returns the record of each entity's images, and the offsets of each entity's tokens, int64 [N + 1].

    Each readable main image gets a thumbnail, `images/<row>.jpg`; `images.jsonl` records which images are used and what
    is wrong with the others. `image_keys.npy` has a row per entity (zeros without a readable main image) and
    `further_keys.npy` a row per further image that is a key. `tokens.npy` and `token_scales.npy` have, for each entity,
    the tokens of its sections and then of its keys with their own tokens, stored with `codec`. Sections have tokens if
    there is a readable main image and a fusion encoder.
    """
    folder, codec, path, shapes = run.folder, run.codec, run.folder / IMAGES, _shapes(run)
    (folder / THUMBNAILS).mkdir(exist_ok=True)
    of_models: dict[ModelName, str] = {"encoder": MAIN_KEYS, "fusion": TOKENS}
    models = [name for name, file in of_models.items() if file in shapes]
    make = partial(ReadImages, folder, source, run.use, codec)
    run = replace(run, batch=max(1, run.batch // run.use.keys))  # as many images in memory as with one per entity
    with ExitStack() as stack:
        lines = stack.enter_context(GrowingLines(path, run.batch, len(articles)))
        files = {name: stack.enter_context(GrowingRows(folder / name, *row)) for name, row in shapes.items()}
        _resume(path, lines, files)
        left = range(lines.done, len(articles))
        results = stack.enter_context(closing(in_batches("images", run.workers, make, models, left, run.batch)))
        for rows, (read, parts) in results:
            _write_thumbnails(folder / THUMBNAILS, rows, read)
            for name, file in files.items():
                file.append(parts[name])
            lines.append(_record(one) for one in read)  # last, when everything that it counts is on disk
        for file in files.values():
            file.finish()
    for name in {TOKENS, SCALES} - files.keys():
        shape = codec.stored_shape((0, 0)) if name == TOKENS else (0,)
        save_array(folder / name, np.empty((0, *shape), codec.dtype if name == TOKENS else np.float16))
    save_offsets(path)
    records = ImageRecords(folder)
    problems = list(records.unreadable())
    if problems:
        logger.warning("left out %d unreadable further images (first: %s)", len(problems), problems[0])
    tokens = np.fromiter((record.tokens for record in records), np.int64, len(articles))
    offsets: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(tokens)])
    save_array(folder / "token_offsets.npy", offsets)
    return records, offsets


def _shapes(run: BuildRun) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Returns the shape and dtype of a row of each file that the stage fills."""
    shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    if keys_are_images(run.candidates):
        shapes = dict.fromkeys((MAIN_KEYS, FURTHER_KEYS), ((run.workers.encoder.dimension,), np.dtype(np.float16)))
    if run.workers.fusion is not None:
        stored = run.codec.stored_shape(run.workers.fusion.token_shape)
        shapes[TOKENS] = stored, np.dtype(run.codec.dtype)
        if run.codec.scaled:
            shapes[SCALES] = stored[:1], np.dtype(np.float16)
    return shapes


def _write_thumbnails(folder: Path, rows: Sequence[int], read: Sequence[EntityImages]) -> None:
    for row, one in zip(rows, read, strict=True):
        if one.small is not None:
            path = folder / f"{row}.jpg"
            with naming(path):
                path.write_bytes(one.small)


def _record(one: EntityImages) -> ImageRecord:
    rows, own = len(one.texts) + len(one.shown), sum(not is_labeled(name) for name in one.shown)
    return ImageRecord(*one.main, one.further.keys, one.further.sections, one.problems, rows, own)


def _resume(path: Path, lines: GrowingLines, files: Mapping[str, GrowingRows]) -> None:
    """Truncates all files to the batches that every one of them contains."""
    keys = tokens = 0
    for record in read_records(path):
        keys += len(record.keys)
        tokens += record.tokens
    counts = {MAIN_KEYS: lines.done, FURTHER_KEYS: keys, TOKENS: tokens, SCALES: tokens}
    if any(file.count < counts[name] for name, file in files.items()):  # a file is missing
        lines.restart()
        counts = dict.fromkeys(counts, 0)
    for name, file in files.items():
        file.cut(counts[name])


def read_images(entity: Entity, source: ImageSource, use: ImageUse, load: Callable[[str], Image.Image]) -> EntityImages:
    """Returns the used images of an entity, each decoded once by `load`."""
    if not any(main_candidates(entity)):
        return EntityImages()
    name = find_main(source, entity)
    if name is None:
        return EntityImages(MainImage(None, "missing", why_missing(source, entity)))
    try:
        images = {name: load(name)}
        small = thumbnail(images[name])
    except ImageError as error:
        return EntityImages(MainImage(name, "unreadable", error.reason))
    problems = dict[str, str]()

    def usable(url: str) -> str | None:
        found = source.find(url)
        if found is not None and found not in images and found not in problems:
            try:
                images[found] = load(found)
            except ImageError as error:
                problems[found] = f"{found}: {error.reason}"
        return found if found in images else None

    groundless = has_no_ground(trim(images[name]) if use.within else images[name])
    further = choose_further(entity, MainImage(name), use, usable, groundless, border_finder(images, name, small))
    return EntityImages(MainImage(name), small, further, list(problems.values()), images=images)


class ReadImages:
    """Reads the images of entities; `encode` returns the entities, without their images, and the rows for each file.

    A section is paired with its own image if that is among the further images, else with the main image. A key with its
    own tokens is fused without text.

    Args:
        folder: The unfinished build, with the articles.
        source: Where the images are.
        use: Which images are used.
        codec: How tokens are stored.
        encoder: Step 1's model, if images are keys.
        fusion: Step 2's model, if there are tokens.
    """

    def __init__(
        self,
        folder: Path,
        source: ImageSource | None,
        use: ImageUse,
        codec: TokenCodec,
        *,
        encoder: DualEncoder | None = None,
        fusion: FusionEncoder | None = None,
    ) -> None:
        self._articles = Articles(folder / "entities.jsonl")
        self._source, self._use = source, use
        self._shared = WeakValueDictionary[str, Image.Image]()  # those of entities that are not encoded yet
        self._codec, self._encoder, self._fusion = codec, encoder, fusion

    def read(self, row: int) -> EntityImages:
        """Reads the images of an entity, decoding each once, and for the entities next to it, too."""
        entity, source = self._articles[row], self._source
        if source is None:
            return EntityImages()

        def load(name: str) -> Image.Image:
            shared = self._shared.get(name)
            return self._shared.setdefault(name, source.load(name)) if shared is None else shared

        read = read_images(entity, source, self._use, load)
        if self._fusion is not None and read.main.readable:
            shown = keys_with_tokens(read.main.path, read.further.keys, self._use)
            read = read._replace(texts=section_texts(entity), shown=shown)
        return read if self._encoder is not None or read.texts or read.shown else read._replace(images={})

    def encode(self, items: Sequence[EntityImages]) -> tuple[list[EntityImages], Parts]:
        """Encodes the images of a batch; returns its entities without their images, and the rows for each file."""
        parts = encode_images(items, self._codec, self._encoder, self._fusion)
        return [one._replace(images={}) for one in items], parts


def encode_images(
    items: Sequence[EntityImages], codec: TokenCodec, encoder: DualEncoder | None, fusion: FusionEncoder | None
) -> Parts:
    """Encodes the images of entities, for builds and live changes alike.

    Args:
        items: The entities.
        codec: How tokens are stored.
        encoder: Step 1's model, if images are keys.
        fusion: Step 2's model, if there are tokens.

    Returns:
        The rows for each file, in the order of `items`.
    """
    parts = {} if encoder is None else _keys(encoder, items)
    return parts if fusion is None else parts | _tokens(fusion, codec, items)


def _keys(encoder: DualEncoder, items: Sequence[EntityImages]) -> Parts:
    shown = [one.main.readable for one in items]
    names = [(str(one.main.path), *one.further.keys) if one.main.readable else () for one in items]
    vectors = key_vectors(encoder, names, [one.images for one in items]).astype(np.float16)
    lengths = [len(own) for own in names if own]
    first = np.cumsum([0, *lengths], dtype=np.int64)[:-1]
    main = np.zeros((len(items), encoder.dimension), np.float16)
    main[shown] = vectors[first]
    return {MAIN_KEYS: main, FURTHER_KEYS: np.delete(vectors, first, axis=0)}


def _tokens(fusion: FusionEncoder, codec: TokenCodec, items: Sequence[EntityImages]) -> Parts:
    # An image that several entities share is encoded once.
    fused, count = dict[tuple[int, bool], tuple[list[Image.Image], list[str], list[int]]](), 0
    for one in items:
        sections = one.further.of_sections(str(one.main.path), len(one.texts))
        paired = [(name, [one.texts[place] for place in own], own) for name, own in sections.items()]
        for place, name in enumerate(one.shown, len(one.texts)):
            paired.append((name.removeprefix(GROUNDS), [""], [place]))  # its tokens do not depend on the article
        for name, own_texts, own in paired:
            image, grounded = one.images[name], f"{GROUNDS}{name}" in one.further.keys
            if (id(image), grounded) not in fused:
                views = on_grounds(one.images.get(f"{WITHIN}{name}", image)) if grounded else ()
                fused[id(image), grounded] = ([image, *views], [], [])
            fused[id(image), grounded][1].extend(own_texts)
            fused[id(image), grounded][2].extend(count + place for place in own)
        count += len(one.texts) + len(one.shown)
    if not fused:
        shape = codec.stored_shape(fusion.token_shape)
        return {TOKENS: np.empty((0, *shape), codec.dtype), SCALES: np.empty((0, shape[0]), np.float16)}
    shown, texts, places = zip(*fused.values(), strict=True)
    tokens = section_tokens(fusion, shown, texts)
    order = np.argsort(np.concatenate(places))
    tokens = tokens[to_device(torch.from_numpy(order), tokens.device)]
    encoded = encode_tokens(tokens, codec)
    parts = {TOKENS: encoded.values.cpu().numpy()}
    return parts if encoded.scales is None else parts | {SCALES: encoded.scales.cpu().numpy()}
