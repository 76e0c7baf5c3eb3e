"""The file of hard negatives, in the format of OMGM's published code, and the journal from which a killed run resumes.

    {image_id: {"gt_entity_pos_img": URL or null, "top_20": [{"entry": entity id, "similarity": sim_c}, …]}, …}

The key is "top_20" for any number of entities. There are additions: "similarity"; "positives" for an image with
questions about several entities, with the image of each by the first name that a question gives it; and "copies", the
entities that were found but have the text of a gold entity's article. EchoSight's files are read, too: they have the
list of entities in the place of the object, and name an image by its file, without folders and extension.
"""

from __future__ import annotations

import json
import math
import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NotRequired, Self, TypedDict

from indexes.json_streams import read_members
from indexes.ranked_lists import Order, RankedList, check_order, in_order
from retriever.files import naming


class NegativeEntry(TypedDict):
    """One entity found by step 1, with its `sim_c`."""

    entry: str
    similarity: NotRequired[float]


class ImageNegatives(TypedDict):
    """The entities found for one image, best first, and the URL of an image of the gold entity."""

    gt_entity_pos_img: str | None
    top_20: list[NegativeEntry]
    positives: NotRequired[dict[str, str | None]]
    copies: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class MinedNegatives:
    """The negatives mined for one image.

    Attributes:
        entities: Ids of the entities found, best first.
        similarities: Their `sim_c`, NaN if the file has none, as in OMGM's published files.
        positive: URL or path of the gold entity's image that is most similar to this one.
        positives: The same for each of several gold entities.
    """

    entities: tuple[str, ...]
    similarities: array[float]
    positive: str | None
    positives: Mapping[str, str] = field(default_factory=dict)

    def items(self) -> Iterable[tuple[str, float]]:
        """Yields each entity with its similarity."""
        return zip(self.entities, self.similarities, strict=True)


def read_negatives(path: Path, *, order: Order | None = None, flag: str = "") -> dict[str, MinedNegatives]:
    """Reads mined negatives by image id, one image at a time.

    Args:
        path: The file.
        order: What puts entities in order, for files in which that is in doubt. Distances become negative.
        flag: The option that sets `order`, for messages.

    Raises:
        ValueError: The file is in neither format, a similarity is not a finite number, or entities are not in the order
            of their similarities; the message names the image.
    """
    negatives = {}
    try:
        for image_id, row in read_members(path):
            negatives[image_id] = _mined(path, image_id, row, order, flag)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error}); write it with mine-negatives") from error
    return negatives


def _mined(path: Path, image_id: str, row: Any, order: Order | None, flag: str) -> MinedNegatives:
    try:
        row = {"top_20": row} if isinstance(row, list) else row
        entries, positive = row["top_20"], row.get("gt_entity_pos_img")
        positives = {str(key): str(url) for key, url in row.get("positives", {}).items() if url is not None}
        ids = [str(entry["entry"]) for entry in entries]
        ranked = RankedList.of(ids, [entry.get("similarity") for entry in entries])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        expected = f'{path}: {image_id}: expected {{"top_20": [{{"entry": …}}, …]}}, got {str(row)[:300]} ({error})'
        raise ValueError(expected) from error
    if order is None:
        check_order(path, {image_id: ranked}, flag)
    else:
        [ranking] = in_order({image_id: ranked}, order).values()
        scored = [score for _, score in ranking if score is not None]
        ranked = RankedList([id for id, _ in ranking], scored)
    # The same entities are found for many images: one string for each.
    scores = ranked.scores or [math.nan] * len(ranked.ids)
    found = dict(zip(map(sys.intern, ranked.ids), scores, strict=True))
    return MinedNegatives(
        tuple(found), array("f", found.values()), None if positive is None else str(positive), positives
    )


class Journal:
    """The negatives of completed images, one JSON line each; only the offsets of the lines are held in memory.

    Args:
        path: The file; created if absent. A last line that a kill truncated is dropped.

    Raises:
        ValueError: The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._end = path, 0
        self._places: dict[str, int] = {}
        self._file = path.open("a+b")
        try:
            self._read()
        except ValueError as error:
            self._file.close()
            raise ValueError(f"{path}: {error}; delete it to start over") from error

    def _read(self) -> None:
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            try:
                image_id, _ = json.loads(line)
            except (ValueError, TypeError) as error:
                raise ValueError(f"damaged ({error})") from error
            self._places[image_id] = self._end
            self._end += len(line)
        self._file.truncate(self._end)

    def __contains__(self, image_id: str) -> bool:
        """Returns whether an image is completed."""
        return image_id in self._places

    def add(self, image_id: str, negatives: ImageNegatives) -> None:
        """Appends the negatives of an image."""
        self._places[image_id] = self._end
        self._append([image_id, negatives])

    def flush(self) -> None:
        """Flushes everything to the operating system, so that killing the process loses nothing."""
        with naming(self._path):
            self._file.flush()

    def rows(self, image_ids: Iterable[str]) -> Iterator[tuple[str, ImageNegatives]]:
        """Yields the negatives of completed images, in the order of `image_ids`."""
        for image_id in image_ids:
            self._file.seek(self._places[image_id])
            yield image_id, json.loads(self._file.readline())[1]

    def remove(self) -> None:
        """Removes the file."""
        self._path.unlink()

    def _append(self, value: object) -> None:
        with naming(self._path):
            self._file.seek(0, os.SEEK_END)
            self._end += self._file.write(json.dumps(value).encode() + b"\n")

    def __enter__(self) -> Self:
        """Returns itself, to be closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the file."""
        with naming(self._path):
            self._file.close()
