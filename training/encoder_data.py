"""The data for adapting step 1, and what its training reads from a knowledge base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from indexes.labeled_images import LabeledImage
from indexes.sources import find_main
from indexes.summarizers import Summarizer
from indexes.wanted_ids import WantedIds
from retriever.types import Entity
from training.images import ImageLoader
from training.knowledge_base import KnowledgeBase


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderData(KnowledgeBase):
    """The data that step 1 is adapted to: a knowledge base, and what its entities look like.

    Attributes:
        summarizer: Writes the summaries that step 1 will search.
        labeled: Images beyond the main images, such as those of questions.
        trim_borders: Whether uniform borders are cut off labeled images, as off query images.
    """

    summarizer: Summarizer
    labeled: Sequence[LabeledImage] = ()
    trim_borders: bool = False


def read_entities(data: EncoderData) -> tuple[list[str], dict[int, ImageLoader], dict[str, int]]:
    """Reads the knowledge base, holding each article in memory only until it is summarized.

    Returns:
        The summaries of all entities, the existing main images by entity, and the rows of the entities that labeled
        images name.

    Raises:
        ValueError: No entity has an image.
    """
    source = data.image_source()
    wanted = WantedIds(id for image in data.labeled for id in (image.entity_id, *image.others))
    main, load = dict[int, ImageLoader](), source.load

    def noted(entities: Iterator[Entity]) -> Iterator[Entity]:
        for row, entity in enumerate(entities):
            wanted.add(entity, row)
            if (name := find_main(source, entity)) is not None:
                main[row] = ImageLoader(name, load, source.content)
            yield entity

    summaries = list(data.summarizer.stream(noted(data.articles())))
    if not main:
        raise ValueError(f"{data.images or data.kb}: contains none of the main images that {data.kb} names")
    return summaries, main, wanted.rows()
