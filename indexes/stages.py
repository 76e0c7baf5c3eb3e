"""The stages of a build. Each writes to one folder; killed and restarted, it resumes where it stopped."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from indexes.article_images import FurtherTable
from indexes.growing import GrowingArray, GrowingLines, save_array
from indexes.ids import hash_id, other_ids, save_ids
from indexes.images import thumbnail
from indexes.lines import Articles, Lines, offsets_path, save_offsets, to_row
from indexes.manifest import THUMBNAILS
from indexes.sources import ImageSource, find_main
from indexes.workers import Workers, in_batches
from retriever.codecs import encode_tokens
from retriever.files import naming, write_lines
from retriever.images import ImageError
from retriever.protocols import FusionEncoder
from retriever.texts import blip_caption, section_passage
from retriever.token_codec import TokenCodec
from retriever.types import Entity, IntArray

ARTICLE_FILES = ("entities.jsonl", "entities.offsets.npy", "entity_ids.npy", "skipped.json")
"""What reading the knowledge base writes."""


class MainImage(NamedTuple):
    """An entity's main image: its name in the image source and, if it cannot be used, what is wrong with it and why."""

    path: str | None = None
    problem: Literal["missing", "unreadable"] | None = None
    reason: str | None = None

    @property
    def readable(self) -> bool:
        """Whether there is an image to encode."""
        return self.path is not None and self.problem is None


