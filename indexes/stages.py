"""The stages of a build. Each writes into one folder and, started again after a kill, continues where it stopped."""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from tqdm import tqdm

from indexes.growing import GrowingArray, GrowingLines, save_array
from indexes.ids import hash_id, save_ids
from indexes.images import thumbnail
from indexes.lines import Articles, Lines, offsets_path, save_offsets, to_row
from indexes.manifest import THUMBNAILS, Candidates
from indexes.sources import ImageSource, find_main
from indexes.tokens import TokenType
from retriever.files import as_line, replace_with
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.quantize import quantize_tokens
from retriever.texts import blip_caption, section_passage
from retriever.types import Entity, FloatArray, IntArray

logger = logging.getLogger(__name__)


class MainImage(NamedTuple):
    """What became of an entity's main image: its name where the pictures are, and what is wrong with it."""

    path: str | None
    problem: str | None

    @property
    def readable(self) -> bool:
        """Whether there is a picture to encode."""
        return self.path is not None and self.problem is None


class MainImages:
    """The main images of all entities by row, read from disk when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)

    def __len__(self) -> int:
        """Number of entities."""
        return len(self._lines)

    def __getitem__(self, row: int) -> MainImage:
        """Returns what became of the main image of the entity at `row`."""
        return MainImage(*self._lines.read(row))

    def __iter__(self) -> Iterator[MainImage]:
        """Yields them in order."""
        return (self[row] for row in range(len(self)))


class Bar:
    """Batches of rows still to do, shown as a progress bar."""

    def __init__(self, what: str, total: int, batch: int, shown: bool) -> None:
        self.what, self.total, self.batch, self.shown = what, total, batch, shown

    def batches(self, done: int) -> Iterator[range]:
        """Yields ranges of rows from `done` on."""
        bar = tqdm(total=self.total, initial=done, desc=self.what, unit="entity", disable=not self.shown)
        with bar:
            for first in range(done, self.total, self.batch):
                rows = range(first, min(first + self.batch, self.total))
                yield rows
                bar.update(len(rows))


def write_articles(entities: Callable[[], Iterator[Entity]], folder: Path) -> Articles:
    """Returns the entities as stored in `entities.jsonl`, written first unless that is done."""
    path = folder / "entities.jsonl"
    if not offsets_path(path).exists():
        hashes = array("q")

        def write(partial: Path) -> None:
            with partial.open("wb") as file:
                for entity in entities():
                    hashes.append(hash_id(entity.id))
                    file.write(as_line(to_row(entity)))

        replace_with(path, write)
        save_ids(folder / "entity_ids.npy", hashes)
        save_offsets(path)
    return Articles(path)


def read_pictures(
    articles: Articles, images: ImageSource | None, folder: Path, batch: int, progress: bool
) -> MainImages:
    """Returns what became of each entity's main image; readable ones get a thumbnail in `images/<row>.jpg`."""
    path = folder / "pictures.jsonl"
    (folder / THUMBNAILS).mkdir(exist_ok=True)
    with GrowingLines(path, batch, len(articles)) as lines:
        for rows in Bar("pictures", len(articles), batch, progress).batches(lines.done):
            lines.append(_read_picture(articles[row], row, images, folder) for row in rows)
    save_offsets(path)
    return MainImages(path)


def _read_picture(entity: Entity, row: int, images: ImageSource | None, folder: Path) -> MainImage:
    if entity.image is None or images is None:
        return MainImage(None, None)
    name = find_main(images, entity)
    if name is None:
        return MainImage(None, "missing")
    try:
        image = images.load(name)
    except ValueError:
        return MainImage(name, "unreadable")
    (folder / THUMBNAILS / f"{row}.jpg").write_bytes(thumbnail(image))
    return MainImage(name, None)


def embed_texts(
    texts: Callable[[int], str], total: int, encoder: DualEncoder, folder: Path, batch: int, progress: bool
) -> FloatArray:
    """Returns the vectors of `texts(row)` for every row, float32 [total, dimension], memory-mapped."""
    array = GrowingArray(folder / "vectors.npy", (total, encoder.dimension), np.float32)
    for rows in Bar("embed", total, batch, progress).batches(array.done):
        array.values[rows.start : rows.stop] = _finite(encoder.encode_texts([texts(row) for row in rows]), "encoder")
        array.commit(rows.stop)
    return array.values


