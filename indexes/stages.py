"""The stages of a build. Each writes to one folder; killed and restarted, it resumes where it stopped."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from indexes.ahead import map_ahead
from indexes.growing import GrowingArray, GrowingLines, save_array
from indexes.ids import hash_id, other_ids, save_ids
from indexes.images import thumbnail
from indexes.lines import Articles, Lines, offsets_path, save_offsets, to_row
from indexes.manifest import THUMBNAILS
from indexes.progress import progress_bar
from indexes.sources import ImageSource, find_main
from retriever.codecs import encode_tokens
from retriever.files import write_lines
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
    articles: Articles, source: ImageSource | None, folder: Path, batch: int, progress: bool
) -> MainImages:
    """Returns the main images after reading every one; readable ones get a thumbnail in `images/<row>.jpg`."""
    path = folder / "main_images.jsonl"
    (folder / THUMBNAILS).mkdir(exist_ok=True)

    def read(row: int) -> MainImage:
        return _read_main_image(articles[row], row, source, folder)

    with (
        GrowingLines(path, batch, len(articles)) as lines,
        closing(map_ahead(read, range(lines.done, len(articles)), batch)) as images,
    ):
        for rows in batches("read images", lines.done, len(articles), batch, progress):
            lines.append(islice(images, len(rows)))
    save_offsets(path)
    return MainImages(path)


def readable_rows(main_images: MainImages) -> IntArray:
    """Returns the rows of entities with a readable main image, int64."""
    return np.flatnonzero(np.fromiter((image.readable for image in main_images), dtype=bool)).astype(np.int64)


def _read_main_image(entity: Entity, row: int, source: ImageSource | None, folder: Path) -> MainImage:
    if entity.image is None or source is None:
        return MainImage()
    name = find_main(source, entity)
    if name is None:
        return MainImage(None, "missing", source.missing)
    try:
        image = source.load(name)
    except ImageError as error:
        return MainImage(name, "unreadable", error.reason)
    (folder / THUMBNAILS / f"{row}.jpg").write_bytes(thumbnail(image))
    return MainImage(name)


def store_tokens(
    articles: Articles,
    main_images: MainImages,
    source: ImageSource | None,
    fusion: FusionEncoder | None,
    codec: TokenCodec,
    folder: Path,
    batch: int,
    progress: bool,
) -> IntArray:
    """Returns where each entity's section tokens start, int64 [N + 1]; `tokens.npy` holds them as `codec` says.

    An entity has tokens if it has sections and a readable main image; without a fusion encoder none has. The encoder
    gets a batch of entities at once, and the images of the next batch are decoded meanwhile.
    """
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
    left = [row for row in range(array.done, len(articles)) if counts[row]]
    with closing(decoded(left, main_images, source, batch)) as images:
        for rows in batches("tokens", array.done, len(articles), batch, progress):
            held = [row for row in rows if counts[row]]
            if held and fusion is not None:
                texts = [section_texts(articles[row]) for row in held]
                tokens = fusion.encode_sections(list(islice(images, len(held))), texts)
                encoded = encode_tokens(functional.normalize(tokens.detach().float(), dim=-1), codec)
                span = slice(offsets[rows.start], offsets[rows.stop])
                array.values[span] = encoded.values.cpu().numpy()
                if encoded.scales is not None:
                    scales.values[span] = encoded.scales.cpu().numpy()
            scales.commit(rows.stop)
            array.commit(rows.stop)
    return offsets


def decoded(
    rows: Iterable[int], main_images: MainImages, source: ImageSource | None, ahead: int
) -> Generator[Image.Image]:
    """Yields the main images of rows that have one, decoded in threads up to `ahead` images in advance."""

    def load(row: int) -> Image.Image:
        assert source is not None  # else no row has an image
        return source.load(str(main_images[row].path))

    return map_ahead(load, rows, ahead)


def section_texts(entity: Entity) -> list[str]:
    """Returns the text of each section as the fusion encoder reads it."""
    return [blip_caption(section_passage(entity.title, section.title, section.text)) for section in entity.sections]


def batches(what: str, done: int, total: int, batch: int, progress: bool) -> Iterator[range]:
    """Yields ranges of rows from `done` on, with a progress bar."""
    with progress_bar(total=total, initial=done, desc=what, unit="entity", shown=progress) as bar:
        for first in range(done, total, batch):
            rows = range(first, min(first + batch, total))
            yield rows
            bar.update(len(rows))


def finite(values: torch.Tensor, model: str) -> NDArray[Any]:
    """Returns a model's output as an array.

    Raises:
        ValueError: A value is not finite.
    """
    if not values.isfinite().all():
        raise ValueError(f"the {model} returned values that are not finite; check its weights")
    found: NDArray[Any] = values.cpu().numpy()
    return found
