"""Images that labels or tables give to entities: more keys for step 1, or the main image."""

from __future__ import annotations

import csv
import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from indexes.image_source import ImageSource
from indexes.wanted_ids import WantedIds
from retriever.borders import RULE, load_query_image
from retriever.digests import digests_of
from retriever.files import as_line
from retriever.types import LABELED, ArticleImage, Entity
from retriever.wording import counted

logger = logging.getLogger(__name__)


class LabeledImage(NamedTuple):
    """An image labeled with the entity that it shows.

    Attributes:
        image_id: The image's id.
        path: Its file.
        entity_id: The entity's id, or another name that `row_of` accepts.
        others: Entities that are equally acceptable; if `entity_id` is unknown, the first known one is used.
    """

    image_id: str
    path: Path
    entity_id: str
    others: tuple[str, ...] = ()


def with_known_entities(images: Sequence[LabeledImage], rows: Mapping[str, int]) -> list[LabeledImage]:
    """Returns labeled images with `entity_id` set to the first of their entities that has a row, if any."""
    return [
        image._replace(entity_id=next((id for id in (image.entity_id, *image.others) if id in rows), image.entity_id))
        for image in images
    ]


class LabeledSource:
    """An image source that adds labeled images to those of a knowledge base.

    One that shows several entities is among `images` for each. With `trim_borders`, uniform borders are cut off labeled
    images, as off query images.
    """

    def __init__(self, images: Sequence[LabeledImage], source: ImageSource | None, trim_borders: bool = False) -> None:
        self._source, self._trim_borders = source, trim_borders
        self._paths = {LABELED + image.image_id: image.path for image in images}
        digest = hashlib.sha256()
        listed = sorted(images)
        for image, content in zip(listed, digests_of(image.path for image in listed), strict=True):
            digest.update(as_line([image.entity_id, *image.others, image.image_id, content.hex()]))
        if trim_borders:
            digest.update(as_line(["trimmed", RULE]))
        self.digest = digest.hexdigest()
        self._images = images

    def attach(
        self, entities: Iterator[Entity], again: Callable[[], Iterable[Entity]] | None = None
    ) -> Iterator[Entity]:
        """Yields entities with their labeled images after those of their articles.

        Labels name entities as questions do: by id, by another name or by another spelling of the URL. If several
        entities have that name, the first of them and the one with this id get the image. If a label accepts several
        entities, `again` returns the same entities a second time, to find out which of them exist before `entities` are
        read; without it, each label means its first entity.
        """
        images = sorted(self._images)
        if again is not None and any(image.others for image in images):
            open_ids = WantedIds(id for image in images if image.others for id in (image.entity_id, *image.others))
            for row, entity in enumerate(again()):
                open_ids.add(entity, row)
            images = with_known_entities(images, open_ids.rows())
        of: dict[str, list[ArticleImage]] = defaultdict(list)
        for entity_id, image_id in dict.fromkeys((image.entity_id, image.image_id) for image in images):
            of[entity_id].append(ArticleImage(LABELED + image_id))
        wanted, left = WantedIds(of), set(of)
        for entity in entities:
            names = [name for name in wanted.meaning(entity) if name in left or name == entity.id]
            left.difference_update(names)
            labeled = dict.fromkeys(image for name in names for image in of[name])
            yield replace(entity, images=(*entity.images, *labeled)) if labeled else entity
        if left:
            unknown = counted(len(left), "entity")
            logger.warning("%s of labeled images not in the knowledge base, such as %s", unknown, min(left))

    def find(self, url: str) -> str | None:
        """Returns the name of a labeled image, or of one in the source."""
        if url in self._paths:
            return url
        return None if self._source is None else self._source.find(url)

    def why_missing(self, url: str) -> str:
        """Returns the reason why `find` returns nothing."""
        return "no such file" if self._source is None else self._source.why_missing(url)

    def content(self, name: str) -> Path | bytes:
        """Returns the file of an image that `find` named, or its bytes."""
        if name in self._paths:
            return self._paths[name]
        assert self._source is not None  # else `find` named none
        return self._source.content(name)

    def load(self, name: str) -> Image.Image:
        """Returns an image that `find` named, in RGB."""
        if name in self._paths:
            return load_query_image(self._paths[name], self._trim_borders)
        assert self._source is not None  # else `find` named none
        return self._source.load(name)


_PATH = "img_path"
_TITLES = ("title", "wikipedia_title", "wiki_title", "name")


class ImageTable:
    """The main image of each entity: the first of its title's files that exists, as in the published code.

    Its `paths` are tables (CSV), such as the 13 `wiki_image_url_part_N_processed.csv`, in the order of their numbers.
    The first column has the title, `img_path` the file; `find` returns `None` for one that does not exist.

    Raises:
        ValueError: A table has no such columns.
    """

    def __init__(self, paths: Sequence[Path], find: Callable[[str], str | None]) -> None:
        ordered = sorted(paths, key=lambda path: [int(part) for part in path.stem.split("_") if part.isdecimal()])
        self.digest = b"".join(digests_of(ordered)).hex()
        self.main: dict[str, str] = {}
        self.titles = 0
        seen: set[str] = set()
        for path in ordered:
            for title, file in _rows(path):
                seen.add(title)
                if title not in self.main and find(file) is not None:
                    self.main[title] = file
        self.titles = len(seen)
        if absent := self.titles - len(self.main):
            logger.warning("%d of %d titles in the tables of images have no image that exists", absent, self.titles)

    def applied(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Yields entities with the main image of their title alone, or without one if the tables have none."""
        for entity in entities:
            yield replace(entity, image=self.main.get(entity.title), images=())


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or ())
        title = next((name for name in columns if name.strip().lower() in _TITLES), columns[0] if columns else "")
        if _PATH not in columns or title == _PATH:
            raise ValueError(f"{path}: expected columns for the title and {_PATH}, got {', '.join(columns) or 'none'}")
        for row in reader:
            if row[_PATH] and row[title]:
                yield row[title], row[_PATH]
