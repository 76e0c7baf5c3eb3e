"""Documents that describe many things: each of at least three headings with its own text and image is one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from indexes.knowledge.document import Document, Heading, Part
from indexes.knowledge.understanding.furniture import pictures_of, why_no_photo

_FEWEST = 3


def describe_things(documents: Sequence[Document]) -> bool:
    """Returns whether the headings in documents of one source are things, or only sections of illustrated articles.

    They are things if there are at least as many of them as there are other documents with pictures.
    """
    counts = [(len(things_in(document)), document) for document in documents]
    others = sum(count == 1 and bool(_photos(document.parts)) for count, document in counts)
    return sum(count for count, _ in counts if count > 1) >= others


def things_in(document: Document) -> list[Document]:
    """Returns the documents of the things that a document describes: usually only itself.

    A picture belongs to the innermost thing that it stands in. If all pictures of a document stand under headings of
    one level, and each of these has text and pictures that no other one has, each heading is a thing, whose id is that
    of the document with `#` and the heading.
    """
    levels = Counter(part.level for part in document.parts if isinstance(part, Heading))
    level = min((level for level, count in levels.items() if count >= _FEWEST), default=0)
    starts = [n for n, part in enumerate(document.parts) if isinstance(part, Heading) and part.level == level]
    if not starts or document.settings.get("og:image"):
        return [document]
    before, after = document.parts[: starts[0]], document.parts[starts[0] :]
    sections = [document.parts[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    photos = [_photos(section) for section in sections]
    is_shared = max(Counter(url for urls in photos for url in urls).values(), default=0) > 1
    is_inside = any(isinstance(part, Heading) and part.level < level for part in after)
    if is_shared or is_inside or _photos(before) or not all(photos) or not all(map(_has_text, sections)):
        return [document]
    things = [_thing(document, section) for section in sections]
    return [replace(document, parts=before), *things] if _has_text(before) else things


def _photos(parts: Sequence[Part]) -> set[str]:
    return {picture.url for picture in pictures_of(parts) if not why_no_photo(picture.url)}


def _has_text(parts: Sequence[Part]) -> bool:
    return any(not isinstance(part, Heading) and not part.kind and getattr(part, "text", "rows") for part in parts)


def _thing(document: Document, parts: list[Part]) -> Document:
    title = getattr(parts[0], "text", "")
    anchor = "-".join(title.split())
    return replace(document, parts=parts, values={}, id=f"{document.id}#{anchor}", title=title, names=(), settings={})