def embed_images(
    pictures: MainImages, images: ImageSource | None, encoder: DualEncoder, folder: Path, batch: int, progress: bool
) -> FloatArray:
    """Returns the vectors of the main images, float32 [N, dimension], memory-mapped; zeros where there is none."""
    array = GrowingArray(folder / "vectors.npy", (len(pictures), encoder.dimension), np.float32)
    for rows in Bar("embed", len(pictures), batch, progress).batches(array.done):
        present = [row for row in rows if pictures[row].readable]
        if present and images is not None:
            loaded = [images.load(str(pictures[row].path)) for row in present]
            array.values[present] = _finite(encoder.encode_images(loaded), "encoder")
        array.commit(rows.stop)
    return array.values


def store_tokens(
    articles: Articles,
    pictures: MainImages,
    images: ImageSource | None,
    fusion: FusionEncoder | None,
    dtype: TokenType,
    folder: Path,
    batch: int,
    progress: bool,
) -> IntArray:
    """Returns where each entity's section tokens start, int64 [N + 1]; `tokens.npy` holds them as `dtype`.

    An entity has tokens when it has sections and a readable main image. Without a fusion encoder none has.
    """
    counts = [
        len(entity.sections) if fusion is not None and picture.readable else 0
        for entity, picture in zip(articles, pictures, strict=True)
    ]
    offsets: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    save_array(folder / "token_offsets.npy", offsets)
    shape = (0, 0) if fusion is None else tuple(fusion.token_shape)
    array = GrowingArray(folder / "tokens.npy", (int(offsets[-1]), *shape), dtype)
    scaled = (int(offsets[-1]), shape[0]) if dtype == "int8" else (0, 0)
    scales = GrowingArray(folder / "token_scales.npy", scaled, np.float16)
    for rows in Bar("tokens", len(articles), batch, progress).batches(array.done):
        for row in rows:
            if fusion is not None and images is not None and counts[row]:
                image = images.load(str(pictures[row].path))
                tokens = fusion.encode_sections(image, section_texts(articles[row]))
                unit = functional.normalize(tokens.detach().float(), dim=-1)
                span = slice(offsets[row], offsets[row + 1])
                if dtype == "int8":
                    unit, factors = quantize_tokens(unit)
                    scales.values[span] = _finite(factors, "fusion encoder")
                array.values[span] = _finite(unit if dtype == "int8" else unit.half(), "fusion encoder")
        scales.commit(rows.stop)
        array.commit(rows.stop)
    return offsets


def section_texts(entity: Entity) -> list[str]:
    """Returns what the fusion encoder reads of each section."""
    return [blip_caption(section_passage(entity.title, section.title, section.text)) for section in entity.sections]


def candidate_text(entity: Entity, summary: str, candidates: Candidates) -> str:
    """Returns the text that stands for an entity in step 1; its title where a summary is blank."""
    if candidates == "article":
        return "\n".join([entity.title, *(f"{section.title}\n{section.text}" for section in entity.sections)])
    return summary if candidates == "summary" and summary.strip() else entity.title


def log_problems(pictures: MainImages) -> None:
    """Logs once how many pictures are missing or unreadable, if any."""
    problems = Counter(picture.problem for picture in pictures)
    if problems["missing"] or problems["unreadable"]:
        unreadable = next((picture.path for picture in pictures if picture.problem == "unreadable"), None)
        first = f", the first {unreadable!r}" if unreadable else ""
        counts = f"{problems['missing']} pictures missing, {problems['unreadable']} unreadable"
        logger.warning("%s%s: see report.json", counts, first)


def _finite(values: torch.Tensor, model: str) -> NDArray[Any]:
    if not values.isfinite().all():
        raise ValueError(f"the {model} gave values that are not finite; check its weights")
    found: NDArray[Any] = values.cpu().numpy()
    return found