class MainImages:
    """The main images of all entities by row, read from disk on demand."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)

    def __len__(self) -> int:
        """Number of entities."""
        return len(self._lines)

    def __getitem__(self, row: int) -> MainImage:
        """Returns the main image of the entity at `row`."""
        return MainImage(*self._lines.read(row))

    def __iter__(self) -> Iterator[MainImage]:
        """Yields them in order."""
        return (self[row] for row in range(len(self)))


def write_articles(entities: Iterable[Entity], folder: Path) -> Articles:
    """Returns the entities as stored in `entities.jsonl`, which it writes unless an earlier build did."""
    path = folder / "entities.jsonl"
    if not offsets_path(path).exists():
        hashes, others = array("q"), array("q")

        def rows() -> Iterator[dict[str, Any]]:
            for entity in entities:
                for other in other_ids(entity):
                    others.extend((hash_id(other), len(hashes)))
                hashes.append(hash_id(entity.id))
                yield to_row(entity)

        write_lines(path, rows())
        save_ids(folder / "entity_ids.npy", hashes, zip(others[::2], others[1::2], strict=True))
        save_offsets(path)
    return Articles(path)


def read_main_images(
    articles: Articles, source: ImageSource | None, workers: Workers, folder: Path, batch: int, progress: bool
) -> MainImages:
    """Returns the main images after reading every one; readable ones get a thumbnail in `images/<row>.jpg`."""
    path = folder / "main_images.jsonl"
    (folder / THUMBNAILS).mkdir(exist_ok=True)
    with GrowingLines(path, batch, len(articles)) as lines:
        left = range(lines.done, len(articles))
        make = partial(ReadMainImages, folder, source)
        with closing(in_batches("read images", workers, make, None, left, batch, progress)) as done:
            for rows, images in done:
                for row, (_, small) in zip(rows, images, strict=True):
                    if small is not None:
                        small_path = folder / THUMBNAILS / f"{row}.jpg"
                        with naming(small_path):
                            small_path.write_bytes(small)
                lines.append(image for image, _ in images)
    save_offsets(path)
    return MainImages(path)


class ReadMainImages:
    """Reads main images: `encode` returns each with its thumbnail, `None` if it cannot be used.

    Args:
        folder: The unfinished build, with the articles.
        source: Where the images are.
        model: None is needed.
    """

    def __init__(self, folder: Path, source: ImageSource | None, model: None = None) -> None:
        self._articles, self._source = Articles(folder / "entities.jsonl"), source

    def read(self, row: int) -> tuple[MainImage, bytes | None]:
        """Returns the main image of an entity and its thumbnail."""
        entity, source = self._articles[row], self._source
        if entity.image is None or source is None:
            return MainImage(), None
        name = find_main(source, entity)
        if name is None:
            return MainImage(None, "missing", source.missing), None
        try:
            return MainImage(name), thumbnail(source.load(name))
        except ImageError as error:
            return MainImage(name, "unreadable", error.reason), None

    def encode(self, items: Sequence[tuple[MainImage, bytes | None]]) -> list[tuple[MainImage, bytes | None]]:
        """Returns what was read."""
        return list(items)


def readable_rows(main_images: MainImages) -> IntArray:
    """Returns the rows of entities with a readable main image, int64."""
    return np.flatnonzero(np.fromiter((image.readable for image in main_images), dtype=bool)).astype(np.int64)


def store_tokens(
    articles: Articles,
    main_images: MainImages,
    source: ImageSource | None,
    workers: Workers,
    codec: TokenCodec,
    folder: Path,
    batch: int,
    progress: bool,
) -> IntArray:
    """Returns where each entity's section tokens start, int64 [N + 1]; `tokens.npy` holds them as `codec` says.

    An entity has tokens if it has sections and a readable main image; without a fusion encoder none has. The encoder
    gets a batch of entities at once. A section is paired with its own image if it has one among the further images,
    else with the main image.
    """
    fusion = workers.fusion
    counts = [
        len(entity.sections) if fusion is not None and image.readable else 0
        for entity, image in zip(articles, main_images, strict=True)
    ]
    offsets: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    save_array(folder / "token_offsets.npy", offsets)
    shape = codec.stored_shape((0, 0) if fusion is None else fusion.token_shape)
    array = GrowingArray(folder / "tokens.npy", (int(offsets[-1]), *shape), codec.dtype)
    scaled = (int(offsets[-1]), shape[0]) if codec.scaled else (0, 0)
    scales = GrowingArray(folder / "token_scales.npy", scaled, np.float16)
    done = min(array.done, scales.done)
    left = range(done, len(articles) if fusion is not None else done)
    make = partial(EncodeSections, folder, source, codec)
    with closing(in_batches("tokens", workers, make, "fusion", left, batch, progress)) as results:
        for rows, encoded in results:
            if encoded is not None:
                span = slice(offsets[rows.start], offsets[rows.stop])
                array.values[span] = encoded[0]
                if encoded[1] is not None:
                    scales.values[span] = encoded[1]
            scales.commit(rows.stop)
            array.commit(rows.stop)
    return offsets


Group = tuple[Image.Image, list[int], list[str]]
"""An image with the positions and texts of the sections that are paired with it."""


class EncodeSections:
    """Encodes the sections of entities that have a readable main image.

    `encode` returns their tokens and scales as the codec stores them, `None` if no entity of the batch has any.

    Args:
        folder: The unfinished build, with the articles and what was found out about main and further images.
        source: Where the images are.
        codec: How tokens are stored.
        fusion: Step 2's model.
    """

    def __init__(self, folder: Path, source: ImageSource | None, codec: TokenCodec, fusion: FusionEncoder) -> None:
        self._articles, self._further = Articles(folder / "entities.jsonl"), FurtherTable(folder)
        self._images = MainImages(folder / "main_images.jsonl")
        self._source, self._codec, self._fusion = source, codec, fusion

    def read(self, row: int) -> list[Group]:
        """Returns the images of an entity with the sections of each, none if it has no tokens."""
        main = self._images[row]
        if not main.readable:
            return []
        assert self._source is not None  # else no entity has an image
        texts = section_texts(self._articles[row])
        shown = self._further[row].of_sections(str(main.path), len(texts))
        return [(self._source.load(name), own, [texts[position] for position in own]) for name, own in shown.items()]

    def encode(self, items: Sequence[list[Group]]) -> tuple[NDArray[Any], NDArray[np.float16] | None] | None:
        """Returns the values and scales of all sections of a batch."""
        images, texts, places = list[Image.Image](), list[list[str]](), list[int]()
        for groups in items:
            first = len(places)
            for image, positions, own in groups:
                images.append(image)
                texts.append(own)
                places += [first + position for position in positions]
        if not images:
            return None
        tokens = self._fusion.encode_sections(images, texts)
        tokens = tokens[torch.from_numpy(np.argsort(places)).to(tokens.device)]
        encoded = encode_tokens(functional.normalize(tokens.detach().float(), dim=-1), self._codec)
        return encoded.values.cpu().numpy(), None if encoded.scales is None else encoded.scales.cpu().numpy()


def section_texts(entity: Entity) -> list[str]:
    """Returns the text of each section as the fusion encoder reads it."""
    return [blip_caption(section_passage(entity.title, section.title, section.text)) for section in entity.sections]


def finite(values: torch.Tensor, model: str) -> NDArray[Any]:
    """Returns a model's output as an array.

    Raises:
        ValueError: A value is not finite.
    """
    if not values.isfinite().all():
        raise ValueError(f"the {model} returned values that are not finite; check its weights")
    found: NDArray[Any] = values.cpu().numpy()
    return found
