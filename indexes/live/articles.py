"""Articles with their images, and what they keep of the entities that they replace in an index."""

from __future__ import annotations

import io
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from PIL import Image

from indexes.article_images import MAIN_ONLY, ImageUse, MainImage, choose_further
from indexes.ids import unicode_forms
from indexes.image_source import ImageSource, find_main, main_candidates, why_missing
from indexes.live.index import LiveIndex
from retriever.images import ImageError
from retriever.types import LABELED, ArticleImage, Entity
from retriever.wording import counted

logger = logging.getLogger(__name__)


class Article(NamedTuple):
    """An article with its main image, if it has a readable one.

    Attributes:
        entity: The article.
        main: The main image as named in a build's report.
        image: The decoded main image.
        names: The names of readable further images, by URL.
        further: These images, decoded, by name.
        kept: The thumbnail in the index, if the article keeps the main image that it has there; `image` is decoded
            from it.
        stay: Whether it keeps the further images, too, with their keys and tokens.
    """

    entity: Entity
    main: MainImage = MainImage()
    image: Image.Image | None = None
    names: Mapping[str, str] = {}
    further: Mapping[str, Image.Image] = {}
    kept: bytes = b""
    stay: bool = False

    @property
    def whole(self) -> bool:
        """Whether it keeps all images that it has in the index."""
        return bool(self.kept) and self.stay


SERVICE = "the service"
"""The source of entities that no knowledge base had when they were added."""


def article_of(entity: Entity, source: ImageSource | None, use: ImageUse = MAIN_ONLY) -> Article:
    """Returns an entity with its used images, found and read as in a build."""
    if source is None or not any(main_candidates(entity)):
        return Article(entity)
    name = find_main(source, entity)
    if name is None:
        return Article(entity, MainImage(None, "missing", why_missing(source, entity)))
    try:
        image = source.load(name)
    except ImageError as error:
        return Article(entity, MainImage(name, "unreadable", error.reason))
    names, further = dict[str, str](), dict[str, Image.Image]()

    def usable(url: str) -> str | None:
        found = source.find(url)
        if found is None:
            return None
        if found != name and found not in further:
            try:
                further[found] = source.load(found)
            except ImageError as error:
                logger.warning("%r: image %s left out: %s", entity.id, found, error.reason)
                return None
        names[url] = found
        return found

    choose_further(entity, MainImage(name), use, usable)
    return Article(entity, MainImage(name), image, names, further)


def keeping_images(article: Article, index: LiveIndex) -> Article:
    """Returns an article, if it has no main image, with the images that its entity has in the index, if any.

    The keys and tokens of these images stay as they are. Only the tokens of its sections are computed anew if its
    text has changed, from the thumbnail.
    """
    if article.image is not None or (row := own_row(index, article.entity.id)) is None:
        return article
    if (content := own_thumbnail(index, row)) is None:
        return article
    entity = article.entity
    if not any(main_candidates(entity)):
        old = unlabeled(index.entity(row))
        entity = replace(entity, image=old.image, images=old.images)
    return _with_thumbnail(Article(entity, stay=True), content)


