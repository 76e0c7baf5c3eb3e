"""The words and the pictures of documents and entities, and which of a document's its entity lacks."""

from __future__ import annotations

import html
import posixpath
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from indexes.knowledge.document import Block, Document, Heading, Table
from indexes.knowledge.image_keys import without_size
from indexes.knowledge.image_names import is_embedded
from indexes.knowledge.sections import FACTS
from indexes.knowledge.understanding.fields import folded, looks_like_image
from retriever.types import Entity
from retriever.unspaced import UNSPACED, count_words, has_unspaced

_FEW = 4000  # characters up to which Python counts faster than NumPy
_LONG = 16  # characters from which a text that an entity has as it is was kept, and not found by chance
_AHEAD = 20_000  # characters in which such a text is looked for
_SIGNS = (
    string.punctuation + "\u00ab\u00bb\u201c\u201d\u201e\u2018\u2019\u201a\u2039\u203a\u2013\u2014\u2026\u00b7\u2022"
    "\u3002\u3001\uff0c\uff1a\uff1b\uff01\uff1f\uff08\uff09\u300c\u300d\u300e\u300f"
)
"""Punctuation in the scripts of most texts."""
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_PIECE = re.compile(r"[^\W_]+")
_MARKUP = re.compile(
    r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|</?[a-z][^<>]*>|\]\([^()\s]*\)", re.DOTALL | re.IGNORECASE
)
"""Tags of HTML, and the addresses of links in Markdown."""
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|mailto:|data:)\S+", re.IGNORECASE)
_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{60}\s*[A-Za-z0-9+/_=-]{60}")  # the beginning of a file in base64
_SIZES = frozenset({"width", "height", "filesize", "size", "bytes"})  # fields, as by `folded`, beside an image


def words_in(texts: Iterable[str]) -> int:
    """Counts the words of texts as `count_words` does, many times as fast: runs of characters between white space.

    Spaces beyond ASCII do not count.
    """
    texts = tuple(texts)
    text = "\n".join(texts)
    if len(text) < _FEW and text.isascii():
        return len(text.split())
    data = np.frombuffer(text.encode(errors="replace"), np.uint8)
    if not len(data):
        return 0
    leads = data[data >= 0xE0]
    if ((leads != 0xE2) & (leads <= 0xE9)).any():  # first bytes of characters of scripts without spaces, among others
        return sum(map(count_words, texts))
    blank = data <= 32
    return int(np.count_nonzero(blank[:-1] > blank[1:])) + int(not blank[0])


def texts_of(entity: Entity) -> list[str]:
    """Returns the texts of an entity, and the titles of its sections other than its own."""
    titles = [section.title for section in entity.sections if section.title not in (entity.title, FACTS)]
    return [*(section.text for section in entity.sections), *titles]


def word_keys(text: str) -> list[str]:
    """Returns the words of a text in lower case, without markup and without the punctuation around each."""
    if "<" in text or "](" in text:
        text = _MARKUP.sub(" ", text)
    if "&" in text:
        text = html.unescape(text)
    text = text.casefold()
    words = text.split() if text.isascii() or not has_unspaced(text) else _WORD.findall(text)
    return [key for word in words if (key := word if word.isalnum() else word.strip(_SIGNS))]


class Difference(NamedTuple):
    """What an entity lacks of its document.

    Attributes:
        words: The number of words of the document.
        missing: Those that the entity lacks, in order and as by `word_keys`.
        pictures: The addresses of the pictures that it lacks, by `picture_name`.
    """

    words: int
    missing: Counter[str]
    pictures: dict[str, str]


