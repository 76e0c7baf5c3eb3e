"""Plans a download: a knowledge base's images and their places, decided in its order before anything is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from indexes.image_source import ImageSource, find_main, main_candidates
from indexes.knowledge.image_names import names_of
from indexes.knowledge.sources import find_image
from omgm.downloads.images.journal import FOLDER, Journal
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.web import parse, place_of
from retriever.types import ArticleImage, Entity

_LONGEST_NAME = 255
"""Maximum bytes of a file name on common file systems."""
_LONGEST_PATH = 3000
_COMMIT_EVERY = 4096


@dataclass(slots=True)
class EntityCounts:
    """How many entities a knowledge base has, and how many of them name no image."""

    entities: int = 0
    without: int = 0


def make_plan(entities: Iterable[Entity], images: Path, journal: Journal, every: bool) -> EntityCounts:
    """Records the images of a knowledge base in the journal, and counts its entities.

    A place belongs to the first URL that claims it, so it does not depend on which image arrives first. A file that
    `find_image` finds and that we did not fetch is kept, and its image is not fetched.

    Args:
        entities: The knowledge base.
        images: The folder of the images.
        journal: Its journal.
        every: Whether to record all images of an entity, or only its main image.
    """
    counts = EntityCounts()
    for entity in entities:
        urls = [url for url in main_candidates(entity) if url]
        counts.entities += 1
        counts.without += not urls
        for number, url in enumerate(urls if every else urls[:1]):
            journal.name_in_run(_claim(url, images, journal), main=number == 0)
        if counts.entities % _COMMIT_EVERY == 0:
            journal.commit()
    journal.commit()
    return counts


def remote_images(entities: Iterable[Entity], own: ImageSource, every: bool) -> Iterator[Entity]:
    """Yields entities with only their remote images, from a knowledge base that also contains images.

    Args:
        entities: The knowledge base.
        own: The images that it contains.
        every: Whether to yield all remote images, or only those of entities without a main image of their own.
    """
    for entity in entities:
        if not every and find_main(own, entity) is not None:
            continue
        urls = [url for url in main_candidates(entity) if "//" in url and own.find(url) is None]
        if urls:
            yield replace(entity, image=urls[0], images=tuple(map(ArticleImage, urls[1:])))


def _claim(url: str, images: Path, journal: Journal) -> int:
    """Returns the row of an image; adds a new image, and marks one whose file is gone to be fetched again."""
    try:
        url = clean(url)
    except Failure as failure:
        url = url.encode(errors="backslashreplace").decode()
        known = journal.state(url)
        return known[0] if known else journal.add(url, "", None, "failed", failure)
    known = journal.state(url)
    if known is not None:
        row, state, name = known
        if (state == "done" and not (images / str(name)).is_file()) or (
            state == "here" and not find_image(images, url)
        ):
            journal.want(row)
        return row
    host = place_of(parse(url))
    try:
        name = _place_under(url)
        other = journal.clashes(name)
        if other is not None:
            raise Failure("name_taken", f"by {other}")
    except Failure as failure:
        return journal.add(url, host, None, "failed", failure)
    found = find_image(images, url)
    foreign = found is not None and not journal.ours(found.relative_to(images).as_posix())
    return journal.add(url, host, name, "here" if foreign else "wanted")


def clean(url: str) -> str:
    """Returns a URL with its scheme and without its fragment.

    Raises:
        Failure: It is not an http or https URL.
    """
    url = url.strip()
    if url.startswith("//"):  # a protocol-relative URL, as in web pages
        url = f"https:{url}"
    if "://" not in url:
        raise Failure("not_a_url", url[:200])
    try:
        url.encode()
    except UnicodeEncodeError as error:
        raise Failure("not_a_url", str(error)) from error
    parse(url)
    return url.partition("#")[0]


def _place_under(url: str) -> str:
    """Returns the place of an image under the folder: the whole path of its URL, which `find_image` tries first.

    The path is used as written, or percent-decoded if it would be too long for a file name.

    Raises:
        Failure: The URL has no path, or one that cannot be a file name.
    """
    whole = len([part for part in url.split("://", 1)[1].partition("?")[0].split("/")[1:] if part])
    for name in names_of(url):
        parts = name.split("/")
        fits = all(len(part.encode()) <= _LONGEST_NAME for part in parts) and len(name.encode()) <= _LONGEST_PATH
        if len(parts) == whole and fits and parts[0] != FOLDER:
            return name
    raise Failure("not_a_url", "its path cannot be a file's")
