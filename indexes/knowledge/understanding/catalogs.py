"""Documents that describe many things: each of at least three headings with its own text and image is one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from indexes.knowledge.document import Document, Heading, Part
from indexes.knowledge.understanding.furniture import pictures_of, why_no_photo

_FEWEST = 3


def things_in(document: Document) -> list[Document]:
    """Returns the documents of the things that a document describes: usually only itself.

    A picture belongs to the innermost thing that it stands in. If all pictures of a document stand under headings of
    one level, and each of these has text and pictures that no other one has, each heading is a thing, whose id is that
    of the document with `#` and the heading.
    """
    level = _level_of_things(document.parts)
    if not level or document.settings.get("og:image"):
        return [document]
    start = next(n for n, part in enumerate(document.parts) if isinstance(part, Heading) and part.level == level)
    whole = replace(document, parts=document.parts[:start])
    things = [_thing(document, parts) for parts in _below(document.parts[start:], level)]
    return [*([whole] if _has_text(whole.parts) else []), *things]


def _level_of_things(parts: Sequence[Part]) -> int:
    """Returns the level of the headings of which each is a thing, 0 if there is none."""
    levels = Counter(part.level for part in parts if isinstance(part, Heading))
    for level in sorted(levels):
        if levels[level] < _FEWEST:
            continue
        start = next(n for n, part in enumerate(parts) if isinstance(part, Heading) and part.level == level)
        if any(isinstance(part, Heading) and part.level < level for part in parts[start:]):
            return 0
        if any(_photos(parts[:start])):
            return 0
        photos = [_photos(section) for section in _below(parts[start:], level)]
        texts = [_has_text(section[1:]) for section in _below(parts[start:], level)]
        distinct = Counter(url for urls in photos for url in urls)
        return level if all(photos) and all(texts) and max(distinct.values()) == 1 else 0
    return 0


def _below(parts: Sequence[Part], level: int) -> Iterator[Sequence[Part]]:
    """Yields the parts of each section of a level, with its heading."""
    starts = [n for n, part in enumerate(parts) if isinstance(part, Heading) and part.level == level]
    for start, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        yield parts[start:end]


def _photos(parts: Sequence[Part]) -> set[str]:
    return {picture.url for picture in pictures_of(parts) if not why_no_photo(picture.url)}


def _has_text(parts: Sequence[Part]) -> bool:
    return any(not isinstance(part, Heading) and not part.kind and getattr(part, "text", "rows") for part in parts)


def _thing(document: Document, parts: Sequence[Part]) -> Document:
    heading = parts[0]
    assert isinstance(heading, Heading)
    anchor = "-".join(heading.text.split())
    return replace(
        document, parts=list(parts), values={}, id=f"{document.id}#{anchor}", title=heading.text, names=(), settings={}
    )