def difference_of(document: Document, entity: Entity | None) -> Difference:
    """Compares a document with its entity.

    Words are those of headings, blocks, tables, values, and captions of pictures, or else the texts that replace these.
    Addresses, files in base64, the sizes of images and yes or no are no words, nor are labels: an entity names what it
    shows. A heading or a value that repeats a title or another text counts once.
    """
    names = {entity.title, entity.id, *entity.names} if entity is not None else set()
    texts, pictures = _content_of(document, names | {FACTS})
    if entity is None:
        missing = Counter(word_keys("\n".join(texts)))
        return Difference(missing.total(), missing, {})
    whole = "\n".join((*texts_of(entity), *names, *(image.caption for image in entity.images if image.caption)))
    kept, changed, others, place = list[str](), list[str](), list[str](), 0
    for text in texts:  # most are in the entity as they are, in this order
        start = whole.find(text, place, place + len(text) + _AHEAD) if len(text) >= _LONG else -1
        end = start + len(text)
        if start >= 0 and not (whole[start - 1 : start] + whole[end : end + 1]).strip():
            others.append(whole[place:start])
            kept.append(text)
            place = end
        else:
            changed.append(text)
    wanted = word_keys("\n".join(changed))
    missing = Counter[str]()
    if wanted:
        others.append(whole[place:])
        missing = _missing(Counter(wanted), Counter(word_keys("\n".join(others))))
    return Difference(words_in(kept) + len(wanted), missing, _lost_pictures(pictures, entity) if pictures else {})


def _missing(wanted: Counter[str], there: Counter[str]) -> Counter[str]:
    """Returns the words that are wanted and not there, also not as parts of others (`fox/dog`) or in parts."""
    missing = Counter({word: lack for word, count in wanted.items() if (lack := count - there.get(word, 0)) > 0})
    if not missing:
        return missing
    surplus = (word for word, count in there.items() for _ in range(count - wanted.get(word, 0)))
    pieces = Counter(_PIECE.findall(" ".join(surplus)))
    for word in missing:
        parts = _PIECE.findall(word)
        while missing[word] and all(pieces[part] >= parts.count(part) for part in parts):
            pieces.subtract(parts)
            missing[word] -= 1
    return +missing


def _content_of(document: Document, names: set[str]) -> tuple[list[str], list[str]]:
    """Returns the texts of a document but for those that are `names`, and the addresses of its pictures."""
    texts, pictures, captions = list[str](), list[str](), list[str]()
    for part in document.parts:
        if isinstance(part, Heading):
            texts += [] if part.text in names else [part.text]
            continue
        whole = part_texts(part)
        texts += whole
        for picture in part.pictures:
            pictures.append(picture.url)
            caption = picture.caption or picture.alt
            captions += [] if any(caption in other for other in whole) else [caption]
    if captions or document.values:
        seen = names.union(texts)
        for text in (*captions, *_leaves(document.values)):
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
    """Yields the texts within values; they may be nested deeper than Python's stack."""
    waiting: list[Any] = [values]
    while waiting:
        value = waiting.pop()
        if type(value) is str:
            yield value.strip()
        elif isinstance(value, Mapping):
            sized = [name for name, item in value.items() if type(item) is int and folded(str(name)) in _SIZES]
            if sized and any(isinstance(item, str) and looks_like_image(item) for item in value.values()):
                value = {name: item for name, item in value.items() if name not in sized}
            waiting += reversed(value.values())
        elif isinstance(value, list | tuple):
            waiting += reversed(value)
        elif isinstance(value, int | float | Decimal | date | time) and not isinstance(value, bool) and value == value:
            yield str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _lost_pictures(urls: Iterable[str], entity: Entity) -> dict[str, str]:
    """Returns those addresses of pictures that are none of an entity's images, by `picture_name`.

    Sizes of one file are one picture. A picture that is contained in a text has no name: an entity has as many of them
    as images that nothing else names.
    """
    there = {image.url for image in entity.images} | ({entity.image} if entity.image else set())
    lost = [url for url in urls if url not in there]
    if not lost:
        return {}
    names = set(map(picture_name, there))
    inside = sum(url.startswith("embedded:") for url in there)
    result = {}
    for name, url in {picture_name(url): url for url in lost}.items():
        if is_embedded(url) and inside:
            inside -= 1
        elif name not in names:
            result[name] = url
    return result


def picture_name(url: str) -> str:
    """Returns the name of an image's file without its folders, extension and size; a text with the image is itself."""
    if is_embedded(url):
        return url
    name = posixpath.basename(unquote(re.split(r"[?#]", url.strip())[0]).replace("\\", "/"))
    return without_size(name, False) or url
