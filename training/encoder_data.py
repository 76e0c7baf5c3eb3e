"""The data for adapting step 1, and what its training reads from a knowledge base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from indexes.formats import read_knowledge_base
from indexes.formats.fields import Names
from indexes.labeled_images import LabeledImage
from indexes.sources import find_main
from indexes.summarizers import Summarizer
from indexes.wanted_ids import WantedIds
from retriever.types import Entity
from training.images import ImageLoader, image_source


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderData:
    """The data for adapting step 1.

    Attributes:
        kb: The knowledge base.
        images: A folder or a ZIM file with its images; `None` if the knowledge base contains them.
        summarizer: Writes the summaries that step 1 will search.
        labeled: Images besides the main images, such as those of questions.
        trim_borders: Whether to cut uniform borders off labeled images, as off query images.
        kb_format: See `indexes.formats`; guessed if `None`.
        names: The names of an entity's fields in the knowledge base, if they differ from the usual ones.
        drop_sections: Titles of sections to leave out, as in the index; see `indexes.formats.dropped_titles`.
    """

    kb: Path
    images: Path | None
    summarizer: Summarizer
    labeled: Sequence[LabeledImage] = ()
    trim_borders: bool = False
    kb_format: str | None = None
    names: Names | None = None
    drop_sections: Sequence[str] | None = None


def read_entities(data: EncoderData) -> tuple[list[str], dict[int, ImageLoader], dict[str, int]]:
    """Reads the knowledge base, holding each article in memory only until it is summarized.

    Returns:
        The summaries of all entities, the existing main images by entity, and the rows of the entities that labeled
        images name.

    Raises:
        ValueError: No entity has an image.
    """
    source = image_source(data.images, data.kb, data.kb_format)
    wanted = WantedIds(id for image in data.labeled for id in (image.entity_id, *image.others))
    main, load = dict[int, ImageLoader](), source.load

    def noted(entities: Iterator[Entity]) -> Iterator[Entity]:
        for row, entity in enumerate(entities):
            wanted.add(entity, row)
            if (name := find_main(source, entity)) is not None:
                main[row] = ImageLoader(name, load)
            yield entity

    entities = read_knowledge_base(data.kb, data.kb_format, data.drop_sections, names=data.names)
    summaries = list(data.summarizer.stream(noted(entities)))
    if not main:
        raise ValueError(f"{data.images or data.kb}: contains none of the main images that {data.kb} names")
    return summaries, main, wanted.rows()
