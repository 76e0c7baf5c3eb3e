"""The stages of a build. Each writes into one folder and, started again after a kill, continues where it stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from retriever.quantize import quantize_tokens
from torch.nn import functional
from tqdm import tqdm

from indexes.files import GrowingArray, GrowingLines, as_line, replace_with, save_array
from indexes.images import find_image, load_image, thumbnail
from indexes.lines import Articles, Lines, offsets_path, save_offsets, to_row
from indexes.manifest import THUMBNAILS, Candidates
from indexes.store import save_ids
from indexes.tokens import TokenType
from retriever.protocols import DualEncoder, FusionEncoder
from retriever.texts import blip_caption, section_passage
from retriever.types import Entity, FloatArray, IntArray

logger = logging.getLogger(__name__)


class Picture(NamedTuple):
    """What became of an entity's main image: its path under the folder of pictures, and what is wrong with it."""

    path: str | None
    problem: str | None

    @property
    def readable(self) -> bool:
        """Whether there is a picture to encode."""
        return self.path is not None and self.problem is None


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
        ids: list[str] = []

        def write(partial: Path) -> None:
            with partial.open("wb") as file:
                for entity in entities():
                    ids.append(entity.id)
                    file.write(as_line(to_row(entity)))

        replace_with(path, write)
        save_ids(folder / "entity_ids.npy", ids)
        save_offsets(path)
    return Articles(path)


def read_pictures(articles: Articles, images: Path | None, folder: Path, batch: int, progress: bool) -> list[Picture]:
    """Returns what became of each entity's main image; readable ones get a thumbnail in `images/<row>.jpg`."""
    path = folder / "pictures.jsonl"
    (folder / THUMBNAILS).mkdir(exist_ok=True)
    with GrowingLines(path, batch, len(articles)) as lines:
        for rows in Bar("pictures", len(articles), batch, progress).batches(lines.done):
            lines.append(_read_picture(articles[row], row, images, folder) for row in rows)
    save_offsets(path)
    stored = Lines(path)
    return [Picture(*stored.read(row)) for row in range(len(stored))]


def _read_picture(entity: Entity, row: int, images: Path | None, folder: Path) -> Picture:
    if entity.image is None or images is None:
        return Picture(None, None)
    found = find_image(images, entity.image)
    if found is None:
        return Picture(None, "missing")
    name = found.relative_to(images).as_posix()
    try:
        image = load_image(found)
    except ValueError:
        return Picture(name, "unreadable")
    (folder / THUMBNAILS / f"{row}.jpg").write_bytes(thumbnail(image))
    return Picture(name, None)


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
    pictures: Sequence[Picture], images: Path, encoder: DualEncoder, folder: Path, batch: int, progress: bool
) -> FloatArray:
    """Returns the vectors of the main images, float32 [N, dimension], memory-mapped; zeros where there is none."""
    array = GrowingArray(folder / "vectors.npy", (len(pictures), encoder.dimension), np.float32)
    for rows in Bar("embed", len(pictures), batch, progress).batches(array.done):
        present = [row for row in rows if pictures[row].readable]
        if present:
            loaded = [load_image(images / str(pictures[row].path)) for row in present]
            array.values[present] = _finite(encoder.encode_images(loaded), "encoder")
        array.commit(rows.stop)
    return array.values


def store_tokens(
    articles: Articles,
    pictures: Sequence[Picture],
    images: Path | None,
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
                image = load_image(images / str(pictures[row].path))
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


def log_problems(pictures: Sequence[Picture]) -> None:
    """Logs once how many pictures are missing or unreadable, if any."""
    missing = sum(picture.problem == "missing" for picture in pictures)
    unreadable = [picture.path for picture in pictures if picture.problem == "unreadable"]
    if missing or unreadable:
        first = f", the first {unreadable[0]!r}" if unreadable else ""
        logger.warning("%d pictures missing, %d unreadable%s: see report.json", missing, len(unreadable), first)


def _finite(values: torch.Tensor, model: str) -> NDArray[Any]:
    if not values.isfinite().all():
        raise ValueError(f"the {model} gave values that are not finite; check its weights")
    found: NDArray[Any] = values.cpu().numpy()
    return found