def completed(article: Article, index: LiveIndex, named: Collection[str], notes: list[str]) -> Article:
    """Returns an article with what it does not name of the entity that it replaces, if there is one.

    Args:
        article: The article, with the new main image if it names one.
        index: The index.
        named: Which of "image", "images", "url" and "fields" it names. An empty `image` or `images` says that there is
            none.
        notes: Receives a sentence on the images that are kept or removed.
    """
    if (row := own_row(index, article.entity.id)) is None:
        return article._replace(entity=replace(article.entity, source=SERVICE))
    old, content = unlabeled(index.entity(row)), own_thumbnail(index, row)
    entity = _in_place_of(old, article.entity)
    if "url" not in named:
        entity = replace(entity, url=old.url)
    if "fields" not in named:
        entity = replace(entity, fields=old.fields)
    main, has_new, all_named = next(iter(main_candidates(old)), None), article.image is not None, "images" in named
    further = _urls(old) - {main}
    keeps_main = not has_new and "image" not in named and (bool(entity.images) or not all_named)
    keeps_names = keeps_main or (not has_new and content is None and not all_named)  # there is nothing to remove
    if not has_new:
        entity = replace(entity, image=old.image if keeps_names else None)
    if not all_named and (has_new or keeps_names):
        kept = (image for image in old.images if not has_new or image.url != main)
        entity = replace(entity, images=_moved(kept, old, entity))
    fetchable = all_named and any("://" in str(url) for url in further)
    stay = content is not None and not fetchable and _urls(entity) - {entity.image, main} == further
    article = article._replace(entity=entity, stay=stay)
    unsent = [] if stay or content is None else [url for url in further & _urls(entity) if "://" not in str(url)]
    if unsent:
        notes.append(f"{counted(len(unsent), 'image')} not searched any more, since not all of the old ones are named")
    more = counted(len(further), "further image") if further and stay and not all_named else ""
    why = "of the index stayed, since the article names none"
    if keeps_main and content is not None:
        notes.append(f"the image{more and f' and {more}'} {why}; null removes")
        return _with_thumbnail(article, content)
    if content is not None and (more or not has_new):
        notes.append(f"{more} {why}; [] removes" if has_new else "images removed")
    return article


def own_row(index: LiveIndex, entity_id: str) -> int | None:
    """Returns the row of the entity with this very id, in any form of Unicode, not with it as another name."""
    for form in unicode_forms(entity_id):
        row = index.row_of(form)
        if row is not None and index.entity(row).id == form:
            return row
    return None


def called_as_indexed(entity: Entity, index: LiveIndex) -> Entity:
    """Returns an entity with its id in the form of Unicode that it has in the index."""
    row = None if entity.id.isascii() else own_row(index, entity.id)
    return entity if row is None else replace(entity, id=index.entity(row).id)


def own_thumbnail(index: LiveIndex, row: int) -> bytes | None:
    """Returns the thumbnail of an entity's main image, unless it is one of a question."""
    path = index.image_path(row)
    return None if path is None or index.main_is_labeled(row) else path.read_bytes()


def _with_thumbnail(article: Article, content: bytes) -> Article:
    """Returns an article with a thumbnail as its main image."""
    name = next(iter(main_candidates(article.entity)), "")
    with Image.open(io.BytesIO(content)) as image:
        return article._replace(main=MainImage(name), image=image.convert("RGB"), kept=content)


def unlabeled(entity: Entity) -> Entity:
    """Returns an entity without its labeled images."""
    return replace(entity, images=tuple(image for image in entity.images if not image.url.startswith(LABELED)))


def _urls(entity: Entity) -> set[str | None]:
    return {image.url for image in entity.images}


def _in_place_of(old: Entity, entity: Entity) -> Entity:
    """Returns an article with the id, other names and source of another one, and its numbers of as many sections."""
    entity = replace(entity, id=old.id, names=old.names, source=old.source)
    if len(entity.sections) != len(old.sections):
        return entity
    pairs = zip(entity.sections, old.sections, strict=True)
    number: dict[int | None, int] = {section.index: known.index for section, known in pairs}
    sections = (replace(section, index=number[section.index]) for section in entity.sections)
    images = (replace(image, section=number.get(image.section)) for image in entity.images)
    return replace(entity, sections=tuple(sections), images=tuple(images))


def _moved(images: Iterable[ArticleImage], old: Entity, entity: Entity) -> tuple[ArticleImage, ...]:
    """Returns images of an entity as those of another text of it: in the sections of the same titles."""
    if len(entity.sections) == len(old.sections):
        return tuple(images)
    titles: dict[int | None, str] = {section.index: section.title for section in old.sections}
    places = {section.title: section.index for section in reversed(entity.sections)}
    return tuple(replace(image, section=places.get(titles.get(image.section, ""))) for image in images)
