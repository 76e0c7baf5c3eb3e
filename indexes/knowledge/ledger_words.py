"""The words and the pictures of documents and entities, and which of a document's its entity lacks."""

from __future__ import annotations

import html
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from indexes.image_paths import is_embedded
from indexes.knowledge.document import Block, Document, Heading, Table
from indexes.knowledge.image_names import without_size
from indexes.knowledge.sections import FACTS
from indexes.knowledge.understanding.fields import looks_like_image
from indexes.labeled_values import folded
from retriever.types import Entity
from retriever.unspaced import UNSPACED, count_words

_LONG, _AHEAD = 16, 20_000
"""Characters from which a text that an entity has as it is was kept, and not found by chance; how far it is sought."""
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_MARKUP = re.compile(
    r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|</?[a-z][^<>]*>|\]\([^()\s]*\)", re.DOTALL | re.IGNORECASE
)
"""Tags of HTML, and the addresses of links in Markdown."""
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|mailto:|data:)\S+", re.IGNORECASE)
_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{60}\s*[A-Za-z0-9+/_=-]{60}")  # the beginning of a file in base64
_SIZES = frozenset({"width", "height", "filesize", "size", "bytes"})  # fields, as by `folded`, beside an image


def words_in(texts: Iterable[str]) -> int:
    """Counts the words of texts."""
    return count_words("\n".join(texts))


def texts_of(entity: Entity) -> list[str]:
    """Returns the texts of an entity, and the titles of its sections other than its own."""
    titles = [section.title for section in entity.sections if section.title not in (entity.title, FACTS)]
    return [*(section.text for section in entity.sections), *titles]


def word_keys(text: str) -> list[str]:
    """Returns the words of a text in lower case, without markup, each without signs: `fox/dog` is two."""
    if "<" in text or "](" in text:
        text = _MARKUP.sub(" ", text)
    return _WORD.findall((html.unescape(text) if "&" in text else text).casefold())


def compared(texts: Iterable[str], entity: Entity) -> tuple[int, Counter[str]]:
    """Returns the number of words of texts, and those that an entity lacks, in order and as by `word_keys`."""
    captions = [image.caption for image in entity.images if image.caption]
    whole = "\n".join((*texts_of(entity), entity.title, entity.id, *entity.names, *captions))
    kept, changed, others, place = list[str](), list[str](), list[str](), 0
    for text in texts:  # most are in the entity as they are, in this order
        start = -1
        if len(text) >= _LONG:
            after = place + (place > 0)
            start = after if whole.startswith(text, after) else whole.find(text, place, place + len(text) + _AHEAD)
        end = start + len(text)
        if start >= 0 and not (whole[start - 1 : start] + whole[end : end + 1]).strip():
            others.append(whole[place:start])
            kept.append(text)
            place = end
        else:
            changed.append(text)
    wanted = word_keys("\n".join(changed))
    there = word_keys("\n".join((*others, whole[place:]))) if wanted else []
    return words_in(kept) + len(wanted), Counter(wanted) - Counter(there)


def content_of(document: Document, entity: Entity | None) -> tuple[list[str], list[str]]:
    """Returns the texts of a document but for the names of its entity, and the addresses of its pictures."""
    seen = {FACTS} if entity is None else {FACTS, entity.title, entity.id, *entity.names}
    texts, pictures, others = list[str](), list[str](), list[str]()
    for part in document.parts:
        if isinstance(part, Heading):
            texts += [] if part.text in seen else [part.text]
            continue
        whole = part_texts(part)
        texts += whole
        for picture in part.pictures:
            pictures.append(picture.url)
            caption = picture.caption or picture.alt
            others += [] if any(caption in text for text in whole) else [caption]
    if others or document.values:
        seen.update(texts)
        for text in (*others, *_leaves(document.values)):
            if "." in text[-6:] and looks_like_image(text):
                pictures.append(text)
            elif is_embedded(text):
                pictures += [text] if text[:11] == "data:image/" else []
            elif text and text not in seen and not (":" in text and _ADDRESS.fullmatch(text)) and not _BLOB.match(text):
                seen.add(text)
                texts.append(text)
    return texts, pictures


def part_texts(part: Block | Table) -> list[str]:
    """Returns the texts of a part, one for each cell of a table."""
    return [part.text] if isinstance(part, Block) else [cell.text for row in part.rows for cell in row if cell.text]


def _leaves(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields the texts within values, which may be nested deeper than Python's stack."""
    waiting: list[tuple[Any, bool]] = [(values, False)]
    while waiting:
        value, in_file = waiting.pop()
        if type(value) is str:
            if not in_file or is_embedded(value) or not looks_like_image(value):  # what a file is called is no picture
                yield value.strip()
        elif isinstance(value, dict):
            texts = [item for item in value.values() if type(item) is str]
            in_file = in_file or (value is not values and any(map(is_embedded, texts)))
            if in_file or any(map(looks_like_image, texts)):
                sizes = [name for name in value if type(value[name]) is int and folded(str(name)) in _SIZES]
                value = {name: item for name, item in value.items() if name not in sizes}
            waiting += [(item, in_file) for item in reversed(value.values())]
        elif isinstance(value, list | tuple):
            waiting += [(item, in_file) for item in reversed(value)]
        elif isinstance(value, int | float | Decimal | date | time) and not isinstance(value, bool) and value == value:
            yield str(int(value) if isinstance(value, float) and value.is_integer() else value)


def lost_pictures(urls: Iterable[str], entity: Entity) -> dict[str, str]:
    """Returns those addresses of pictures that are none of an entity's images, by `picture_name`.

    Sizes of one file are one picture. A picture that is contained in a text has no name: an entity has as many of them
    as images that nothing else names.
    """
    there = {image.url for image in entity.images} | ({entity.image} if entity.image else set())
    lost = {picture_name(url): url for url in urls if url not in there}
    if not lost:
        return {}
    names = set(map(picture_name, there))
    inside = [name for name in lost if is_embedded(lost[name])][: sum(map(is_embedded, there))]
    return {name: url for name, url in lost.items() if name not in names and name not in inside}


def picture_name(url: str) -> str:
    """Returns the name of an image's file without its folders, extension and size; a text with the image is itself."""
    if is_embedded(url):
        return url
    name = posixpath.basename(unquote(re.split(r"[?#]", url.strip())[0]).replace("\\", "/"))
    return without_size(name, False) or url
